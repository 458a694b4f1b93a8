#include "averaging/weights.hpp"

#include <algorithm>
#include <cassert>

namespace collab::averaging {

Weights::Weights(std::vector<WeightRun> runs) : runs_(std::move(runs)) {
  assert(!runs_.empty());
  everywhere_ = runs_.front().weight;
  if (runs_.size() == 1) runs_.clear();
}

std::uint64_t Weights::largest() const noexcept {
  std::uint64_t most = everywhere_;
  for (const WeightRun& run : runs_) most = std::max(most, run.weight);
  return most;
}

std::uint64_t Weights::smallest() const noexcept {
  std::uint64_t least = everywhere_;
  for (const WeightRun& run : runs_) least = std::min(least, run.weight);
  return least;
}

std::uint64_t Weights::at(std::uint64_t offset) const {
  if (runs_.empty()) return everywhere_;
  const auto ends_before = [](const WeightRun& run, std::uint64_t wanted) { return run.end <= wanted; };
  const auto run = std::lower_bound(runs_.begin(), runs_.end(), offset, ends_before);
  assert(run != runs_.end());
  return run->weight;
}

std::vector<wire::UnitWeight> Weights::of_units(Range range) const {
  std::vector<wire::UnitWeight> weights;
  if (runs_.empty()) return weights;
  for (std::size_t begin = range.begin; begin < range.end(); begin += kUnitValues) append(weights, 1, at(begin));
  if (weights.size() == 1) weights.clear();
  return weights;
}

std::uint64_t weight_of_unit(std::uint64_t weight, std::span<const wire::UnitWeight> weights, std::size_t index) {
  for (const wire::UnitWeight& run : weights) {
    if (index < run.units) return run.weight;
    index -= run.units;
  }
  return weight;
}

bool fit(std::uint64_t weight, std::span<const wire::UnitWeight> weights, std::size_t units) {
  if (weights.empty()) return true;
  if (weights.size() < 2 || weights.size() > units) return false;
  std::uint64_t sum = 0;
  std::uint64_t least = ~std::uint64_t(0);
  for (const wire::UnitWeight& run : weights) {
    if (run.units == 0 || run.weight == 0) return false;
    sum += run.units;
    least = std::min(least, run.weight);
  }
  return sum == units && least == weight;
}

void append(std::vector<wire::UnitWeight>& weights, std::uint32_t units, std::uint64_t weight) {
  if (!weights.empty() && weights.back().weight == weight) {
    weights.back().units += units;
    return;
  }
  wire::UnitWeight run;
  run.units = units;
  run.weight = weight;
  weights.push_back(run);
}

}  // namespace collab::averaging
