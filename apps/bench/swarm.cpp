#include "swarm.hpp"

#include "averaging/shape.hpp"
#include "base/frame.hpp"
#include "base/text.hpp"
#include "matchmaking/wire.hpp"
#include "tensor/partition.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <limits>
#include <numeric>
#include <thread>

namespace collab::bench {
namespace {

using nlohmann::json;

constexpr double kAnswerTime = 60;               // seconds
constexpr double kValuesPerSecondMin = 250'000;  // of all peers together; slower is a failure
constexpr double kIdealTimes = 10;               // that a round takes on lines
constexpr auto kSeenLater = std::chrono::milliseconds(500);

double slowest(const std::vector<json>& answers, const char* field) {
  double most = 0;
  for (const json& answer : answers)
    if (!answer.is_null()) most = std::max(most, answer.at(field).get<double>());
  return most;
}

}  // namespace

Swarm::Swarm(const Workload& workload, const std::string& log_level)
    : workload_(workload), codecs_(workload.codecs()), lines_(lines_of(workload.shape, workload.peers)) {
  std::vector<std::string> hosts;
  if (!lines_.empty()) network_.emplace(lines_, from_seconds(workload.queue_s));
  for (std::size_t i = 0; i < workload_.peers; ++i) {
    hosts.push_back(network_ ? network_->enter_next() : "127.0.0.1");
    peers_.push_back(std::make_unique<Child>(name(i), std::vector<std::string>{"worker"}));
    if (network_) network_->leave();
  }
  alive_.assign(peers_.size(), true);
  const TimePoint deadline = answer_deadline();
  json others = json::array();
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    const json setup = {{"index", i},
                        {"host", hosts[i]},
                        {"peers", workload_.peers},
                        {"tensors", workload_.tensors},
                        {"floats", workload_.floats},
                        {"codec", workload_.codec},
                        {"seed", workload_.seed},
                        {"plaintext", workload_.plaintext},
                        {"relayed", workload_.relayed},
                        {"relay_bits_per_s", workload_.relay_bits_per_s},
                        {"log_level", log_level}};
    peers_[i]->write_line(setup.dump());
  }
  for (const auto& peer : peers_) {
    others.push_back(json::parse(peer->read_line(deadline)));
    ids_.push_back(PeerId::parse(others.back().at("id").get<std::string>()).value());
  }
  ask_all({{"order", "meet"}, {"others", others}}, deadline);
}

bool StruckRound::committed() const {
  return all_or_nothing() &&
         std::all_of(ends.begin(), ends.end(), [](const End& end) { return !end.answered || end.committed; });
}

bool StruckRound::all_or_nothing() const {
  const End* first = nullptr;
  for (const End& end : ends) {
    if (!end.answered) continue;
    if (!end.committed && !end.unchanged) return false;
    if (!end.committed) continue;
    if (first != nullptr && first->digest != end.digest) return false;
    first = &end;
  }
  return true;
}

/// Their answers, at their places; of the others null.
std::vector<json> Swarm::ask(const std::vector<bool>& whom, const json& order, TimePoint deadline) {
  const std::string text = order.dump();
  for (std::size_t i = 0; i < peers_.size(); ++i)
    if (whom[i]) peers_[i]->write_line(text);
  std::vector<json> answers(peers_.size());
  const auto lines = hear(peers_, whom, deadline);
  for (std::size_t i = 0; i < peers_.size(); ++i)
    if (whom[i]) answers[i] = json::parse(lines[i]);
  return answers;
}

/// As `ask`, with an order for each, and none of them fails.
std::vector<json> Swarm::ask_each(const std::vector<bool>& whom, const std::function<json(std::size_t)>& order,
                                  TimePoint deadline) {
  for (std::size_t i = 0; i < peers_.size(); ++i)
    if (whom[i]) peers_[i]->write_line(order(i).dump());
  std::vector<json> answers(peers_.size());
  const auto lines = hear(peers_, whom, deadline);
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (!whom[i]) continue;
    answers[i] = json::parse(lines[i]);
    if (answers[i].contains("failed"))
      throw Failure(ExitCode::machine, fmt::format("{}: {}", name(i), answers[i].at("failed").get<std::string>()),
                    "--log-level info says why");
  }
  return answers;
}

std::vector<json> Swarm::ask_all(const json& order, TimePoint deadline) {
  return ask(alive_, order, deadline);
}

std::string Swarm::name(std::size_t index) const {
  return fmt::format("peer {} of {}", index, workload_.peers);
}

