// Epochs while peers die, freeze, are cut off or banned; and planted bugs, which must be found.

#include "base/file.hpp"
#include "sim/shrink.hpp"
#include "small_swarm.hpp"
#include "support/temp_folder.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "support/doctest.hpp"

namespace collab::sim {
namespace {

/// The invariants that the first of some seeds broke; empty when none was.
std::string found_by(SwarmOptions options, std::uint64_t seeds) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    options.seed = seed;
    Swarm swarm(options);
    const Outcome outcome = swarm.run();
    if (!outcome.violations.empty()) return outcome.violations.front().invariant;
  }
  return {};
}

}  // namespace

TEST_CASE("epoch faults sim: a run is the same run with cryptography that costs nothing, also when bits flip") {
  for (const std::uint64_t seed : test::seeds(2)) {
    CAPTURE(seed);
    SwarmOptions options = small(seed, 4, 12);
    options.faults.events.push_back(timed(14s, FaultKind::corrupt, 1, 0s));
    options.faults.events.push_back(timed(17s, FaultKind::kill, 2, 3s));
    options.crypto = Crypto::fake;
    const Outcome fake = run_and_check(options);
    options.crypto = Crypto::real;
    CHECK(run_and_check(options).fingerprint == fake.fingerprint);
  }
}

TEST_CASE("epoch faults sim: clocks that differ by a minute, or by 200 ppm for minutes, change nothing") {
  for (const std::uint64_t seed : test::seeds(2)) {
    CAPTURE(seed);
    SwarmOptions options = small(seed, 5, 40);
    options.clock_ahead_max = 29s;
    options.drift_ppm_max = 200;
    options.faults.events.push_back(timed(20s, FaultKind::kill, 2, 5s));
    options.faults.events.push_back(timed(25s, FaultKind::join, 0, 0s));
    (void)run_and_check(options);
  }
}

TEST_CASE("epoch faults sim: in a storm clocks that are up to 110 s apart change nothing, and everybody joins") {
  for (const std::uint64_t seed : {4, 5, 30}) {  // the coordinator had taken the time of the first who came
    CAPTURE(seed);
    SwarmOptions options = small(seed, 6, 0);
    options.values = 4096;
    options.length = 180s;
    options.crypto = Crypto::fake;
    options.clock_ahead_max = 55s;
    options.drift_ppm_max = 200;
    options.faults = load_faults("storm");
    check_held(Swarm(options).run());
  }
}

TEST_CASE("epoch faults sim: when a peer is banned the other goes on within a second") {
  std::vector<std::uint64_t> seeds = test::seeds(8);
  for (const std::uint64_t more : {14, 42, 51, 109}) seeds.push_back(more);  // it had just signed with the banned one
  for (const std::uint64_t seed : seeds) {
    CAPTURE(seed);
    SwarmOptions options = small(seed, 2, 0);
    options.target_batch = 64;
    options.rates = {64, 64};
    options.length = 40s;
    const Duration at = 20s + seed * 53ms;  // at any moment of an epoch
    options.faults.events = {timed(at, FaultKind::ban, 1, 0s)};
    const Outcome outcome = run_and_check(options);
    Duration before{};
    for (const EpochFact& fact : outcome.epoch_facts) {
      CAPTURE(fact.epoch);
      if (fact.committed > at)
        CHECK(to_seconds(fact.committed - before) <= 2);  // one of them is what it computes alone
      if (fact.begun > at + 2s) CHECK_FALSE(fact.weights.contains(1));
      before = fact.committed;
    }
    CHECK(before > at + 10s);
  }
}

TEST_CASE("epoch faults sim: who was banned is back when the ban is over") {
  SwarmOptions options = small(1, 4, 30);
  options.faults.events = {timed(14s, FaultKind::ban, 2, 20s), timed(20s, FaultKind::ban, 1, 0s)};
  const Outcome outcome = run_and_check(options);
  CHECK(outcome.epoch_facts.back().weights.contains(2));
  CHECK_FALSE(outcome.epoch_facts.back().weights.contains(1));
}

