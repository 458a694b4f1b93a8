#pragma once
// Samples behind each value: one number as a rule; several where a sender was lost half-way in the round before.

#include "averaging/weight_run.hpp"
#include "averaging/wire.hpp"
#include "tensor/partition.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace collab::averaging {

/// Of a whole flat vector. Runs are of whole units, because units are what is averaged at once.
class Weights {
 public:
  Weights(std::uint64_t everywhere = 0) : everywhere_(everywhere) {}  // NOLINT: a number is what it mostly is
  /// As RoundReport::weight_runs tells: ascending, at least one.
  explicit Weights(std::vector<WeightRun> runs);

  bool none() const noexcept { return largest() == 0; }
  std::uint64_t largest() const noexcept;
  std::uint64_t smallest() const noexcept;
  std::uint64_t at(std::uint64_t offset) const;
  /// Of the units in `range`, for a Part: empty when they are all alike.
  std::vector<wire::UnitWeight> of_units(Range range) const;

 private:
  std::uint64_t everywhere_ = 0;
  std::vector<WeightRun> runs_;  // empty: everywhere the same
};

/// Of unit `index` of a chunk, as a header tells it.
std::uint64_t weight_of_unit(std::uint64_t weight, std::span<const wire::UnitWeight> weights, std::size_t index);
/// Whether a header's `weights` are what its sender must send for a chunk of `units`: nothing, or two runs and more
/// that make up the chunk, none of them 0, with `weight` the smallest.
bool fit(std::uint64_t weight, std::span<const wire::UnitWeight> weights, std::size_t units);

using collab::units_in;  // that of a length, which the next would hide
constexpr std::size_t units_in(Range range) noexcept {
  return units_in(range.size);
}

/// Appends the weight of the next `units`, joining equal neighbours.
void append(std::vector<wire::UnitWeight>& weights, std::uint32_t units, std::uint64_t weight);

}  // namespace collab::averaging