TimePoint Swarm::answer_deadline() const {
  const auto values = static_cast<double>(workload_.values()) * static_cast<double>(workload_.peers);
  return std::chrono::steady_clock::now() +
         from_seconds(kAnswerTime + values / kValuesPerSecondMin + kIdealTimes * ideal_seconds());
}

/// Of the living: as a leader plans it who knows everybody's line, or on loopback nobody's.
averaging::LoadPlan Swarm::plan() const {
  const auto bytes_per_value = [](const CodecMap& codecs) {
    return static_cast<double>(codecs.encoded_bytes({0, codecs.length()})) / static_cast<double>(codecs.length());
  };
  averaging::LoadOptions options;
  options.part_bytes_per_value = bytes_per_value(codecs_.parts());
  options.result_bytes_per_value = bytes_per_value(codecs_);
  std::vector<averaging::MemberLoad> loads;
  for (std::size_t i = 0; i < workload_.peers; ++i) {
    if (!alive_[i]) continue;
    const Line line = lines_.empty() ? Line() : lines_[i];
    loads.emplace_back().up_bytes_per_s = line.up_bytes_per_s;
    loads.back().down_bytes_per_s = line.down_bytes_per_s;
  }
  if (!workload_.equal_split) return averaging::plan_load(loads, codecs_.length(), options).value();
  options.segment_units_min = 1;  // all own something
  const std::vector<averaging::MemberLoad> alike(loads.size());
  auto plan = averaging::plan_load(alike, codecs_.length(), options).value();
  const double all = std::accumulate(plan.units.begin(), plan.units.end(), 0.0);
  std::vector<double> shares;
  for (const std::uint32_t units : plan.units) shares.push_back(units / all);
  plan.seconds = static_cast<double>(codecs_.length()) * averaging::predict(loads, options, shares).value().slowest;
  return plan;
}

matchmaking::Group Swarm::group_of(std::uint64_t round) const {
  const auto plan = this->plan();
  matchmaking::Group group;
  group.epoch = round;
  group.chunk_units = chunk_units_for(plan.units);
  group.codec_map = averaging::codec_map_digest(codecs_);
  group.schema = hash_bytes("collab bench schema", workload_.schema().canonical());
  for (std::size_t i = 0; i < ids_.size(); ++i) {
    if (!alive_[i]) continue;
    matchmaking::Member member;
    member.id = ids_[i];
    member.weight_max = weight_of(i);
    member.units = plan.units[group.roster.size()];
    group.roster.push_back(member);
  }
  return matchmaking::seal(std::move(group));
}

void Swarm::prepare(std::uint64_t number, TimePoint deadline) {
  const Frame begin = frame::encode(matchmaking::wire::Header(matchmaking::wire::to_wire(group_of(number))));
  const auto* bytes = reinterpret_cast<const unsigned char*>(begin->data());
  ask_all({{"order", "round"}, {"round", number}, {"begin", to_hex({bytes, begin->size()})}}, deadline);
}

RoundFigures Swarm::average(std::uint64_t number) {
  const TimePoint deadline = answer_deadline();
  prepare(number, deadline);

  const TimePoint started = std::chrono::steady_clock::now();
  const auto done = ask_all({{"order", "go"}}, deadline);
  RoundFigures figures;
  figures.seconds = to_seconds(std::chrono::steady_clock::now() - started);
  for (std::size_t i = 0; i < done.size(); ++i) {
    if (!alive_[i] || !done[i].contains("failed")) continue;
    throw Failure(ExitCode::machine,
                  fmt::format("round {} failed at {}: {}", number, name(i), done[i].at("failed").get<std::string>()),
                  "--log-level info says why; a machine without free processors is slow");
  }
  const auto settled = ask_all({{"order", "settle"}}, deadline);
  for (std::size_t i = 0; i < done.size(); ++i) {
    if (!alive_[i]) continue;
    figures.seconds_of_peer.push_back(done[i].at("seconds").get<double>());
    figures.cpu_s.push_back(settled[i].at("cpu_s").get<double>());
    figures.bytes_sent.push_back(settled[i].at("bytes_sent").get<std::uint64_t>());
    figures.counted = std::min(figures.counted, done[i].at("counted").get<double>());
    figures.views = std::max(figures.views, done[i].at("views").get<std::uint32_t>());
  }
  figures.exchange_s = slowest(done, "exchange_s");
  figures.commit_s = slowest(done, "commit_s");
  figures.apply_s = slowest(done, "apply_s");
  figures.predicted_s = slowest(done, "predicted_s");
  return figures;
}

