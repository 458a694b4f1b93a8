#include "epoch/gradient_accumulator.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace collab::epoch {
namespace {

constexpr std::size_t kBlock = 256;

// Blocks of constant length and pointers that cannot overlap: the loops become vector instructions.

/// `sum` and `values` do not overlap.
void add_scaled(const float* __restrict values, float weight, float* __restrict sum, std::size_t size) noexcept {
  std::size_t i = 0;
  for (; i + kBlock <= size; i += kBlock)
    for (std::size_t k = i; k < i + kBlock; ++k) sum[k] += weight * values[k];
  for (; i < size; ++i) sum[i] += weight * values[i];
}

/// Leaves zeros. `sum` and `mean` do not overlap.
void take_mean(float* __restrict sum, float weight, float* __restrict mean, std::size_t size) noexcept {
  std::size_t i = 0;
  for (; i + kBlock <= size; i += kBlock)
    for (std::size_t k = i; k < i + kBlock; ++k) mean[k] = sum[k] / weight;
  for (; i < size; ++i) mean[i] = sum[i] / weight;
  std::fill_n(sum, size, 0.0F);
}

}  // namespace

bool GradientAccumulator::add(std::span<const FlatPiece> mean_gradient, const Gathered& behind) {
  assert(behind.samples > 0);
  const auto finite = [](const FlatPiece& piece) { return all_finite(piece.values); };
  if (!std::all_of(mean_gradient.begin(), mean_gradient.end(), finite)) return false;
  for (const FlatPiece& piece : mean_gradient) {
    assert(piece.offset <= sum_.size() && piece.values.size() <= sum_.size() - piece.offset);
    add_scaled(piece.values.data(), static_cast<float>(behind.samples), sum_.data() + piece.offset,
               piece.values.size());
  }
  behind_.samples += behind.samples;
  behind_.work.add(behind.work);
  return true;
}

Gathered GradientAccumulator::hand_over(std::span<float> mean_gradient) {
  assert(mean_gradient.size() == sum_.size());
  const auto weight = static_cast<float>(std::max<std::uint64_t>(behind_.samples, 1));
  take_mean(sum_.data(), weight, mean_gradient.data(), sum_.size());
  return std::exchange(behind_, {});
}

std::uint64_t GradientAccumulator::give_back(std::span<const float> mean_gradient, const Gathered& behind) {
  if (behind.samples == 0) return 0;
  const FlatPiece whole{0, mean_gradient};
  return add({&whole, 1}, behind) ? 0 : behind.samples;
}

Gathered GradientAccumulator::drop() {
  if (behind_.samples > 0) std::fill(sum_.begin(), sum_.end(), 0.0F);
  return std::exchange(behind_, {});
}

}  // namespace collab::epoch