TEST_CASE(
    "epoch faults sim: killed or frozen in the middle of a round, a peer holds nobody up and comes back by itself") {
  for (const Phase phase : {Phase::begin, Phase::scatter, Phase::reduce, Phase::gather, Phase::hold, Phase::commit}) {
    for (const FaultKind kind : {FaultKind::kill, FaultKind::freeze}) {
      const bool an_owner = phase == Phase::reduce || phase == Phase::gather;
      const Aim aim = an_owner ? Aim::any : Aim::coordinator;
      CAPTURE(name(phase));
      CAPTURE(name(kind));
      SwarmOptions options = small(3, 4, 14);
      options.faults.events.push_back(aimed(phase, kind, 7s, aim));
      const Outcome outcome = run_and_check(options);
      for (const PeerFact& peer : outcome.peers) CHECK(peer.epoch == 14);
    }
  }
}

TEST_CASE(
    "epoch faults sim: who has signed in a round that failed goes on when all of its groupmates say that it did") {
  SwarmOptions options;
  options.seed = 800186;
  options.peers = 6;
  options.target_batch = 600;
  options.values = 2048;
  options.length = 30s;
  options.links.loss = 0.01;
  options.crypto = Crypto::fake;
  const Fault in_round = timed(11491791021ns, FaultKind::freeze, 3, 4800ms);
  options.faults.events = {timed(4317909417ns, FaultKind::kill, 1, 5500ms),
                           timed(7398999925ns, FaultKind::freeze, 2, 6500ms), in_round};
  const Outcome outcome = run_and_check(options);
  const auto is_next = [&](const EpochFact& fact) { return fact.committed > in_round.at; };
  const auto next = std::find_if(outcome.epoch_facts.begin(), outcome.epoch_facts.end(), is_next);
  REQUIRE(next != outcome.epoch_facts.end());
  const Duration thawed = in_round.at + in_round.length;
  CHECK(next->committed > thawed);  // four are no more than half of six without one of them: the round failed
  CHECK(to_seconds(next->committed - thawed) <= 3);  // 8 s while three of them waited for word
}

TEST_CASE("epoch faults sim: training goes on without the coordinator, and with it again") {
  SwarmOptions options = small(1, 4, 20);
  options.faults.events.push_back(timed(12s, FaultKind::coordinator, 0, 10s));
  run_and_check(options);
}

TEST_CASE("epoch faults sim: without any coordinator newcomers who know one old peer join the one swarm") {
  for (const std::uint64_t seed : {1, 2}) {
    CAPTURE(seed);
    SwarmOptions options = small(seed, 8, 0);
    options.length = 240s;
    const Duration gone = 15s + seed * 7300ms;
    options.faults.events = {timed(gone, FaultKind::coordinator, 0, 0s), timed(gone + 70s, FaultKind::join, 0, 0s),
                             timed(gone + 140s, FaultKind::join, 0, 0s)};
    const Outcome outcome = run_and_check(options);
    REQUIRE(outcome.epoch_facts.size() > 60);
    CHECK(outcome.epoch_facts.back().weights.contains(8));
    CHECK(outcome.epoch_facts.back().weights.contains(9));
    Duration before = 10s;
    for (const EpochFact& fact : outcome.epoch_facts) {  // the coordinator's end costs no epoch
      if (fact.committed > 15s) CHECK(fact.committed - before < 6s);
      before = fact.committed;
    }
  }
}

TEST_CASE("epoch faults sim: two parts that have trained apart are one swarm within three epochs") {
  SwarmOptions options = small(1, 10, 0);
  options.length = 270s;
  Fault split = timed(20s, FaultKind::split, 0, 150s);  // longer than a record lives
  split.amount = 0.4;
  options.faults.events = {split};
  const Outcome outcome = run_and_check(options);
  const Duration healed = 170s;
  std::size_t epochs_since = 0;
  for (const EpochFact& fact : outcome.epoch_facts) {
    if (fact.begun > 30s && fact.begun < healed) CHECK(fact.weights.size() <= 6);
    if (fact.begun < healed + 20s) continue;  // peers look for those who are gone twice a minute
    if (++epochs_since > 3) CHECK(fact.weights.size() == 10);
  }
  CHECK(epochs_since > 10);
}

