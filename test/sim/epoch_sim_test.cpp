#include "small_swarm.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "support/doctest.hpp"

namespace collab::sim {
namespace {

/// Epochs of some ten milliseconds; a fourth peer comes when they are in full swing.
SwarmOptions short_epochs(std::uint64_t seed, Duration latency, std::uint64_t epochs) {
  SwarmOptions options = small(seed, 3, epochs);
  options.values = 4096;
  options.links.latency_min = options.links.latency_max = latency;
  options.rates = {1600, 1600, 1600};
  options.samples_per_s = 1600;
  options.faults.events.push_back(timed(8s, FaultKind::join, 0, 0s));
  return options;
}

}  // namespace

TEST_CASE("epoch sim: two peers and eight commit equal bytes in every epoch") {
  for (const std::size_t peers : {2U, 8U}) {
    for (const std::uint64_t seed : test::seeds(2)) {
      CAPTURE(peers);
      CAPTURE(seed);
      const Outcome outcome = run_and_check(small(seed, peers, 6));
      CHECK(outcome.epoch_facts.size() == 6);
      CHECK(outcome.epoch_facts.back().loss < outcome.epoch_facts.front().loss);
    }
  }
}

TEST_CASE("epoch sim: a step has its target batch, and at most one microbatch of each peer more") {
  constexpr std::uint64_t kFirstEpochs = 4;  // of a peer whose rate is not known yet less is believed than it has
  for (const std::size_t peers : {2U, 4U, 8U}) {
    for (const std::uint64_t seed : test::seeds(2)) {
      CAPTURE(peers);
      CAPTURE(seed);
      SwarmOptions options = small(seed, peers, 12);
      options.links.latency_min = options.links.latency_max = 1ms;  // what ends on the way of a Begin comes on top
      const Outcome outcome = run_and_check(options);
      REQUIRE(outcome.epoch_facts.size() == 12);
      for (const EpochFact& fact : outcome.epoch_facts) {
        CAPTURE(fact.epoch);
        CHECK(fact.weight >= options.target_batch);
        if (fact.epoch >= kFirstEpochs) CHECK(fact.weight <= options.target_batch + peers * options.microbatch);
      }
    }
  }
}

TEST_CASE("epoch sim: what a faster groupmate hands over is here when the own microbatch ends") {
  // a part has 1 MiB, of which 256 KiB come to who has not opened the round; microbatches of a second end in no order
  SwarmOptions options = small(1, 2, 6);
  options.values = std::size_t(1) << 20U;
  options.target_batch = 96;
  options.microbatch = 16;
  options.rates = {16, 13};
  options.links.latency_min = options.links.latency_max = 100ms;
  std::map<std::string, double> last_joiner_s;  // by epoch: the round took it least
  Swarm swarm(options);
  swarm.trace([&](const TraceLine& line) {
    if (line.event != "averaging.round") return;
    const auto number = [&](const std::string& field) {
      const std::size_t at = line.text.find(field + "=") + field.size() + 1;
      return std::string(line.text.substr(at, line.text.find(' ', at) - at));
    };
    const double seconds = std::stod(number("seconds"));
    const auto first = last_joiner_s.try_emplace(number("epoch"), seconds).first;
    first->second = std::min(first->second, seconds);
  });
  check_held(swarm.run());
  CHECK(last_joiner_s.size() == 6);
  for (const auto& [epoch, seconds] : last_joiner_s) {
    CAPTURE(epoch);
    CHECK(seconds < 0.77);  // 0.79 when the rest of the parts comes after the round was opened
  }
}

TEST_CASE("epoch sim: a late joiner gets the state and takes part") {
  SwarmOptions options = small(1, 4, 12);
  options.faults.events.push_back(timed(14s, FaultKind::join, 0, 0s));
  const Outcome outcome = run_and_check(options);
  REQUIRE(outcome.peers.size() == 5);
  CHECK(outcome.peers.back().epoch == 12);
  CHECK(outcome.epoch_facts.back().weights.contains(4));
}

TEST_CASE("epoch sim: a late joiner finds its place among epochs as short as what it takes to fetch one") {
  for (const Duration latency : {Duration(2ms), Duration(5ms)}) {
    for (const std::uint64_t seed : test::seeds(2)) {
      CAPTURE(seed);
      CAPTURE(to_seconds(latency));
      const Outcome outcome = run_and_check(short_epochs(seed, latency, 300));
      REQUIRE(outcome.peers.size() == 4);
      const auto after = [](const EpochFact& fact) { return fact.begun > 10s; };
      const auto first = std::find_if(outcome.epoch_facts.begin(), outcome.epoch_facts.end(), after);
      REQUIRE(first != outcome.epoch_facts.end());
      for (auto fact = first; fact != outcome.epoch_facts.end(); ++fact) {
        CAPTURE(fact->epoch);
        CHECK(fact->weights.contains(3));
      }
    }
  }
}

TEST_CASE("epoch sim: who joins one that trains alone gets in, also when the state takes longer than an epoch") {
  for (const std::uint64_t seed : test::seeds(2)) {
    CAPTURE(seed);
    SwarmOptions options = small(seed, 1, 40);
    options.values = 16 * 4096;
    options.line.up_bytes_per_s = options.line.down_bytes_per_s = 100e3;
    options.target_batch = 16;
    options.rates = {16, 16};  // a second
    options.faults.events.push_back(timed(12s, FaultKind::join, 0, 0s));
    const Outcome outcome = run_and_check(options);
    REQUIRE(outcome.peers.size() == 2);
    CHECK(outcome.epoch_facts.back().weights.contains(1));
  }
}

TEST_CASE("epoch sim: whose line was down is back in the group soon, also where an epoch is a microbatch of each") {
  for (const std::uint64_t seed : test::seeds(4)) {
    CAPTURE(seed);
    SwarmOptions options = small(seed, 6, 60);
    options.clients = 5;
    options.values = std::size_t(1) << 16U;
    options.line.up_bytes_per_s = options.line.down_bytes_per_s = 3e6;  // while a result is fetched an epoch passes
    options.links.latency_min = options.links.latency_max = 1ms;
    options.rates.assign(6, 200);
    options.microbatch = 16;
    options.target_batch = 96;
    options.faults.events = {timed(8s, FaultKind::partition, 5, 6s)};
    const Outcome outcome = run_and_check(options);
    const auto is_back = [](const EpochFact& fact) { return fact.begun > 14s && fact.weights.contains(5); };
    const auto back = std::find_if(outcome.epoch_facts.begin(), outcome.epoch_facts.end(), is_back);
    REQUIRE((back != outcome.epoch_facts.end()));
    CHECK(to_seconds(back->committed) <
          14 + 5);  // up to 15 s later when a group began before who came had asked for it
  }
}

TEST_CASE(
    "epoch sim: who catches up does not wait for a donor that is frozen, neither with each round nor at the end") {
  for (const std::uint64_t seed : test::seeds(4)) {
    CAPTURE(seed);
    SwarmOptions options = small(seed, 6, 120);
    options.links.latency_min = options.links.latency_max = 1ms;
    options.rates.assign(6, 200);
    options.microbatch = 16;
    options.target_batch = 96;
    options.faults.events = {timed(8s, FaultKind::partition, 5, 6s), timed(13s, FaultKind::freeze, 4, 10s)};
    const Outcome outcome = run_and_check(options);
    const auto is_back = [](const EpochFact& fact) { return fact.begun > 14s && fact.weights.contains(5); };
    const auto back = std::find_if(outcome.epoch_facts.begin(), outcome.epoch_facts.end(), is_back);
    REQUIRE((back != outcome.epoch_facts.end()));
    CHECK(to_seconds(back->committed) < 14 + 5);  // the frozen one may be asked to lead, which takes two
  }
}

TEST_CASE("epoch sim: a laptop whose lid was closed for two minutes is in a group again soon after it is opened") {
  for (const std::uint64_t seed : test::seeds(3)) {
    CAPTURE(seed);
    SwarmOptions options = small(seed, 4, 150);
    options.target_batch = 320;
    options.faults.events = {timed(12s, FaultKind::suspend, 3, 120s)};
    const Outcome outcome = run_and_check(options);
    const auto is_back = [](const EpochFact& fact) { return fact.begun > 132s && fact.weights.contains(3); };
    const auto back = std::find_if(outcome.epoch_facts.begin(), outcome.epoch_facts.end(), is_back);
    REQUIRE((back != outcome.epoch_facts.end()));
    CHECK(to_seconds(back->committed) < 132 + 10);  // an epoch takes five seconds
  }
}

TEST_CASE("epoch sim: who leaves stays for a groupmate that is behind, so that it does not go on from an older model") {
  for (const std::uint64_t seed : test::seeds(2)) {
    CAPTURE(seed);
    SwarmOptions options = short_epochs(seed, 2ms, 330);
    options.leave_at_end = true;
    options.faults.events = {timed(12s, FaultKind::freeze, 2, 2500ms)};
    std::size_t left = 0;
    std::size_t caught_up = 0;
    Swarm swarm(options);
    swarm.trace([&](const TraceLine& line) {
      if (line.event == "epoch.committed" && line.peer < 2 && line.text.find("epoch=329 ") != std::string::npos) ++left;
      if (line.event == "epoch.caught_up" && line.peer == 2 && left == 2) ++caught_up;
    });
    const Outcome outcome = swarm.run();
    check_held(outcome);
    CHECK(caught_up > 5);
  }
}

TEST_CASE("epoch sim: who leaves while it pauses after a failed round leaves, though nobody else is there any more") {
  std::uint64_t failed = 0;
  for (const std::uint64_t seed : test::seeds(8)) {
    CAPTURE(seed);
    SwarmOptions options = small(seed, 2, 0);
    options.length = 20s;
    options.aborted_rounds = 10;
    options.links.latency_min = options.links.latency_max = 200ms;  // a good-bye takes its time
    const Duration at = 12s + seed * 130ms;
    options.faults.events = {timed(at, FaultKind::leave, 0, 60s), timed(at + 700ms, FaultKind::leave, 1, 60s)};
    failed += run_and_check(options).rounds_failed;
  }
  CHECK(failed > 0);
}

TEST_CASE("epoch sim: ten rounds that come to nothing cost no sample; then one epoch has them all") {
  for (const std::uint64_t seed : test::seeds(3)) {
    CAPTURE(seed);
    SwarmOptions options = small(seed, 3, 1);
    options.aborted_rounds = 10;
    const Outcome outcome = run_and_check(options);
    CHECK(outcome.rounds_failed >= 30);  // nobody is left out of a try because it had another number
    CHECK(outcome.samples_committed >= options.target_batch);
    CHECK(outcome.samples_committed <= 4 * options.target_batch * options.peers);  // who has much in hand waits
  }
}

TEST_CASE(
    "epoch sim: a peer whose microbatch takes 30 s holds nobody up, and its samples count where epochs are long") {
  constexpr std::size_t kSlow = 3;
  for (const bool long_epochs : {false, true}) {
    CAPTURE(long_epochs);
    SwarmOptions options = small(1, 4, long_epochs ? 5 : 12);
    options.rates = {16, 16, 16, 4.0 / 30};
    options.target_batch = long_epochs ? 2400 : 144;
    const double gathering_s = static_cast<double>(options.target_batch) / 48;
    std::size_t cuts = 0;
    Swarm swarm(options);
    const auto see = [&](const TraceLine& line) {
      if (line.event == "epoch.cut") ++cuts;
    };
    swarm.trace(see);
    const Outcome outcome = swarm.run();
    check_held(outcome);
    REQUIRE(outcome.epoch_facts.size() == options.epochs);
    CHECK(cuts > 0);
    std::uint64_t counted = 0;
    for (std::size_t i = 0; i < outcome.epoch_facts.size(); ++i) {
      const EpochFact& fact = outcome.epoch_facts[i];
      CAPTURE(fact.epoch);
      CHECK(to_seconds(fact.committed - fact.begun) < 3);  // cut_wait and a second
      if (i > 0) CHECK(to_seconds(fact.committed - outcome.epoch_facts[i - 1].committed) < gathering_s + 3);
      const auto slow = fact.weights.find(kSlow);
      if (slow != fact.weights.end()) counted += slow->second;
    }
    CHECK((counted > 0) == long_epochs);  // no microbatch of it begins and ends in a short one
    CHECK(outcome.peers.at(kSlow).epoch == options.epochs);
  }
}

TEST_CASE("epoch sim: peers of speeds 1, 4 and 16 bring weights as their speeds, and rounds begin when they can") {
  SwarmOptions options = small(1, 3, 20);
  options.rates = {4, 16, 64};
  options.microbatch = 1;
  options.target_batch = 1680;  // 20 s of all three
  const Outcome outcome = run_and_check(options);
  const double all = 84;
  for (std::size_t i = 5; i < outcome.epoch_facts.size(); ++i) {
    const EpochFact& fact = outcome.epoch_facts[i];
    CAPTURE(fact.epoch);
    for (std::size_t peer = 0; peer < 3; ++peer) {
      const double expected = static_cast<double>(fact.weight) * options.rates[peer] / all;
      CHECK(static_cast<double>(fact.weights.at(peer)) == doctest::Approx(expected).epsilon(0.02));
    }
    const double gathered_s = to_seconds(fact.begun - outcome.epoch_facts[i - 1].committed);
    CHECK(gathered_s == doctest::Approx(20).epsilon(0.02));
  }
  for (const PeerFact& peer : outcome.peers) {
    CHECK(peer.records_per_s <= 2);
    CHECK(peer.busy >= 0.97);
  }
}

TEST_CASE("epoch sim: with delayed gradients nobody waits for rounds that take no longer than an epoch") {
  SwarmOptions options = small(1, 4, 30);
  options.rates = {16, 16, 16, 16};
  options.links.latency_min = options.links.latency_max = 100ms;  // most of a second for a round, of two
  const auto least_busy = [](const Outcome& outcome) {
    double least = 1;
    for (const PeerFact& peer : outcome.peers) least = std::min(least, peer.busy);
    return least;
  };
  CHECK(least_busy(run_and_check(options)) < 0.85);
  options.delay = epoch::Delay::gradients;
  const Outcome outcome = run_and_check(options);
  CHECK(least_busy(outcome) >= 0.97);
  CHECK(outcome.epoch_facts.size() == 30);
}

TEST_CASE("epoch sim: delayed gradients lose no sample where rounds fail, peers die and others join") {
  for (const std::uint64_t seed : test::seeds(2)) {
    CAPTURE(seed);
    SwarmOptions options = small(seed, 4, 25);
    options.delay = epoch::Delay::gradients;
    options.aborted_rounds = 2;
    options.faults.events.push_back(timed(9s, FaultKind::join, 0, 0s));
    options.faults.events.push_back(aimed(Phase::gather, FaultKind::freeze, 8s));
    (void)run_and_check(options);
  }
}

TEST_CASE("epoch sim: same seed, same bytes at the same times") {
  SwarmOptions options = small(5, 4, 5);
  options.faults.events.push_back(aimed(Phase::gather, FaultKind::freeze, 3s));
  Outcome outcome = run_and_check(options);
  check_determinism(options, outcome);
  check_held(outcome);
  options.seed = 6;
  CHECK(Swarm(options).run().fingerprint != outcome.fingerprint);
}

TEST_CASE("epoch sim: eight peers and one machine see the same loss with the same samples, over 200 epochs") {
  SwarmOptions options = small(1, 8, 200);
  options.values = 4096;
  options.target_batch = 64;
  options.samples_per_s = 64;
  options.step = {0.02, 0.5};
  options.links.latency_min = options.links.latency_max = 5ms;
  Swarm swarm(options);
  const Outcome outcome = swarm.run();
  check_held(outcome);
  REQUIRE(outcome.epoch_facts.size() == 200);
  std::vector<double> parameters(options.values, 0.0);
  std::vector<double> momentum(options.values, 0.0);
  std::vector<float> rounded(options.values);
  std::vector<float> gradient(options.values);
  for (std::size_t epoch = 0; epoch < 200; ++epoch) {
    CAPTURE(epoch);
    std::vector<double> sum(options.values, 0.0);
    std::uint64_t samples = 0;
    std::transform(parameters.begin(), parameters.end(), rounded.begin(), [](double p) { return float(p); });
    for (const auto& [peer, sent] : swarm.samples()[epoch]) {
      std::uint64_t own = 0;
      for (const SampleRun& run : sent.samples) own += run.count;
      for (const SampleRun& run : sent.samples) {
        swarm.problem().gradient(rounded, run.first, run.count, gradient);
        const double share = static_cast<double>(sent.weight * run.count) / static_cast<double>(own);
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += share * gradient[i];
      }
      samples += sent.weight;
    }
    REQUIRE(samples == outcome.epoch_facts[epoch].weight);
    for (std::size_t i = 0; i < sum.size(); ++i) {
      momentum[i] = options.step.momentum * momentum[i] + sum[i] / static_cast<double>(samples);
      parameters[i] -= options.step.rate * momentum[i];
    }
    std::transform(parameters.begin(), parameters.end(), rounded.begin(), [](double p) { return float(p); });
    CHECK(outcome.epoch_facts[epoch].loss == doctest::Approx(swarm.problem().loss(rounded)).epsilon(1e-3));
  }
}

TEST_CASE("epoch sim: leased units go once through each pass, no trainer waits for them, and all ledgers are equal") {
  SwarmOptions options = small(2, 6, 24);
  options.units_per_pass = 1000;  // four passes and a half
  const Outcome outcome = run_and_check(options);
  CHECK(outcome.ledger.committed().count() == outcome.samples_committed);
  CHECK(outcome.ledger.first_free() + 1000 > 24 * options.target_batch);
  for (const EpochFact& fact : outcome.epoch_facts) CHECK(fact.weight >= options.target_batch);
  for (const PeerFact& peer : outcome.peers) {
    CHECK(peer.unleased == 0);
    CHECK(peer.units_wait_max == Duration());
  }
}

TEST_CASE("epoch sim: under churn, also of the storers, no unit is committed twice and none is left out of a pass") {
  for (const std::uint64_t seed : test::seeds(3)) {
    CAPTURE(seed);
    SwarmOptions options = small(seed, 6, 60);
    options.units_per_pass = 1000;
    options.faults = load_faults("churn");
    options.faults.mixture.rates = {{FaultKind::kill, 20}, {FaultKind::freeze, 20}, {FaultKind::leave, 20}};
    options.faults.events.push_back(timed(15s, FaultKind::coordinator, 0, 15s));
    options.faults.events.push_back(timed(25s, FaultKind::join, 0, 0s));
    Swarm swarm(options);
    const Outcome outcome = swarm.run();
    check_held(outcome);
    CHECK(outcome.epochs == 60);
    CHECK(outcome.ledger.committed().count() >= 60 * options.target_batch / 2);
    for (const PeerFact& peer : outcome.peers) CHECK(peer.units_wait_max <= 150ms);  // then the hash decides
  }
}

}  // namespace collab::sim
