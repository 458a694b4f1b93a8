#include "monitor/json.hpp"

#include "base/text.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <unistd.h>

namespace collab::monitor {
namespace {

/// Keeps the order of the fields, as a person would read them.
using Json = nlohmann::ordered_json;

/// Names of peers are any bytes.
std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json known(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

template <class T>
Json known(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json reply(std::int64_t unix_ms) {
  Json json;
  json["version"] = kJsonVersion;
  json["time"] = rfc3339(unix_ms);
  return json;
}

Json run_json(const SwarmView& view) {
  const RunView& run = view.run;
  Json json;
  json["run_id"] = run.run_id;
  json["self"] = run.self.text();
  json["pid"] = ::getpid();
  json["connected"] = run.connected;
  json["epoch"] = run.epoch;
  json["samples"] = run.samples;
  json["target_batch_samples"] = run.target_batch_samples;
  json["eta_s"] = known(run.eta_s);
  json["samples_per_s"] = view.samples_per_s;
  json["own_samples"] = run.own_samples;
  json["loss_train"] = known(run.loss_train);
  json["loss_heldout"] = known(run.loss_heldout);
  json["checkpoint_age_s"] = known(run.checkpoint_age_s);
  json["clock_offset_s"] = known(run.clock_offset_s);
  json["peers"] = view.peers.size() + view.peers_left_out;
  json["last_event_id"] = run.last_event_id;
  json["join_command"] = run.join_command.empty() ? Json(nullptr) : Json(run.join_command);
  json["join_link"] = run.join_link.empty() ? Json(nullptr) : Json(run.join_link);
  return json;
}

Json peer_json(const PeerView& peer) {
  Json json;
  json["id"] = peer.id.text();
  json["name"] = peer.name;
  json["role"] = peer.role;
  json["reachability"] = peer.reachability;
  json["software"] = peer.software;
  json["epoch"] = known(peer.epoch);
  json["samples"] = peer.epoch ? Json(peer.samples) : Json(nullptr);
  json["samples_per_s"] = peer.epoch ? Json(peer.samples_per_s) : Json(nullptr);
  json["hash_ok"] = known(peer.hash_ok);
  json["last_seen_s"] = known(peer.last_seen_s);
  json["rtt_s"] = known(peer.rtt_s);
  json["up_bytes_per_s"] = known(peer.up_bytes_per_s);
  json["down_bytes_per_s"] = known(peer.down_bytes_per_s);
  json["path"] = peer.path.empty() ? Json(nullptr) : Json(peer.path);
  json["bulk_bytes"] = peer.bulk_bytes;
  return json;
}

Json member_json(const RoundMember& member) {
  Json json;
  json["id"] = member.whole_id ? member.id.text() : member.id.short_text();
  json["role"] = member.role;
  json["counted_share"] = known(member.counted);
  json["samples"] = member.samples;
  json["left_out"] = member.left_out.empty() ? Json(nullptr) : Json(member.left_out);
  json["up_bytes"] = member.up_bytes;
  json["down_bytes"] = member.down_bytes;
  return json;
}

Json round_json(const RoundView& round) {
  Json json;
  json["told_by"] = round.told_by ? Json(round.told_by->text()) : Json(nullptr);
  json["epoch"] = round.epoch;
  json["round"] = round.round;
  json["group"] = round.group;
  json["result"] = round.result;
  json["reason"] = round.reason.empty() ? Json(nullptr) : Json(round.reason);
  json["ended"] = rfc3339(round.ended_unix_ms);
  json["exchange_s"] = known(round.exchange_s);
  json["commit_s"] = known(round.commit_s);
  json["apply_s"] = known(round.apply_s);
  json["samples"] = round.samples;
  json["up_bytes"] = round.up_bytes;
  json["down_bytes"] = round.down_bytes;
  json["members"] = Json::array();
  for (const RoundMember& member : round.members) json["members"].push_back(member_json(member));
  return json;
}

Json curve_json(const LossCurve& curve, std::optional<std::uint64_t> after) {
  Json json;
  for (const char* column : {"epoch", "loss", "loss_low", "loss_high"}) json[column] = Json::array();
  for (const LossPoint& point : curve.points()) {
    if (after && point.epoch <= *after) continue;
    json["epoch"].push_back(point.epoch);
    json["loss"].push_back(point.mean());
    json["loss_low"].push_back(point.low);
    json["loss_high"].push_back(point.high);
  }
  return json;
}

Json field_json(const EventField& field) {
  const auto convert = [](const auto& value) -> Json {
    using T = std::decay_t<decltype(value)>;
    if constexpr (std::is_same_v<T, double>) return known(value);
    if constexpr (std::is_same_v<T, std::string>) return value.substr(0, kEventTextBytesMax);
    return value;
  };
  return std::visit(convert, field.second);
}

}  // namespace

std::string rfc3339(std::int64_t unix_ms) {
  using namespace std::chrono;
  const sys_time<milliseconds> time{milliseconds(unix_ms)};
  const auto day = floor<days>(time);
  const year_month_day date(day);
  const hh_mm_ss clock(time - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), clock.hours().count(),
                     clock.minutes().count(), clock.seconds().count(), clock.subseconds().count());
}

std::string state_json(const SwarmView& view, const std::deque<RoundView>& rounds, std::size_t rounds_max) {
  Json json = reply(view.unix_ms);
  json["run"] = run_json(view);
  json["peers"] = Json::array();
  for (const PeerView& peer : view.peers) json["peers"].push_back(peer_json(peer));
  json["rounds"] = Json::array();
  const std::size_t shown = std::min(rounds.size(), rounds_max);
  for (std::size_t i = 0; i < shown; ++i) json["rounds"].push_back(round_json(rounds[rounds.size() - 1 - i]));
  return text_of(json);
}

std::string history_json(std::int64_t unix_ms, const LossHistory& losses, std::optional<std::uint64_t> after) {
  Json json = reply(unix_ms);
  json["training"] = curve_json(losses.training(), after);
  json["heldout"] = curve_json(losses.heldout(), after);
  return text_of(json);
}

std::string event_json(std::uint64_t id, std::int64_t unix_ms, const NewEvent& event) {
  Json json;
  json["id"] = id;
  json["time"] = rfc3339(unix_ms);
  json["type"] = name(event.type);
  json["epoch"] = known(event.epoch);
  json["peer"] = event.peer ? Json(event.peer->text()) : Json(nullptr);
  json["data"] = Json::object();
  for (const EventField& field : event.data) json["data"][field.first] = field_json(field);
  return text_of(json);
}

std::string error_json(std::int64_t unix_ms, std::string_view code, std::string_view message) {
  Json json = reply(unix_ms);
  json["error"]["code"] = code;
  json["error"]["message"] = message;
  return text_of(json);
}

std::string health_json(std::int64_t unix_ms, bool connected) {
  Json json = reply(unix_ms);
  json["status"] = "ok";
  json["connected"] = connected;
  return text_of(json);
}

std::string leaving_json(std::int64_t unix_ms) {
  Json json = reply(unix_ms);
  json["leaving"] = true;
  json["pid"] = ::getpid();
  return text_of(json);
}

}  // namespace collab::monitor
