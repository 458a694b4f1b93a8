// What the workloads of collab-sim measure, on swarms small enough for every change.
#include "sim/grid_swarm.hpp"
#include "sim/state_swarm.hpp"
#include "sim/swarm.hpp"

#include "support/doctest.hpp"

namespace collab::sim {
namespace {

using namespace std::chrono_literals;

GridOptions far_apart(std::uint64_t seed) {
  GridOptions options;
  options.seed = seed;
  options.peers = 72;
  options.radices = {8, 9};
  options.values = 4096;
  options.links.latency_min = options.links.latency_max = 40ms;
  return options;
}

}  // namespace

TEST_CASE("workload matchmaking: connected peers are all in full groups two round trips after the last declaration") {
  auto seeds = test::seeds(2);
  seeds.push_back(10);  // the last to declare had no line to who led next, and began after 258 ms
  for (const std::uint64_t seed : seeds) {
    CAPTURE(seed);
    GridSwarm swarm(far_apart(seed));
    const auto windows = swarm.meet(2, 5s);
    REQUIRE(windows.size() == 2);
    for (const auto& window : windows) CHECK(window_facts(window).full_share == 1);
    const WindowFacts connected = window_facts(windows[1]);
    CHECK(connected.groups >= 8);
    CHECK(connected.begin_after_max <= 2 * 80ms + 50ms);
    CHECK(connected.begin_after_max >= 40ms);  // somebody had to hear of the last one
  }
}

TEST_CASE("workload matchmaking: a group that lacks somebody counts for none of its members") {
  Meeting whole;
  whole.members = whole.cell = 2;
  whole.declared = TimePoint(1s);
  whole.begun = TimePoint(3s);
  Meeting later = whole;
  later.declared = TimePoint(2s);
  Meeting partial = whole;
  partial.cell = 3;
  partial.group[0] = 1;
  const Meeting none;
  const WindowFacts facts = window_facts({whole, later, partial, none});
  CHECK(facts.full_share == 0.5);
  CHECK(facts.groups == 1);
  CHECK(facts.begin_after_max == 1s);
}

TEST_CASE("workload state: joiners get the donors' bytes although one donor lies and another dies") {
  for (const std::uint64_t seed : test::seeds(2)) {
    CAPTURE(seed);
    StateSwarmOptions options;
    options.seed = seed;
    options.donors = 5;
    options.joiners = 6;
    options.state_bytes = 3'000'000;
    options.liars = options.dying = 1;
    options.dies_within = 500ms;
    const StateFacts facts = run_state_swarm(options);
    std::size_t liars = 0;
    for (const JoinerFact& joiner : facts.joiners) {
      CHECK(joiner.whole);
      liars += joiner.liars;
    }
    CHECK(liars > 0);
    CHECK(facts.seconds_of(0.5) <= facts.seconds_of(1));
    CHECK(facts.line_share > 0.02);
    CHECK(run_state_swarm(options).fingerprint == facts.fingerprint);
    options.joiners = 1;
    options.liars = options.dying = 0;
    CHECK(run_state_swarm(options).seconds_of(1) < facts.seconds_of(1));
  }
}

TEST_CASE(
    "workload state: many joiners are done in three times what one needs, for they give each other what they have") {
  for (const std::uint64_t seed : test::seeds(2)) {
    CAPTURE(seed);
    StateSwarmOptions options;
    options.seed = seed;
    options.joiners = 30;
    options.liars = options.dying = 1;
    const StateFacts facts = run_state_swarm(options);
    std::size_t donors = 0;
    for (const JoinerFact& joiner : facts.joiners) {
      CHECK(joiner.whole);
      donors += joiner.donors;
    }
    CHECK(donors >= 5 * options.joiners);
    CHECK(facts.line_share >= 0.85);
    options.joiners = 1;
    options.liars = options.dying = 0;
    CHECK(facts.seconds_of(0.95) <= 3 * run_state_swarm(options).seconds_of(1));
  }
}

TEST_CASE("workload idle: a swarm that does not train has no epoch, and is looked at as often as was asked for") {
  SwarmOptions options;
  options.peers = 3;
  options.trains = false;
  options.length = 3min;
  options.weigh_every = 30s;
  Swarm swarm(options);
  const Outcome outcome = swarm.run();
  CHECK(outcome.violations.empty());
  CHECK(outcome.epochs == 0);
  REQUIRE(outcome.holdings.size() >= 5);
  for (const Holdings& held : outcome.holdings) {
    CHECK(held.connections >= 3);  // with the coordinator at least
    CHECK(held.streams >= held.connections);
    CHECK(held.timers > 0);
    CHECK(held.tasks >= 3);
  }
}

}  // namespace collab::sim
