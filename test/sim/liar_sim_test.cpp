// One peer lies. Nobody changes anything because of it, training goes on, and the others say who it was.

#include "small_swarm.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "support/doctest.hpp"

namespace collab::sim {
namespace {

constexpr std::size_t kLiar = 2;

/// Who of the honest wrote `event` about the liar.
struct Accused {
  std::map<std::string, std::set<std::size_t>> by;
};

SwarmOptions with_liar(std::uint64_t seed, Lie lie) {
  SwarmOptions options = small(seed, 6, 0);
  options.length = 60s;
  Fault fault = timed(12s, FaultKind::lie, kLiar, 30s);
  fault.lie = lie;
  options.faults.events = {fault};
  if (lie == Lie::average) options.values = 16 * 4096 * options.peers;  // so that the liar owns some
  return options;
}

Outcome run_and_listen(const SwarmOptions& options, Accused& accused) {
  Swarm swarm(options);
  const std::string liar = Peer::identity_of(options.seed, kLiar).id().short_text();
  swarm.trace([&](const TraceLine& line) {
    if (line.peer != kLiar && line.text.find("peer=" + liar) != std::string::npos)
      accused.by[line.event].insert(line.peer);
  });
  return swarm.run();
}

}  // namespace

TEST_CASE("liar sim: whatever one peer lies about, the others go on in agreement, and name it") {
  // which event of the log names it; of a false answer only whoever asks can tell
  const std::map<Lie, std::string> named_by = {{Lie::not_finite, "averaging.refused"},
                                               {Lie::heavy, "averaging.refused"},
                                               {Lie::weightless, "averaging.refused"},
                                               {Lie::short_part, "averaging.refused"},
                                               {Lie::two_faced, "averaging.refused"},
                                               {Lie::average, "averaging.refused"},
                                               {Lie::roster, "matchmaking.struck"},
                                               {Lie::ahead, "progress.odd"},
                                               {Lie::hash, "progress.odd"},
                                               {Lie::samples, "progress.not_believed"},
                                               {Lie::grid, "grid.absurd"}};
  for (const auto& [lie, event] : named_by) {
    for (const std::uint64_t seed : test::seeds(2)) {
      CAPTURE(name(lie));
      CAPTURE(seed);
      Accused accused;
      const Outcome outcome = run_and_listen(with_liar(seed, lie), accused);
      check_held(outcome);
      check_struck(outcome);
      CHECK(outcome.epochs >= 20);
      CHECK_FALSE(accused.by[event].empty());
    }
  }
}

TEST_CASE(
    "liar sim: a slow peer that tells of more samples is believed an equal share, and the epoch has so many fewer") {
  for (const std::uint64_t seed : test::seeds(2)) {
    CAPTURE(seed);
    SwarmOptions options = with_liar(seed, Lie::heavy);
    options.peers = 3;
    options.rates = {16, 16, 4};
    Swarm swarm(options);
    const Outcome outcome = swarm.run();
    check_held(outcome);
    check_struck(outcome);
    const auto fewer = [&](const EpochFact& epoch) {
      const auto handed_over = [](std::uint64_t sum, const auto& sender) { return sum + sender.second; };
      const std::uint64_t samples =
          std::accumulate(epoch.weights.begin(), epoch.weights.end(), std::uint64_t(0), handed_over);
      CHECK(samples > options.target_batch / 2);
      return samples < options.target_batch;
    };
    CHECK(std::any_of(outcome.epoch_facts.begin(), outcome.epoch_facts.end(), fewer));
  }
}

TEST_CASE(
    "liar sim: who says that it averages for those whom nobody can dial, and does not, delays them for a minute") {
  SwarmOptions options = small(7, 66, 0);  // more than one group holds: with help they go on a grid
  options.values = 2048;
  options.clients = 65;
  options.length = 79s;
  Fault fault = timed(12s, FaultKind::lie, 65, 100s);
  fault.lie = Lie::help;
  options.faults.events = {fault};
  std::set<std::uint64_t> before;
  std::set<std::uint64_t> meanwhile;
  std::set<std::uint64_t> after;
  Swarm swarm(options);
  swarm.trace([&](const TraceLine& line) {
    if (line.event != "epoch.committed") return;
    auto& epochs = line.at < 30s ? before : line.at < 60s ? meanwhile : after;
    epochs.insert(std::stoull(line.text.substr(line.text.find('=') + 1)));
  });
  const Outcome outcome = swarm.run();
  check_held(outcome);
  check_struck(outcome);
  CHECK(before.size() >= 4);
  CHECK(meanwhile.empty());
  CHECK_FALSE(after.empty());
}

TEST_CASE("liar sim: who is given false bytes by a donor takes none of them and fetches them elsewhere") {
  for (const std::uint64_t seed : test::seeds(2)) {
    CAPTURE(seed);
    SwarmOptions options = with_liar(seed, Lie::result);
    options.faults.events.push_back(timed(20s, FaultKind::kill, 4, 3s));
    options.faults.events.back().blank = true;
    Accused accused;
    const Outcome outcome = run_and_listen(options, accused);
    check_held(outcome);
    check_struck(outcome);
    CHECK(outcome.epochs >= 20);
    CHECK(outcome.peers.at(4).epoch + 1 >= outcome.epochs);
  }
}

TEST_CASE("liar sim: a swarm with a liar now and then, among other faults") {
  for (const std::uint64_t seed : test::seeds(2)) {
    CAPTURE(seed);
    SwarmOptions options = small(seed, 6, 0);
    options.length = 120s;
    options.faults = load_faults("hostile");
    for (auto& [kind, rate] : options.faults.mixture.rates) rate *= 2;
    Swarm swarm(options);
    const Outcome outcome = swarm.run();
    check_held(outcome);
    CHECK(outcome.epochs > 15);
  }
}

}  // namespace collab::sim