TEST_CASE("epoch faults sim: under churn, and in a storm of every fault, every invariant holds") {
  FaultPlan churn = load_faults("churn");
  for (auto& [kind, rate] : churn.mixture.rates) rate = kind == FaultKind::leave ? rate : 20;
  FaultPlan storm = load_faults("storm");
  for (auto& [kind, rate] : storm.mixture.rates) rate *= 2;
  for (const FaultPlan& faults : {churn, storm}) {
    for (const std::uint64_t seed : test::seeds(2)) {
      CAPTURE(seed);
      SwarmOptions options = small(seed, 6, 0);
      options.length = 90s;
      options.faults = faults;
      Swarm swarm(options);
      const Outcome outcome = swarm.run();
      check_held(outcome);
      CHECK(std::any_of(outcome.faults.begin(), outcome.faults.end(), [](const auto& fact) { return fact.struck; }));
      CHECK(outcome.epochs > 10);
    }
  }
}

TEST_CASE("epoch faults sim: what strikes while peers join, and in their first epochs, breaks no invariant either") {
  const test::TempFolder folder;
  const std::string early = folder.path() / "early.toml";
  write_file(early, "[rates]\nfrom = 1\nkill = 60\nfreeze = 60\npartition = 60\nmute = 30\ncorrupt = 30\n");
  for (const std::uint64_t seed : test::seeds(8)) {
    CAPTURE(seed);
    SwarmOptions options = small(seed, 5, 0);
    options.length = 45s;
    options.crypto = Crypto::fake;
    options.faults = load_faults(early);
    const Outcome outcome = Swarm(options).run();
    check_held(outcome);
    const auto joining = [](const FaultFact& fact) { return fact.struck && *fact.struck < 15s; };
    CHECK(std::any_of(outcome.faults.begin(), outcome.faults.end(), joining));
  }
}

TEST_CASE("epoch faults sim: one fault of each kind, and every invariant holds") {
  using enum FaultKind;
  const std::map<FaultKind, double> amounts = {{mute, 0},   {deaf, 0},    {slow, 8},  {flap, 2},
                                               {drift, 80}, {corrupt, 0}, {spoil, 0}, {swizzle, 0}};
  for (const auto& [kind, amount] : amounts) {
    CAPTURE(name(kind));
    SwarmOptions options = small(3, 5, 20);
    options.faults.events.push_back(timed(15s, kind, 2, kind == corrupt || kind == spoil ? 0s : 10s));
    options.faults.events.back().amount = amount;
    const Outcome outcome = run_and_check(options);
    CHECK(outcome.epochs == 20);
  }
}

TEST_CASE(
    "epoch faults sim: two of six are cut off together, and have no epoch of their own when they hear nobody else") {
  for (const std::uint64_t seed : test::seeds(3)) {
    CAPTURE(seed);
    SwarmOptions options = small(seed, 6, 0);
    options.length = 40s;
    options.faults.events = {timed(15s, FaultKind::partition, 2, 6s), timed(15s, FaultKind::partition, 4, 6s)};
    const Outcome outcome = run_and_check(options);
    CHECK(outcome.epochs > 10);
  }
}

TEST_CASE("epoch faults sim: a peer that steps alone when it is cut off is found, and no correct peer does") {
  SwarmOptions options = small(1, 3, 0);
  options.target_batch = 64;
  options.length = 90s;
  options.faults.events.push_back(timed(15s, FaultKind::partition, 1, 40s));
  CHECK(found_by(options, 2).empty());
  options.plant = Plant::no_quorum;
  CHECK(found_by(options, 5) == "agree");
}

TEST_CASE("epoch faults sim: sums in order of arrival are found") {
  SwarmOptions options = small(1, 4, 4);
  options.codec = CodecId::float32;
  options.plant = Plant::arrival_order;
  CHECK(found_by(options, 5) == "mean");
}

