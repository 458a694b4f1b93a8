#pragma once
// From a run in which something broke to the smallest one in which the same thing breaks.

#include "sim/swarm.hpp"

#include <cstdint>
#include <functional>
#include <string>

namespace collab::sim {

struct Shrunk {
  SwarmOptions options;  ///< its faults are events only
  Violation violation;   ///< the first of the invariant in question
  std::uint64_t runs = 0;
};

struct ShrinkNeeds {
  std::function<bool()> stop;                          ///< asked in every run: true ends the search with what is found
  std::function<void(const Shrunk& smaller)> smaller;  ///< told of each that still breaks
};

/// Delta debugging: events are left out, then peers, lengths, values and differences between links, over and over,
/// while `broken.violations.front()` stays. `options`: those that `broken` came from. Takes as long as it takes.
Shrunk shrink(const SwarmOptions& options, const Outcome& broken, const ShrinkNeeds& needs);

}  // namespace collab::sim
