// Each fault at each moment of a round, alone and with a second one: for a group of five all of them.

#include "small_swarm.hpp"
#include "support/fresh_seeds.hpp"

#include <array>
#include <string>
#include <vector>

#include "support/doctest.hpp"

namespace collab::sim {
namespace {

constexpr std::size_t kPeers = 5;  // two may be away, and more than half are left
constexpr std::array kPhases = {Phase::begin, Phase::scatter, Phase::reduce, Phase::gather,
                                Phase::hold,  Phase::view,    Phase::commit, Phase::done};
constexpr std::array kKinds = {FaultKind::kill, FaultKind::freeze, FaultKind::partition};

Fault at(Phase phase, FaultKind kind, std::size_t victim) {
  Fault fault = aimed(phase, kind, 6s, Aim::peer);
  fault.peer = victim;
  return fault;
}

/// From one of all cases to the next that is run.
std::size_t step(std::size_t usual) {
  return test::fixed_and_fresh_seeds(1, 0).size() > 1 ? 1 : usual;  // COLLAB_SEEDS=2: all of them
}

SwarmOptions five() {
  SwarmOptions options = small(3, kPeers, 10);
  options.values = kPeers * 8192;  // so that each of them owns a segment
  options.crypto = Crypto::fake;
  return options;
}

std::vector<Fault> all_single() {
  std::vector<Fault> all;
  for (const Phase phase : kPhases) {
    if (phase == Phase::view) continue;  // nobody is suspected yet
    for (const FaultKind kind : kKinds)
      for (std::size_t victim = 0; victim < kPeers; ++victim) all.push_back(at(phase, kind, victim));
  }
  return all;
}

std::vector<std::vector<Fault>> all_pairs() {
  std::vector<Fault> seconds = all_single();
  for (const FaultKind kind : kKinds)
    for (std::size_t victim = 0; victim < kPeers; ++victim) seconds.push_back(at(Phase::view, kind, victim));
  std::vector<std::vector<Fault>> all;
  for (const Fault& first : all_single()) {
    for (const Fault& second : seconds)
      if (second.peer != first.peer) all.push_back({first, second});
  }
  return all;
}

}  // namespace

TEST_CASE("phases sim: whoever dies, freezes or is cut off at any moment of a round, everything holds") {
  const auto all = all_single();
  const std::size_t gap = step(2);
  for (std::size_t i = 0; i < all.size(); i += gap) {
    SwarmOptions options = five();
    options.faults.events = {all[i]};
    (void)run_and_check(options);
  }
}

/// A second fault that finds nobody there, since the first one keeps him from coming, has not struck.
TEST_CASE("phases sim: two faults at any two moments of a round, on any two, and everything holds") {
  const auto pairs = all_pairs();
  const std::size_t gap = step(251);
  std::size_t ran = 0;
  std::size_t both = 0;
  for (std::size_t i = 0; i < pairs.size(); i += gap) {
    const std::string what = describe(pairs[i].front()) + "; " + describe(pairs[i].back());
    CAPTURE(what);
    SwarmOptions options = five();
    options.faults.events = pairs[i];
    Swarm swarm(options);
    const Outcome outcome = swarm.run();
    check_held(outcome);
    CHECK(outcome.epochs == options.epochs);
    CHECK(outcome.faults.front().struck.has_value());
    ++ran;
    if (outcome.faults.back().struck) ++both;
  }
  MESSAGE(both << " of " << ran << " runs had both faults");
  CHECK(2 * both > ran);
}

}  // namespace collab::sim
