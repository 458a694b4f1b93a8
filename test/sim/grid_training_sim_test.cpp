#include "small_swarm.hpp"

#include <map>
#include <string>

#include "support/doctest.hpp"

namespace collab::sim {
namespace {

bool is_complete_pass(const TraceLine& line) {
  return line.event == "averaging.pass" && line.text.find("complete=true") != std::string::npos;
}

/// Runs, and everything that must hold did. `complete`: passes of a peer that came to their end.
Outcome run_counting_passes(const SwarmOptions& options, std::size_t& complete) {
  Swarm swarm(options);
  swarm.trace([&](const TraceLine& line) { complete += is_complete_pass(line) ? 1 : 0; });
  Outcome outcome = swarm.run();
  check_held(outcome);
  return outcome;
}

}  // namespace

TEST_CASE("grid training: more peers than one group holds train on a grid, with equal parameters in every epoch") {
  for (const std::size_t peers : {9, 12}) {
    CAPTURE(peers);
    SwarmOptions options = small(3, peers, 14);
    options.units_per_pass = 1000;
    options.group_size_max = 4;
    std::size_t complete = 0;
    const Outcome outcome = run_counting_passes(options, complete);
    CHECK(outcome.epochs == 14);
    CHECK(complete >= 12 * peers);
    CHECK(outcome.rounds_failed == 0);
    CHECK(outcome.ledger.committed().count() == outcome.samples_committed);
  }
}

TEST_CASE("grid training: of a number that fits no grid of so small groups, nobody is turned away from a larger one") {
  for (const std::size_t peers : {5, 7}) {
    CAPTURE(peers);
    SwarmOptions options = small(1, peers, 12);
    options.group_size_max = 2;
    std::size_t complete = 0;
    const Outcome outcome = run_counting_passes(options, complete);
    CHECK(outcome.epochs == 12);
    CHECK(complete >= 10 * peers);
  }
}

TEST_CASE(
    "grid training: a swarm of ten times a group that gathers within seconds is on the grid as a whole two epochs "
    "later") {
  SwarmOptions options = small(1, 40, 4);
  options.target_batch = 160 * options.peers;  // all are there before the first epoch ends
  options.group_size_max = 4;
  Swarm swarm(options);
  std::map<std::string, std::size_t> passes;  // by epoch and how they ended
  const auto see = [&](const TraceLine& line) {
    if (line.event != "averaging.pass") return;
    const std::size_t from = line.text.find("epoch=");
    ++passes[line.text.substr(from, line.text.find(' ', from) - from) + (is_complete_pass(line) ? "" : " broken")];
  };
  swarm.trace(see);
  const Outcome outcome = swarm.run();
  check_held(outcome);
  CHECK(outcome.epochs == 4);
  for (int epoch = 2; epoch < 4; ++epoch) {
    CAPTURE(epoch);
    CHECK(passes["epoch=" + std::to_string(epoch)] == 40);
    CHECK(passes["epoch=" + std::to_string(epoch) + " broken"] == 0);
  }
}

TEST_CASE("grid training: while a swarm gathers, samples of who has no seat yet begin no epoch") {
  for (const std::uint64_t seed : {1, 2, 3}) {
    CAPTURE(seed);
    SwarmOptions options = small(seed, 40, 3);
    options.target_batch = 64 * options.peers;
    options.group_size_max = 4;
    Swarm swarm(options);
    const Outcome outcome = swarm.run();
    check_held(outcome);
    CHECK(outcome.epochs == 3);
    CHECK(outcome.samples_committed >= 3 * options.target_batch);
  }
}

TEST_CASE(
    "grid training: on a grid, whoever dies or freezes is missed for a few epochs and gets a new place when it is "
    "back") {
  for (const FaultKind kind : {FaultKind::kill, FaultKind::freeze}) {
    CAPTURE(name(kind));
    SwarmOptions options = small(5, 12, 28);
    options.units_per_pass = 1000;
    options.group_size_max = 4;
    options.faults.events = {timed(12s, kind, 3, 12s)};
    Swarm swarm(options);
    std::map<std::size_t, std::size_t> complete;  // passes by peer, in the last half of the run
    const auto see = [&](const TraceLine& line) {
      if (line.at > 40s && is_complete_pass(line)) ++complete[line.peer];
    };
    swarm.trace(see);
    const Outcome outcome = swarm.run();
    check_held(outcome);
    CHECK(outcome.epochs == 28);
    CHECK(complete.size() == 12);
    for (const auto& [peer, passes] : complete) CHECK(passes >= 5);
  }
}

TEST_CASE("grid training: where nobody in a cell can be dialled the coordinator leads it, in each round") {
  for (const std::size_t clients : {9, 7}) {
    CAPTURE(clients);
    SwarmOptions options = small(3, 9, 12);
    options.units_per_pass = 1000;
    options.clients = clients;
    options.grid = {3, 3};
    options.coordinator_averages = true;
    std::size_t complete = 0;
    const Outcome outcome = run_counting_passes(options, complete);
    CHECK(outcome.epochs == 12);
    CHECK(complete >= 9 * 9);
    CHECK(outcome.rounds_failed == 0);
    CHECK(outcome.ledger.committed().count() == outcome.samples_committed);
  }
}

TEST_CASE("grid training: a coordinator that leads cells dies and comes back, and all train on with what they had") {
  SwarmOptions options = small(4, 9, 14);
  options.clients = 9;
  options.grid = {3, 3};
  options.coordinator_averages = true;
  Fault away;
  away.kind = FaultKind::coordinator;
  away.at = 14s;
  away.length = 5s;
  options.faults.events = {away};
  const Outcome outcome = run_and_check(options);
  CHECK(outcome.epochs == 14);
}

TEST_CASE("grid training: a grid that the host asked for waits for as many peers as it has cells") {
  SwarmOptions options = small(5, 8, 6);  // on a grid of nine cells values of some would never come to others
  options.grid = {3, 3};
  const Outcome outcome = run_and_check(options);
  CHECK(outcome.epochs == 6);
}

}  // namespace collab::sim