Meeting Swarm::seek(std::uint64_t number, const std::vector<double>& after) {
  const TimePoint deadline = answer_deadline();
  for (std::size_t i = 0; i < peers_.size(); ++i)
    peers_[i]->write_line(json({{"order", "seek"}, {"round", number}, {"after", after[i]}}).dump());
  double last_declared = 0;
  std::vector<json> answers;
  for (const std::string& line : hear(peers_, alive_, deadline)) {
    answers.push_back(json::parse(line));
    if (answers.back().contains("failed"))
      throw Failure(ExitCode::machine, "no group: " + answers.back().at("failed").get<std::string>(),
                    "--log-level debug says what happened");
    last_declared = std::max(last_declared, answers.back().at("declared_at").get<double>());
  }
  Meeting meeting;
  meeting.full = true;
  for (const json& answer : answers) {
    meeting.seconds.push_back(answer.at("begun_at").get<double>() - last_declared);
    const bool same = answer.at("group") == answers.front().at("group");
    meeting.full = meeting.full && same && answer.at("members") == peers_.size();
  }
  return meeting;
}

PassOfAll Swarm::pass(std::uint64_t number, const std::vector<std::uint32_t>& radices) {
  const TimePoint deadline = answer_deadline();
  ask_all({{"order", "inputs"}, {"round", number}}, deadline);
  const auto order = [&](std::size_t) -> json { return {{"order", "pass"}, {"radices", radices}}; };
  const TimePoint started = std::chrono::steady_clock::now();
  PassOfAll pass;
  for (const json& answer : ask_each(alive_, order, deadline)) {
    pass.rounds += answer.at("rounds").get<std::size_t>();
    pass.rounds_full += answer.at("rounds_full").get<std::size_t>();
  }
  pass.seconds = to_seconds(std::chrono::steady_clock::now() - started);
  ask_all({{"order", "settle"}}, deadline);
  return pass;
}

std::vector<Carried> Swarm::carry(std::uint64_t number, double seconds, bool both_ways, std::size_t frame_bytes) {
  constexpr double kAskEvery = 0.02;
  std::vector<bool> ends(peers_.size());
  ends[0] = ends[1] = true;
  const auto order = [&](std::size_t i) -> json {
    return {{"order", "carry"},
            {"run", number},
            {"other", 1 - i},
            {"sends", i == 0 || both_ways},
            {"receives", i == 1 || both_ways},
            {"seconds", seconds},
            {"ask_every", i == 0 ? kAskEvery : 0},
            {"frame_bytes", frame_bytes}};
  };
  std::vector<Carried> carried;
  const auto spent = [this] {
    return ask_all({{"order", "spent"}}, answer_deadline()).back().at("cpu_s").get<double>();
  };
  spent();
  const auto answers = ask_each(ends, order, answer_deadline() + from_seconds(seconds));
  const double last_spent = spent();
  for (const json& answer : answers) {
    if (answer.is_null()) continue;
    Carried& one = carried.emplace_back();
    one.bytes = answer.at("bytes").get<std::uint64_t>();
    one.seconds = answer.at("seconds").get<double>();
    one.bytes_in_all = answer.at("bytes_in_all").get<std::uint64_t>();
    one.cpu_s = answer.at("cpu_s").get<double>();
    one.answers = answer.at("answers").get<std::vector<double>>();
  }
  if (workload_.relayed) carried.emplace_back().cpu_s = last_spent;
  return carried;
}

std::vector<Fetched> Swarm::fetch(std::size_t joiners) {
  const double bytes = static_cast<double>(workload_.values()) * sizeof(float);
  double slowest = bytes;  // a second each on loopback
  for (const Line& line : lines_) slowest = std::min({slowest, line.up_bytes_per_s, line.down_bytes_per_s});
  const TimePoint deadline =
      answer_deadline() + from_seconds(kIdealTimes * static_cast<double>(joiners) * bytes / slowest);
  ask_each(
      alive_,
      [&](std::size_t i) -> json {
        return {{"order", "ready"}, {"gives", i >= joiners}};
      },
      deadline);
  std::vector<bool> joins(peers_.size());
  json donors = json::array();
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    joins[i] = i < joiners;
    if (i >= joiners) donors.push_back(i);
  }
  const auto answers = ask_each(
      joins,
      [&](std::size_t) -> json {
        return {{"order", "fetch"}, {"donors", donors}};
      },
      deadline);
  const auto spent = ask_all({{"order", "spent"}}, deadline);
  std::vector<Fetched> fetched(peers_.size());
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    fetched[i].cpu_s = spent[i].at("cpu_s").get<double>();
    if (!joins[i]) continue;
    fetched[i].joined = true;
    fetched[i].bytes = answers[i].at("bytes").get<std::uint64_t>();
    fetched[i].seconds = answers[i].at("seconds").get<double>();
    fetched[i].donors = answers[i].at("donors").get<std::size_t>();
    fetched[i].whole = answers[i].at("whole").get<bool>();
  }
  return fetched;
}

