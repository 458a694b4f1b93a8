#include "epoch/gradient_accumulator.hpp"

#include "tensor/view.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace collab::epoch {

bool GradientAccumulator::add(std::span<const float> mean_gradient, std::uint64_t samples) {
  assert(mean_gradient.size() == sum_.size() && samples > 0);
  if (!all_finite(mean_gradient)) return false;
  const auto weight = static_cast<float>(samples);
  for (std::size_t i = 0; i < sum_.size(); ++i) sum_[i] += weight * mean_gradient[i];
  samples_ += samples;
  return true;
}

std::uint64_t GradientAccumulator::hand_over(std::span<float> mean_gradient) {
  assert(mean_gradient.size() == sum_.size());
  const std::uint64_t samples = std::exchange(samples_, 0);
  const auto weight = static_cast<float>(std::max<std::uint64_t>(samples, 1));
  for (std::size_t i = 0; i < sum_.size(); ++i) mean_gradient[i] = std::exchange(sum_[i], 0.0F) / weight;
  return samples;
}

void GradientAccumulator::give_back(std::span<const float> mean_gradient, std::uint64_t samples) {
  if (samples == 0) return;
  const bool added = add(mean_gradient, samples);
  assert(added);
  (void)added;
}

std::uint64_t GradientAccumulator::drop() {
  std::fill(sum_.begin(), sum_.end(), 0.0F);
  return std::exchange(samples_, 0);
}

}  // namespace collab::epoch
