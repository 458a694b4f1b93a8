// What the workloads of collab-sim measure, on swarms small enough for every change.
#include "sim/grid_deaths.hpp"
#include "sim/grid_swarm.hpp"
#include "sim/nat_matrix.hpp"
#include "sim/nat_pairs.hpp"
#include "sim/state_swarm.hpp"
#include "sim/swarm.hpp"

#include <algorithm>

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

SwarmOptions behind_boxes(std::uint64_t seed, std::size_t peers, std::uint64_t target_batch, Duration length) {
  SwarmOptions options;
  options.seed = seed;
  options.peers = peers;
  options.values = 4096;
  options.target_batch = target_batch;
  options.length = length;
  options.boxes = true;
  return options;
}

Outcome run_and_hold(const SwarmOptions& options) {
  Swarm swarm(options);
  Outcome outcome = swarm.run();
  for (const Violation& broken : outcome.violations) FAIL_CHECK(broken.invariant << ": " << broken.text);
  return outcome;
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

TEST_CASE(
    "workload nat: who is behind a box only dials, whatever the box, meets whoever is public, and by a relay anybody") {
  for (const std::uint64_t seed : test::seeds(2)) {
    CAPTURE(seed);
    NatPairsOptions options;
    options.seed = seed;
    const NatFacts facts = run_nat_pairs(options);
    for (const std::string& lie : nat_lies(facts)) FAIL_CHECK(lie);
    REQUIRE(facts.kinds.size() == 15);
    CHECK(facts.pairs.size() == 15 * 16 / 2);
    for (const NatPair& pair : facts.pairs) {
      CAPTURE(facts.kinds[pair.a].name);
      CAPTURE(facts.kinds[pair.b].name);
      const bool is_led_on = must_be_led_on(facts.kinds[pair.a], facts.kinds[pair.b]);
      const bool is_public = (!facts.kinds[pair.a].box || !facts.kinds[pair.b].box) && !is_led_on;
      CHECK(pair.led_on == is_led_on);
      CHECK((pair.a_dials || pair.b_dials) == is_public);
      const auto keeps_port = [&](std::size_t kind) {
        if (!facts.kinds[kind].box) return false;
        const NatMapping mapping = facts.kinds[kind].box->mapping;
        return mapping == NatMapping::none || mapping == NatMapping::endpoint_independent;
      };
      const bool one_home = pair.a == pair.b && facts.kinds[pair.a].shared;
      CHECK(pair.punched == (keeps_port(pair.a) && keeps_port(pair.b) && !one_home));
      CHECK((pair.relayed || pair.punched) != is_public);
      CHECK_FALSE((pair.relayed && pair.punched));
    }
    for (std::size_t kind = 0; kind < facts.kinds.size(); ++kind)
      CHECK(facts.states[kind] == (facts.kinds[kind].box ? nat::State::relayed : nat::State::open));
    for (const bool sure : facts.sure) CHECK(sure);
  }
}

TEST_CASE("workload nat: the same seed gives the same run") {
  NatPairsOptions options;
  options.kinds = {options.kinds[0], options.kinds[3], options.kinds[9]};  // dialled, punched, relayed
  CHECK(run_nat_pairs(options).fingerprint == run_nat_pairs(options).fingerprint);
}

TEST_CASE("workload nat: facts that cannot be are told") {
  NatFacts facts;
  facts.kinds.resize(2);
  facts.kinds[1].box.emplace();
  facts.states = {nat::State::open, nat::State::outbound_only};
  facts.pairs = {{0, 0, true, false}, {0, 1, false, true}, {1, 1, false, false}};
  CHECK(nat_lies(facts).empty());
  NatFacts met_before = facts;
  met_before.pairs[0] = {0, 0, false, true};
  CHECK(nat_lies(met_before).empty());
  NatFacts undialled = facts;
  undialled.pairs = {{1, 0, false, true}};
  CHECK(nat_lies(undialled).size() == 1);
  NatFacts unmet = facts;
  unmet.pairs[1].b_dials = false;
  CHECK(nat_lies(unmet).size() == 1);
  NatFacts open = facts;
  open.states[1] = nat::State::open;
  CHECK(!nat_lies(open).empty());
  NatFacts unknown = facts;
  unknown.states[1] = nat::State::unknown;
  CHECK(nat_lies(unknown).size() == 1);
  NatFacts apart = facts;
  apart.states[1] = nat::State::relayed;
  CHECK(nat_lies(apart).size() == 1);
  apart.pairs[2].relayed = true;
  CHECK(nat_lies(apart).empty());
  apart.pairs[2].took = 5s;
  CHECK(nat_lies(apart).size() == 1);
  NatFacts kept = apart;
  kept.pairs[2].took = {};
  kept.mappings = {nat::MappingKind::unknown, nat::MappingKind::independent};
  CHECK(nat_lies(kept).size() == 1);
  kept.pairs[2].relayed = false;
  kept.pairs[2].punched = true;
  CHECK(nat_lies(kept).empty());
  kept.mappings[1] = nat::MappingKind::dependent;
  CHECK(nat_lies(kept).size() == 1);
  apart.pairs[2].took = {};
  apart.pairs[2].led_on = true;
  CHECK(nat_lies(apart).size() == 1);
  facts.hidden_dials = 1;
  CHECK(nat_lies(facts).size() == 1);
}

TEST_CASE("workload nat: on short and on long ways each pair of boxes meets as its kinds allow, in time") {
  NatMatrixOptions options;
  options.tries = 1;
  const auto of = [&](NatMapping mapping, NatFilter filter) {
    const auto is_it = [&](const NatKind& kind) {
      return kind.box && !kind.shared && kind.box->mapping == mapping && kind.box->filter == filter;
    };
    const auto all = nat_kinds();
    return *std::find_if(all.begin(), all.end(), is_it);
  };
  const auto by_name = [](std::string_view name) {
    const auto all = nat_kinds();
    return *std::find_if(all.begin(), all.end(), [&](const NatKind& kind) { return kind.name == name; });
  };
  options.kinds = {by_name("public"), of(NatMapping::endpoint_independent, NatFilter::address_and_port),
                   of(NatMapping::none, NatFilter::address_and_port), by_name("only out to port 443"),
                   by_name("public, at another port")};
  const NatMatrix matrix = run_nat_matrix(options);
  for (const std::string& lie : matrix.lies) FAIL_CHECK(lie);
  for (const std::string& one : short_cells(matrix)) FAIL_CHECK(one);
  CHECK(matrix.tries == 1);
  REQUIRE(matrix.cells.size() == options.settings.size() * 15);
  for (const NatCell& cell : matrix.cells) {
    REQUIRE(cell.answered_in.size() == 1);
    if (cell.expected != NatWay::punched) continue;
    CHECK(cell.punched_in.front() > cell.answered_in.front());
    CHECK(cell.crossed_in.front() >= matrix.settings[cell.setting].links.latency_min);
    CHECK(cell.crossed_in.front() < cell.punched_in.front());
  }
}

TEST_CASE("workload nat: a cell that is late, or ends in another way too often, is told") {
  NatMatrix matrix;
  matrix.kinds = nat_kinds();
  matrix.settings = nat_settings();
  NatCell cell;
  cell.a = cell.b = 3;
  cell.expected = NatWay::punched;
  cell.tries = 50;
  cell.as_expected = 49;
  cell.answered_in.assign(49, 1s);
  cell.answered_in.back() = 9s;  // one of many may
  cell.punched_in.assign(49, 9s);
  matrix.cells = {cell};
  CHECK(short_cells(matrix).empty());
  matrix.cells[0].as_expected = 48;
  CHECK(short_cells(matrix).size() == 1);
  matrix.cells = {cell};
  matrix.cells[0].answered_in.assign(49, 2s);
  CHECK(short_cells(matrix).size() == 1);
  matrix.cells = {cell};
  matrix.cells[0].punched_in.back() = 11s;
  CHECK(short_cells(matrix).size() == 1);
  matrix.cells = {cell};
  matrix.cells[0].expected = NatWay::relayed;
  CHECK(short_cells(matrix).size() == 2);  // one try is missing, and one was late
}

TEST_CASE("sim: a run that wakes up too often is a livelock, and says who waits") {
  SwarmOptions options;
  options.peers = 3;
  options.epochs = 50;
  options.events_max = 20'000;
  Swarm swarm(options);
  const Outcome outcome = swarm.run();
  CHECK(outcome.out_of_budget);
  REQUIRE(outcome.violations.size() == 1);
  CHECK(outcome.violations.front().invariant == "livelock");
  CHECK(outcome.violations.front().text.find("peer 2: ") != std::string::npos);
}

TEST_CASE("sim: a run none of whose faults struck shows nothing, and one without faults does") {
  SwarmOptions options;
  options.peers = 3;
  options.epochs = 2;
  options.values = 4096;
  options.target_batch = 96;
  Swarm calm(options);
  CHECK(!calm.run().fault_missed());
  Fault of_nobody;
  of_nobody.peer = 7;
  of_nobody.at = 1s;
  of_nobody.length = 2s;
  options.faults.events.push_back(of_nobody);
  Swarm missed(options);
  const Outcome outcome = missed.run();
  CHECK(outcome.fault_missed());
  CHECK(outcome.faults.front().why_not == "there is no peer 7");
}

TEST_CASE("sim: a box that reboots costs its peer a round at most, and it comes back by another address") {
  for (const std::uint64_t seed : test::seeds(2)) {
    CAPTURE(seed);
    SwarmOptions options = behind_boxes(seed, 10, 320, 2min);
    Fault reboot;
    reboot.kind = FaultKind::reboot;
    reboot.aim = Aim::peer;
    reboot.at = 30s;
    reboot.length = 3s;
    for (reboot.peer = 1; reboot.peer < 10; ++reboot.peer) options.faults.events.push_back(reboot);
    const Outcome outcome = run_and_hold(options);
    std::size_t struck = 0;
    for (const FaultFact& fact : outcome.faults) struck += fact.struck ? 1 : 0;
    CHECK(struck > 0);  // at once, as after a power cut, as long as more than half are left
    CHECK(outcome.epochs > 20);
  }
}

TEST_CASE("sim: peers behind boxes train before anybody has found out who can be dialled") {
  for (const std::uint64_t seed : test::seeds(8)) {
    CAPTURE(seed);
    CHECK(run_and_hold(behind_boxes(seed, 6, 96, 40s)).epochs >= 15);
  }
}

TEST_CASE("sim: on a grid, too, peers behind boxes train, also where a group each would have nobody to dial") {
  for (const std::uint64_t seed : test::seeds(3)) {
    CAPTURE(seed);
    SwarmOptions options = behind_boxes(seed, 16, 1600, 45s);
    options.crypto = Crypto::fake;
    options.group_size_max = 6;  // two or three of them can be dialled: one group of all
    CHECK(run_and_hold(options).epochs >= 5);
  }
  SwarmOptions options = behind_boxes(1, 30, 4500, 30s);
  options.crypto = Crypto::fake;
  options.group_size_max = 12;  // enough for a grid
  CHECK(run_and_hold(options).epochs >= 3);
}

TEST_CASE("sim: on a long way, too, nobody dials a peer behind a box that has not been judged yet") {
  for (const std::uint64_t seed : test::seeds(8)) {
    CAPTURE(seed);
    SwarmOptions options = behind_boxes(seed, 8, 1280, 12s);
    options.links.latency_min = 100ms;
    options.links.latency_max = 180ms;  // a connection takes a second
    (void)run_and_hold(options);
  }
}

TEST_CASE("sim: lines that differ are worth segments that differ") {
  GridOptions options;
  options.peers = 8;
  options.values = 400'000;
  for (std::size_t i = 0; i < options.peers; ++i)
    options.lines.push_back(i < 2 ? LineOptions{125e6, 125e6} : LineOptions{2.5e6, 12.5e6});
  const double best = one_round(options);
  options.equal_split = true;
  CHECK(one_round(options) > 1.3 * best);
}

}  // namespace collab::sim
