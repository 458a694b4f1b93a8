#include "swarm.hpp"

#include "averaging/load_balance.hpp"
#include "averaging/shape.hpp"
#include "base/frame.hpp"
#include "base/text.hpp"
#include "matchmaking/wire.hpp"
#include "tensor/partition.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <limits>

namespace collab::bench {
namespace {

using nlohmann::json;

constexpr double kAnswerTime = 60;               // seconds
constexpr double kValuesPerSecondMin = 250'000;  // of all peers together; slower is a failure

TimePoint answer_deadline(const Workload& workload) {
  const auto values = static_cast<double>(workload.values()) * static_cast<double>(workload.peers);
  return std::chrono::steady_clock::now() + from_seconds(kAnswerTime + values / kValuesPerSecondMin);
}

std::vector<json> ask_all(Children& peers, const json& order, TimePoint deadline) {
  const std::string text = order.dump();
  for (const auto& peer : peers) peer->write_line(text);
  std::vector<json> answers;
  for (const std::string& line : hear(peers, std::vector<bool>(peers.size(), true), deadline))
    answers.push_back(json::parse(line));
  return answers;
}

double slowest(const std::vector<json>& answers, const char* field) {
  double most = 0;
  for (const json& answer : answers) most = std::max(most, answer.at(field).get<double>());
  return most;
}

}  // namespace

Swarm::Swarm(const Workload& workload, const std::string& log_level) : workload_(workload), codecs_(workload.codecs()) {
  const TimePoint deadline = answer_deadline(workload_);
  for (std::size_t i = 0; i < workload_.peers; ++i)
    peers_.push_back(std::make_unique<Child>(name(i), std::vector<std::string>{"worker"}));
  json others = json::array();
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    const json setup = {{"index", i},
                        {"peers", workload_.peers},
                        {"tensors", workload_.tensors},
                        {"floats", workload_.floats},
                        {"codec", workload_.codec},
                        {"seed", workload_.seed},
                        {"log_level", log_level}};
    peers_[i]->write_line(setup.dump());
  }
  for (const auto& peer : peers_) {
    others.push_back(json::parse(peer->read_line(deadline)));
    ids_.push_back(PeerId::parse(others.back().at("id").get<std::string>()).value());
  }
  ask_all(peers_, {{"order", "meet"}, {"others", others}}, deadline);
}

std::string Swarm::name(std::size_t index) const {
  return fmt::format("peer {} of {}", index, workload_.peers);
}

/// As a leader plans it who has measured nobody's line.
matchmaking::Group Swarm::group_of(std::uint64_t round) const {
  const double bytes = static_cast<double>(codecs_.encoded_bytes({0, codecs_.length()}));
  averaging::LoadOptions options;
  options.part_bytes_per_value = options.result_bytes_per_value = bytes / static_cast<double>(codecs_.length());
  const std::vector<averaging::MemberLoad> loads(ids_.size());
  const auto plan = averaging::plan_load(loads, codecs_.length(), options).value();
  matchmaking::Group group;
  group.epoch = round;
  group.chunk_units = chunk_units_for(plan.units);
  group.codec_map = averaging::codec_map_digest(codecs_);
  group.schema = hash_bytes("collab bench schema", workload_.schema().canonical());
  for (std::size_t i = 0; i < ids_.size(); ++i) {
    matchmaking::Member member;
    member.id = ids_[i];
    member.weight_max = weight_of(i);
    member.units = plan.units[i];
    group.roster.push_back(member);
  }
  return matchmaking::seal(std::move(group));
}

RoundFigures Swarm::average(std::uint64_t number) {
  const TimePoint deadline = answer_deadline(workload_);
  const Frame begin = frame::encode(matchmaking::wire::Header(matchmaking::wire::to_wire(group_of(number))));
  const auto* bytes = reinterpret_cast<const unsigned char*>(begin->data());
  ask_all(peers_, {{"order", "round"}, {"round", number}, {"begin", to_hex({bytes, begin->size()})}}, deadline);

  const TimePoint started = std::chrono::steady_clock::now();
  const auto done = ask_all(peers_, {{"order", "go"}}, deadline);
  RoundFigures figures;
  figures.seconds = to_seconds(std::chrono::steady_clock::now() - started);
  for (std::size_t i = 0; i < done.size(); ++i) {
    if (!done[i].contains("failed")) continue;
    throw Failure(ExitCode::machine,
                  fmt::format("round {} failed at {}: {}", number, name(i), done[i].at("failed").get<std::string>()),
                  "--log-level info says why; a machine without free processors is slow");
  }
  const auto settled = ask_all(peers_, {{"order", "settle"}}, deadline);
  for (std::size_t i = 0; i < done.size(); ++i) {
    figures.seconds_of_peer.push_back(done[i].at("seconds").get<double>());
    figures.cpu_s.push_back(settled[i].at("cpu_s").get<double>());
    figures.bytes_sent.push_back(settled[i].at("bytes_sent").get<std::uint64_t>());
    figures.counted = std::min(figures.counted, done[i].at("counted").get<double>());
    figures.views = std::max(figures.views, done[i].at("views").get<std::uint32_t>());
  }
  figures.exchange_s = slowest(done, "exchange_s");
  figures.commit_s = slowest(done, "commit_s");
  figures.apply_s = slowest(done, "apply_s");
  return figures;
}

Results Swarm::results() {
  const TimePoint deadline = answer_deadline(workload_);
  Results results;
  for (const json& answer : ask_all(peers_, {{"order", "result"}}, deadline)) {
    results.digests.push_back(answer.at("digest").get<std::string>());
    results.peak_memory_bytes =
        std::max(results.peak_memory_bytes, answer.at("peak_memory_bytes").get<std::uint64_t>());
    results.descriptors = std::max(results.descriptors, answer.at("descriptors").get<std::uint64_t>());
  }
  const auto differs = [&](const std::string& digest) { return digest != results.digests.front(); };
  results.equal_bytes = std::none_of(results.digests.begin(), results.digests.end(), differs);
  // of equal bytes one peer's error is that of all
  for (std::size_t i = 0; i < (results.equal_bytes ? 1 : peers_.size()); ++i) {
    peers_[i]->write_line(json({{"order", "error"}}).dump());
    const json error = json::parse(peers_[i]->read_line(deadline)).at("max_relative_error");
    // JSON has no infinity
    results.max_relative_error = error.is_null() ? std::numeric_limits<double>::infinity()
                                                 : std::max(results.max_relative_error, error.get<double>());
  }
  return results;
}

}  // namespace collab::bench
