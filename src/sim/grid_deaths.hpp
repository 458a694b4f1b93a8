#pragma once
// What rounds cost, and what deaths in the middle of them cost the others, on production connections, searches and
// rounds.

#include "sim/grid_swarm.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace collab::sim {

/// Seconds of each live peer's rounds, by (round, peer).
using RoundSeconds = std::map<std::pair<std::uint64_t, std::size_t>, double>;

/// One pass in which victims[i] dies when all of its group of round i + 1 know that it has begun. `struck`: whether
/// all of them did.
RoundSeconds pass_with_deaths(GridSwarm& swarm, const std::vector<std::size_t>& victims, bool& struck);

struct DeathsFacts {
  bool struck = false;            ///< one died in each round
  bool whole_or_nothing = false;  ///< who did not complete holds what it had, the others equal bytes
  double others = 0;              ///< time of the rounds of groups without a victim, by that without deaths
  double more_s_max = 0;          ///< that a round of a victim's group took more
  std::size_t complete = 0;       ///< peers that ended the pass with a result
};
/// The pass of `options` without and with a death in each of two rounds; the victims share no group.
DeathsFacts measure_deaths(const GridOptions& options);

struct KilledFacts {
  Duration at{};  ///< after the start
  std::size_t victim = 0;
  std::size_t committed = 0;        ///< survivors that did
  Duration length{};                ///< until the last survivor was done
  std::vector<std::string> broken;  ///< agree, atomic, mean, live: what did not hold
};
/// Seconds of the one round of a group of all, by its slowest member, from its group's begin to the result.
double one_round(GridOptions options);

/// One group of `options.peers` makes one round, and one of them is killed at a random moment of it, when of each
/// stream's bytes on the way a random prefix arrives.
KilledFacts kill_anywhere(GridOptions options);

}  // namespace collab::sim