std::vector<Written> Swarm::write_records(std::size_t records, double every_s) {
  const TimePoint deadline = answer_deadline() + from_seconds(2 * every_s * static_cast<double>(records));
  ask_all({{"order", "board"}}, deadline);
  const auto order = [&](std::size_t) -> json {
    return {{"order", "write"}, {"records", records}, {"every", every_s}};
  };
  const auto answers = ask_each(alive_, order, deadline);
  const auto spent = ask_all({{"order", "spent"}}, deadline);
  std::this_thread::sleep_for(kSeenLater);
  const auto seen = ask_all({{"order", "seen"}}, deadline);
  std::vector<Written> written(peers_.size());
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    Written& one = written[i];
    one.stored_s = answers[i].at("stored_s").get<std::vector<double>>();
    one.found_s = answers[i].at("found_s").get<std::vector<double>>();
    one.missing = answers[i].at("missing").get<std::size_t>();
    one.seconds = spent[i].at("seconds").get<double>();
    one.cpu_s = spent[i].at("cpu_s").get<double>();
    for (const json& pair : answers[i].at("written_at")) one.written_at.emplace(pair[0], pair[1]);
    for (std::size_t owner = 0; owner < peers_.size(); ++owner)
      for (const json& pair : seen[i].at("seen_at")[owner]) one.seen_at[owner].emplace(pair[0], pair[1]);
  }
  return written;
}

/// What their values are now.
void Swarm::look_at(const std::vector<bool>& whom, std::vector<End>& ends, TimePoint deadline) {
  const auto results = ask(whom, {{"order", "result"}}, deadline);
  const auto unchanged = ask(whom, {{"order", "unchanged"}}, deadline);
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (!whom[i]) continue;
    ends[i].digest = results[i].at("digest").get<std::string>();
    ends[i].unchanged = unchanged[i].at("unchanged").get<bool>();
  }
}

void Swarm::watch_links() {
  ask_all({{"order", "watch"}}, answer_deadline());
}

StruckRound Swarm::average_with(std::uint64_t number, const Strike& strike) {
  const TimePoint deadline = answer_deadline();
  prepare(number, deadline);
  StruckRound round;
  round.ends.resize(peers_.size());
  const TimePoint started = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < peers_.size(); ++i)
    if (alive_[i]) peers_[i]->write_line(json({{"order", "go"}}).dump());
  std::this_thread::sleep_until(started + from_seconds(strike.after_s));
  peers_[strike.victim]->strike(strike.signal);
  const TimePoint struck = std::chrono::steady_clock::now();
  std::vector<bool> others = alive_;
  others[strike.victim] = false;
  const auto answers = hear(peers_, others, deadline);
  round.seconds = to_seconds(std::chrono::steady_clock::now() - started);
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (!others[i]) continue;
    const json answer = json::parse(answers[i]);
    round.ends[i].answered = true;
    round.ends[i].committed = !answer.contains("failed");
    round.ends[i].seconds = round.ends[i].committed ? answer.at("seconds").get<double>() : round.seconds;
  }
  look_at(others, round.ends, deadline);
  if (strike.signal != SIGKILL) return round;
  alive_[strike.victim] = false;
  for (const json& lost : ask(others, {{"order", "lost"}, {"peer", strike.victim}}, deadline)) {
    if (lost.is_null() || lost.at("lost_at").is_null()) continue;  // dead, or nobody watches
    const TimePoint when = TimePoint(from_seconds(lost.at("lost_at").get<double>()));
    round.noticed_s = std::max(round.noticed_s, to_seconds(when - struck));
  }
  ask(others, {{"order", "settle"}}, deadline);
  return round;
}

End Swarm::thaw(std::size_t victim) {
  const TimePoint deadline = answer_deadline();
  std::vector<End> ends(peers_.size());
  std::vector<bool> only(peers_.size(), false);
  only[victim] = true;
  peers_[victim]->strike(SIGCONT);
  const json answer = json::parse(peers_[victim]->read_line(deadline));
  ends[victim].answered = true;
  ends[victim].committed = !answer.contains("failed");
  look_at(only, ends, deadline);
  ask_all({{"order", "settle"}}, deadline);
  return ends[victim];
}

Results Swarm::results() {
  const TimePoint deadline = answer_deadline();
  Results results;
  for (const json& answer : ask_all({{"order", "result"}}, deadline)) {
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
