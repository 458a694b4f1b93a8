#include "sim/grid_deaths.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

namespace collab::sim {
namespace {

constexpr double kMeanError = 1e-5;                     // of values that are N(0,1), in float32
constexpr Duration kSlowest = std::chrono::seconds(8);  // to notice a death, to agree, and the round itself

std::optional<std::uint64_t> round_in(std::string_view event, std::string_view wanted, Log::Fields fields) {
  if (event != wanted) return std::nullopt;
  for (const LogField& field : fields)
    if (field.name == "round") return std::get<std::uint64_t>(field.value);
  return std::nullopt;
}

bool complete(const GridPeer& peer) {
  return peer.outcome() && *peer.outcome();
}

bool whole_or_nothing(const GridSwarm& swarm) {
  bool held = swarm.result().equal_bytes && swarm.result().equal_work;
  for (std::size_t i = 0; i < swarm.size(); ++i)
    held = held && (complete(swarm.peer(i)) || swarm.peer(i).values() == swarm.peer(i).own().values);
  return held;
}

bool in_group(const GridSwarm& swarm, std::uint64_t round, std::size_t peer, std::size_t other) {
  const auto group = swarm.schedule().group(swarm.peer(peer).id(), static_cast<std::uint32_t>(round));
  return std::find(group.begin(), group.end(), swarm.peer(other).id()) != group.end();
}

/// Each value is the mean of everybody, or of everybody but the victim: its owner may have had its part.
bool is_mean(const GridSwarm& swarm, std::size_t victim, const GridPeer& of) {
  for (std::size_t i = 0; i < of.values().size(); ++i) {
    double sum = 0;
    double weight = 0;
    for (std::size_t peer = 0; peer < swarm.size(); ++peer) {
      if (peer == victim) continue;
      const auto& own = swarm.peer(peer).own();
      sum += static_cast<double>(own.weight) * own.values[i];
      weight += static_cast<double>(own.weight);
    }
    const auto& lost = swarm.peer(victim).own();
    const auto more = static_cast<double>(lost.weight);
    const double value = of.values()[i];
    const bool without = std::abs(value - sum / weight) <= kMeanError;
    if (!without && std::abs(value - (sum + more * lost.values[i]) / (weight + more)) > kMeanError) return false;
  }
  return true;
}

}  // namespace

RoundSeconds pass_with_deaths(GridSwarm& swarm, const std::vector<std::size_t>& victims, bool& struck) {
  RoundSeconds seconds;
  std::vector<std::set<PeerId>> waiting;
  for (std::size_t i = 0; i < victims.size(); ++i) {
    const auto group = swarm.schedule().group(swarm.peer(victims[i]).id(), static_cast<std::uint32_t>(i + 1));
    std::set<PeerId> all(group.begin(), group.end());
    for (std::size_t before = 0; before < i; ++before) all.erase(swarm.peer(victims[before]).id());
    waiting.push_back(std::move(all));
  }
  const auto seen = [&](std::size_t peer, std::string_view event, Log::Fields fields) {
    for (std::size_t i = 0; i < victims.size(); ++i) {
      if (round_in(event, "matchmaking.begun", fields) != i + 1) continue;
      if (waiting[i].erase(swarm.peer(peer).id()) > 0 && waiting[i].empty()) swarm.kill(victims[i]);
    }
    const auto round = round_in(event, "averaging.round", fields);
    for (const LogField& field : fields)
      if (round && field.name == "seconds") seconds[{*round, peer}] = std::get<double>(field.value);
  };
  swarm.on_event(seen);
  swarm.run();
  struck = std::all_of(waiting.begin(), waiting.end(), [](const auto& left) { return left.empty(); });
  return seconds;
}

DeathsFacts measure_deaths(const GridOptions& options) {
  DeathsFacts facts;
  bool none = false;
  GridSwarm calm(options);
  const RoundSeconds before = pass_with_deaths(calm, {}, none);
  std::size_t second = 1;
  while (second < calm.size() && (in_group(calm, 1, 0, second) || in_group(calm, 2, 0, second))) ++second;
  if (second == calm.size()) return facts;
  const std::vector<std::size_t> victims = {0, second};
  GridSwarm swarm(options);
  const RoundSeconds after = pass_with_deaths(swarm, victims, facts.struck);
  facts.whole_or_nothing = whole_or_nothing(swarm);
  facts.complete = swarm.result().complete;
  double others_before = 0;
  double others_after = 0;
  for (const auto& [key, took] : after) {
    const auto& [round, peer] = key;
    if (peer == victims[0] || peer == victims[1] || !before.contains(key)) continue;
    if (in_group(swarm, round, peer, victims[round - 1])) {
      facts.more_s_max = std::max(facts.more_s_max, took - before.at(key));
    } else {
      others_before += before.at(key);
      others_after += took;
    }
  }
  facts.others = others_before > 0 ? others_after / others_before : 0;
  return facts;
}

double one_round(GridOptions options) {
  options.radices = {static_cast<std::uint32_t>(options.peers)};
  options.group_size_max = options.peers;
  GridSwarm swarm(options);
  bool none = false;
  double slowest = 0;
  for (const auto& [who, seconds] : pass_with_deaths(swarm, {}, none)) slowest = std::max(slowest, seconds);
  return slowest;
}

KilledFacts kill_anywhere(GridOptions options) {
  options.radices = {static_cast<std::uint32_t>(options.peers)};
  options.group_size_max = options.peers;
  Random random = Random(options.seed).derive("sim.kill");
  KilledFacts facts;
  facts.victim = random.below(options.peers);
  GridSwarm calm(options);
  Duration begun{};
  const auto all_know = [&](std::size_t, std::string_view event, Log::Fields) {
    if (event == "matchmaking.begun") begun = calm.now();
  };
  calm.on_event(all_know);
  calm.run();
  facts.at = begun + from_seconds(random.uniform() * to_seconds(calm.length() - begun));
  GridSwarm swarm(options);
  swarm.kill_at(facts.victim, facts.at);
  swarm.run();
  facts.length = swarm.length();
  const GridPeer* one = nullptr;
  for (std::size_t i = 0; i < swarm.size(); ++i) {
    if (i == facts.victim) continue;  // nobody is there who could hold anything
    const GridPeer& peer = swarm.peer(i);
    if (!complete(peer)) {
      if (peer.values() != peer.own().values) facts.broken.emplace_back("atomic");
      continue;
    }
    ++facts.committed;
    if (one == nullptr) one = &peer;
    if (peer.values() != one->values()) facts.broken.emplace_back("agree");
    if (!is_mean(swarm, facts.victim, peer)) facts.broken.emplace_back("mean");
  }
  const bool live = 2 * (options.peers - 1) > options.peers;
  if (live && (facts.committed < options.peers - 1 || facts.length > kSlowest)) facts.broken.emplace_back("live");
  return facts;
}

}  // namespace collab::sim
