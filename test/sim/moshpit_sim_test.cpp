#include "sim/grid_deaths.hpp"
#include "sim/grid_swarm.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "support/doctest.hpp"

// Passes of real peers: production connections (with TLS), searches and rounds on a simulated network.

namespace collab::sim {
namespace {

using namespace std::chrono_literals;

GridOptions grid_of(std::size_t peers, std::vector<std::uint32_t> radices, std::size_t group_size_max,
                    std::uint64_t seed = 1) {
  GridOptions options;
  options.seed = seed;
  options.peers = peers;
  options.radices = std::move(radices);
  options.group_size_max = group_size_max;
  return options;
}

void check_exact(GridOptions options) {
  CAPTURE(options.peers);
  GridSwarm swarm(options);
  swarm.run();
  const GridResult result = swarm.result();
  CHECK(result.complete == options.peers);
  CHECK(result.equal_bytes);
  CHECK(result.max_relative_error <= 1e-6);
  CHECK(result.largest_group <= options.group_size_max);
  std::uint64_t weight = 0;
  Work work;
  for (std::size_t i = 0; i < swarm.size(); ++i) {
    weight += swarm.peer(i).own().weight;
    work.add(swarm.peer(i).own().work);
    CHECK(swarm.peer(i).report().counted);
    CHECK(swarm.peer(i).report().rounds.size() == swarm.schedule().rounds());
  }
  CHECK(result.weight == weight);
  CHECK(result.equal_work);
  CHECK(result.work == work);
}

bool complete(const GridPeer& peer) {
  return peer.outcome() && *peer.outcome();
}

/// A round's number, when this is the line that says that it is there or over.
std::optional<std::uint64_t> round_in(std::string_view event, std::string_view wanted, Log::Fields fields) {
  if (event != wanted) return std::nullopt;
  for (const LogField& field : fields)
    if (field.name == "round") return std::get<std::uint64_t>(field.value);
  return std::nullopt;
}

/// Kills it when that round has committed.
void kill_after_round(GridSwarm& swarm, std::size_t victim, std::uint64_t round, bool& struck) {
  const auto kill = [&swarm, &struck, victim, round](std::size_t peer, std::string_view what, Log::Fields fields) {
    if (struck || peer != victim || round_in(what, "averaging.round", fields) != round) return;
    struck = true;
    swarm.kill(victim);
  };
  swarm.on_event(kill);
}

/// Who did not complete the pass holds what it had before; those who did hold the same bytes.
void check_whole_or_nothing(const GridSwarm& swarm) {
  CHECK(swarm.result().equal_bytes);
  CHECK(swarm.result().equal_work);
  for (std::size_t i = 0; i < swarm.size(); ++i)
    if (!complete(swarm.peer(i))) CHECK(swarm.peer(i).values() == swarm.peer(i).own().values);
}

/// Two peers of one first group that come to the same second group, the voice first.
std::pair<std::size_t, std::size_t> voice_and_stand_in(const GridSwarm& swarm) {
  const auto& schedule = swarm.schedule();
  for (std::size_t i = 0; i < swarm.size(); ++i) {
    const PeerId& self = swarm.peer(i).id();
    for (const PeerId& other : schedule.group(self, 2))
      if (self < other && schedule.dropped(self, 2) == schedule.dropped(other, 2)) return {i, swarm.number_of(other)};
  }
  throw std::logic_error("no cell has a surplus peer");
}

}  // namespace

TEST_CASE("moshpit: after a pass everybody holds the exact weighted mean in the same bytes, for any number of peers") {
  check_exact(grid_of(16, {4, 4}, 4));
  check_exact(grid_of(18, {4, 4}, 6));
  check_exact(grid_of(30, {3, 3, 3}, 6));
  check_exact(grid_of(64, {8, 8}, 8));
  check_exact(grid_of(70, {}, 16));
  check_exact(grid_of(97, {}, 16));
}

TEST_CASE("moshpit: with every codec the whole swarm ends with the same bytes") {
  for (const CodecId codec : kCodecIds) {
    if (codec == CodecId::float32) continue;  // every other test
    CAPTURE(static_cast<int>(codec));
    GridOptions options = grid_of(18, {4, 4}, 6, 5);
    options.codec = codec;
    GridSwarm swarm(options);
    swarm.run();
    CHECK(swarm.result().complete == 18);
    CHECK(swarm.result().equal_bytes);
    // of 8 bits, twice; or what senders owe, once
    CHECK(swarm.result().max_relative_error < (owes(codec) ? 2 : 0.02));
  }
}

TEST_CASE("moshpit: the same seed gives the same pass") {
  GridSwarm first(grid_of(16, {4, 4}, 4, 3));
  first.run();
  GridSwarm second(grid_of(16, {4, 4}, 4, 3));
  second.run();
  CHECK(first.fingerprint() == second.fingerprint());
  CHECK(first.length() == second.length());
}

TEST_CASE(
    "moshpit: when a peer dies between two rounds, its next group lacks a cell and applies nothing, all others do") {
  for (const std::uint64_t seed : {1, 2, 3}) {
    CAPTURE(seed);
    GridSwarm swarm(grid_of(16, {4, 4}, 4, seed));
    const std::size_t victim = seed;
    bool struck = false;
    kill_after_round(swarm, victim, 1, struck);
    swarm.run();
    REQUIRE(struck);
    check_whole_or_nothing(swarm);
    const auto lacking = swarm.schedule().group(swarm.peer(victim).id(), 2);
    for (std::size_t i = 0; i < swarm.size(); ++i) {
      if (i == victim) continue;
      const GridPeer& peer = swarm.peer(i);
      const bool lacks = std::find(lacking.begin(), lacking.end(), peer.id()) != lacking.end();
      CHECK(complete(peer) == !lacks);
      CHECK(peer.report().counted);
      if (lacks) CHECK(peer.outcome()->error() == Errc::stale);
    }
    CHECK(swarm.result().complete == 12);
    CHECK(swarm.result().max_relative_error <= 1e-6);  // the dead peer's values were handed on by its first group
    CHECK(swarm.length() < 8s);
  }
}

TEST_CASE("moshpit: in three dimensions a lack is seen by everybody whom it reaches, and by nobody else") {
  GridSwarm swarm(grid_of(27, {3, 3, 3}, 3));
  const std::size_t victim = 7;
  bool struck = false;
  kill_after_round(swarm, victim, 1, struck);
  swarm.run();
  REQUIRE(struck);
  check_whole_or_nothing(swarm);
  std::set<PeerId> reached;
  for (const PeerId& mate : swarm.schedule().group(swarm.peer(victim).id(), 2))
    for (const PeerId& last : swarm.schedule().group(mate, 3)) reached.insert(last);
  CHECK(reached.size() == 9);
  for (std::size_t i = 0; i < swarm.size(); ++i)
    if (i != victim) CHECK(complete(swarm.peer(i)) == !reached.contains(swarm.peer(i).id()));
  CHECK(swarm.result().max_relative_error <= 1e-6);
}

TEST_CASE(
    "moshpit: when the voice of a first group dies in the second round, the next of it speaks and nothing is lost") {
  for (const std::uint64_t seed : {1, 2, 3, 4}) {
    CAPTURE(seed);
    GridSwarm swarm(grid_of(18, {4, 4}, 6, seed));
    const auto [voice, stand_in] = voice_and_stand_in(swarm);
    std::set<PeerId> waiting;  // for the group in which it is to speak
    for (const PeerId& mate : swarm.schedule().group(swarm.peer(voice).id(), 2)) waiting.insert(mate);
    const auto kill_when_all_know = [&](std::size_t peer, std::string_view event, Log::Fields fields) {
      if (round_in(event, "matchmaking.begun", fields) != 2) return;
      if (waiting.erase(swarm.peer(peer).id()) > 0 && waiting.empty()) swarm.kill(voice);
    };
    swarm.on_event(kill_when_all_know);
    swarm.run();
    REQUIRE(waiting.empty());
    check_whole_or_nothing(swarm);
    CHECK(swarm.result().complete == 17);
    CHECK(swarm.result().max_relative_error <= 1e-6);
    CHECK(complete(swarm.peer(stand_in)));
    CHECK(swarm.length() < 8s);
  }
}

TEST_CASE("moshpit: a death in each round costs its own group seconds, and the rounds of the others nothing") {
  for (const std::uint64_t seed : {1, 2, 3}) {
    CAPTURE(seed);
    const DeathsFacts facts = measure_deaths(grid_of(16, {4, 4}, 4, seed));
    CHECK(facts.struck);
    CHECK(facts.whole_or_nothing);
    CHECK(facts.more_s_max <= 5);
    CHECK(facts.others > 0);
    CHECK(facts.others <= 1.1);
  }
}

TEST_CASE("moshpit: whoever is killed at whatever byte of a round, all or nothing, and a live quorum commits") {
  for (const std::uint64_t seed : test::seeds(12)) {
    CAPTURE(seed);
    GridOptions options = grid_of(2 + seed % 15, {}, 16, seed);
    const KilledFacts facts = kill_anywhere(options);
    for (const std::string& broken : facts.broken) FAIL_CHECK(broken);
    if (options.peers > 2) CHECK(facts.committed == options.peers - 1);
  }
}

TEST_CASE("moshpit: who comes too late for its first group only receives, and ends with the others' bytes") {
  for (const std::uint64_t seed : {1, 2}) {
    CAPTURE(seed);
    GridSwarm swarm(grid_of(18, {4, 4}, 6, seed));
    const auto [late, mate] = voice_and_stand_in(swarm);
    swarm.freeze_first(late, 2300ms);  // its first group gives it up after 2 s
    swarm.run();
    check_whole_or_nothing(swarm);
    CHECK(swarm.result().complete == 18);
    CHECK(!swarm.peer(late).report().counted);
    CHECK(swarm.peer(mate).report().counted);
    std::uint64_t weight = 0;
    for (std::size_t i = 0; i < swarm.size(); ++i) weight += i == late ? 0 : swarm.peer(i).own().weight;
    CHECK(swarm.result().weight == weight);
  }
}

TEST_CASE("moshpit: a first group whose units another one has is left out everywhere, and its peers know") {
  GridSwarm swarm(grid_of(16, {4, 4}, 4, 6));
  const auto row_of = [&swarm](std::size_t peer) { return swarm.schedule().group(swarm.peer(peer).id(), 1); };
  std::size_t twin = 1;
  while (row_of(twin) == row_of(0)) ++twin;
  swarm.claim(twin, swarm.peer(0).own().work);
  swarm.run();
  const GridResult result = swarm.result();
  CHECK(result.complete == 16);
  CHECK(result.equal_bytes);
  CHECK(result.equal_work);

  const bool first_counts = swarm.peer(0).report().counted;
  CHECK(swarm.peer(twin).report().counted != first_counts);
  const auto left_out = row_of(first_counts ? twin : 0);
  std::uint64_t weight = 0;
  double sum = 0;
  for (std::size_t i = 0; i < swarm.size(); ++i) {
    const GridPeer& peer = swarm.peer(i);
    const bool counted = row_of(i) != left_out;
    CAPTURE(i);
    CHECK(peer.report().counted == counted);
    CHECK(peer.report().overlapped == !counted);
    if (!counted) continue;
    weight += peer.own().weight;
    sum += static_cast<double>(peer.own().weight) * peer.own().values[0];
  }
  CHECK(result.weight == weight);
  CHECK(std::abs(swarm.peer(0).values()[0] - sum / static_cast<double>(weight)) <= 1e-6);
}

TEST_CASE("moshpit: who missed the round in which its first group was left out knows that it was") {
  unsigned lost = 0;
  for (const std::uint64_t seed : {1, 2, 3, 4}) {
    CAPTURE(seed);
    GridSwarm swarm(grid_of(20, {2, 2, 2}, 8, seed));
    const auto [voice, absent] = voice_and_stand_in(swarm);
    const auto row_of = [&swarm](std::size_t peer) { return swarm.schedule().group(swarm.peer(peer).id(), 1); };
    std::size_t twin = 0;
    while (row_of(twin) == row_of(absent)) ++twin;
    swarm.claim(twin, swarm.peer(voice).own().work);
    bool struck = false;
    swarm.on_event([&, absent = absent](std::size_t peer, std::string_view what, Log::Fields fields) {
      if (struck || peer != absent || round_in(what, "averaging.round", fields) != 1) return;
      struck = true;
      swarm.freeze(absent, 2500ms);
    });
    swarm.run();
    REQUIRE(struck);
    check_whole_or_nothing(swarm);
    for (std::size_t i = 0; i < swarm.size(); ++i) {
      CAPTURE(i);
      const GridPeer& peer = swarm.peer(i);
      if (i == twin || i == voice || !complete(peer)) continue;  // the units of these two are in once
      Work missing = peer.own().work;
      missing.subtract(swarm.result().work);
      CHECK(peer.report().counted == missing.empty());
    }
    const GridPeer& peer = swarm.peer(absent);
    const bool missed = complete(peer) && peer.outcome()->value().rounds.size() < swarm.schedule().rounds();
    if (missed && !peer.report().counted) ++lost;
  }
  CHECK(lost > 0);
}

}  // namespace collab::sim