TEST_CASE(
    "epoch faults sim: a run that breaks something is shrunk to what it takes, and the schedule breaks it again") {
  const auto breaks_ledger = [](const SwarmOptions& options) {
    const auto violations = Swarm(options).run().violations;
    return std::any_of(violations.begin(), violations.end(), [](const auto& one) { return one.invariant == "ledger"; });
  };
  for (const std::uint64_t seed : test::seeds(2)) {
    CAPTURE(seed);
    SwarmOptions options = small(seed, 5, 30);
    options.plant = Plant::sum_twice;
    for (const Duration at : {15s, 20s, 25s}) options.faults.events.push_back(timed(at, FaultKind::slow, 1, 2s));
    for (Fault& fault : options.faults.events) fault.amount = 2;
    options.faults.events.push_back(timed(22s, FaultKind::kill, 2, 6s));
    options.faults.events.push_back(aimed(Phase::hold, FaultKind::freeze, 6s));
    const Outcome broken = Swarm(options).run();
    REQUIRE(!broken.violations.empty());
    REQUIRE(broken.violations.front().invariant == "ledger");
    const Shrunk shrunk = shrink(options, broken, {[] { return false; }, [](const Shrunk&) {}});
    const std::vector<Fault>& left = shrunk.options.faults.events;
    CHECK(left.size() <= 2);
    CHECK((shrunk.options.peers < options.peers || shrunk.options.values < options.values));
    for (std::size_t i = 0; i < left.size(); ++i) {
      CAPTURE(describe(left[i]));
      SwarmOptions without = shrunk.options;
      without.faults.events.erase(without.faults.events.begin() + static_cast<std::ptrdiff_t>(i));
      CHECK(!breaks_ledger(without));
    }

    const test::TempFolder folder;
    const std::string schedule = folder.path() / "schedule.toml";
    write_file(schedule, to_toml(left));
    SwarmOptions again = shrunk.options;
    again.faults = load_faults(schedule);
    const Outcome repeated = Swarm(again).run();
    REQUIRE(!repeated.violations.empty());
    CHECK(repeated.violations.front().invariant == "ledger");
    CHECK(repeated.violations.front().at == shrunk.violation.at);
  }
}

TEST_CASE("epoch faults sim: a failed round that leaves something behind is found") {
  SwarmOptions options = small(1, 3, 3);
  options.aborted_rounds = 1;
  CHECK(found_by(options, 1).empty());
  options.plant = Plant::keep_partial;
  CHECK(found_by(options, 5) == "atomic");
}

TEST_CASE("epoch faults sim: samples that count in two epochs are found") {
  SwarmOptions options = small(1, 4, 14);
  options.faults.events.push_back(aimed(Phase::hold, FaultKind::freeze, 6s));
  options.plant = Plant::sum_twice;
  CHECK(found_by(options, 5) == "ledger");
}

TEST_CASE("epoch faults sim: a missed round whose units are not entered in the ledger is found") {
  SwarmOptions options = small(1, 4, 14);
  options.units_per_pass = 1000;
  options.faults.events.push_back(aimed(Phase::hold, FaultKind::freeze, 6s));
  CHECK(found_by(options, 2).empty());
  options.plant = Plant::skip_ledger;
  CHECK(found_by(options, 2) == "units");
}

TEST_CASE("epoch faults sim: who has another ledger or other parameters fetches the others' as soon as they show") {
  for (const double ledger : {0.0, 1.0}) {
    CAPTURE(ledger);
    SwarmOptions options = small(1, 5, 0);
    options.length = 60s;
    options.target_batch = 640;  // epochs of eight seconds
    options.units_per_pass = 2000;
    options.faults.events = {timed(20s, FaultKind::spoil, 2, 0s)};
    options.faults.events.back().amount = ledger;
    Swarm swarm(options);
    Duration stepped{};
    Duration fetched{};
    swarm.trace([&](const TraceLine& line) {
      if (line.peer != 2 || line.at < 20s) return;
      if (line.event == "epoch.committed" && stepped == Duration()) stepped = line.at;
      if (line.event == "state.downloaded") fetched = line.at;
    });
    const Outcome outcome = swarm.run();
    check_held(outcome);
    check_struck(outcome);
    CHECK(stepped > 20s);
    CHECK(fetched > stepped);
    CHECK(fetched < stepped + 3s);
  }
}

TEST_CASE("epoch faults sim: an epoch that begins before its target batch is there is found") {
  SwarmOptions options = small(1, 4, 6);
  options.plant = Plant::begin_early;
  CHECK(found_by(options, 2) == "begin");
}

}  // namespace collab::sim
