#pragma once
// How many samples are behind a run of values.

#include <cstdint>

namespace collab::averaging {

/// Values from the previous run's end up to `end` were averaged over this many samples.
struct WeightRun {
  std::uint64_t end = 0;
  std::uint64_t weight = 0;
  bool operator==(const WeightRun&) const = default;
};

}  // namespace collab::averaging
