#pragma once
// Swarms small enough for many runs, and what must hold of each.

#include "sim/swarm.hpp"

#include "support/doctest.hpp"

namespace collab::sim {

using namespace std::chrono_literals;

/// Small enough for many runs: two units of values, epochs of about two seconds.
inline SwarmOptions small(std::uint64_t seed, std::size_t peers, std::uint64_t epochs) {
  SwarmOptions options;
  options.seed = seed;
  options.peers = peers;
  options.epochs = epochs;
  options.values = 4 * 4096;
  options.target_batch = 32 * peers;
  return options;
}

inline Fault aimed(Phase phase, FaultKind kind, Duration length, Aim aim = Aim::any) {
  Fault fault;
  fault.at = 12s;
  fault.phase = phase;
  fault.kind = kind;
  fault.length = length;
  fault.aim = aim;
  return fault;
}

inline Fault timed(Duration at, FaultKind kind, std::size_t peer, Duration length) {
  Fault fault;
  fault.at = at;
  fault.kind = kind;
  fault.peer = peer;
  fault.aim = Aim::peer;
  fault.length = length;
  return fault;
}

inline void check_held(const Outcome& outcome) {
  for (const Violation& broken : outcome.violations) {
    FAIL_CHECK(broken.invariant << " at " << to_seconds(broken.at) << " s, "
                                << (broken.peers.empty() ? std::string("all") : std::to_string(broken.peers.front()))
                                << ": " << broken.text);
  }
}

inline void check_struck(const Outcome& outcome) {
  for (const FaultFact& fact : outcome.faults) {
    CAPTURE(describe(fact.fault));
    CAPTURE(fact.why_not);
    CHECK(fact.struck.has_value());
  }
}

/// Runs, and everything that must hold did: equal parameters at every epoch among it.
inline Outcome run_and_check(const SwarmOptions& options) {
  Swarm swarm(options);
  const Outcome outcome = swarm.run();
  check_held(outcome);
  check_struck(outcome);
  if (options.epochs > 0) CHECK(outcome.epochs == options.epochs);
  return outcome;
}

}  // namespace collab::sim
