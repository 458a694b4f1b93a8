#include "sim/quadratic.hpp"

#include "base/random.hpp"

#include <algorithm>
#include <array>

namespace collab::sim {
namespace {

constexpr std::size_t kPattern =
    61;  // one sample's noise repeats after so many values: cheap, and no unit is like the next

}  // namespace

Quadratic::Quadratic(std::size_t values, std::uint64_t seed, double noise)
    : seed_(seed), noise_(noise), curvature_(values), target_(values) {
  Random random = Random(seed).derive("sim.quadratic");
  for (std::size_t i = 0; i < values; ++i) {
    curvature_[i] = static_cast<float>(0.5 + random.uniform());
    target_[i] = static_cast<float>(2 * random.uniform() - 1);
  }
}

void Quadratic::gradient(std::span<const float> parameters, std::uint64_t first, std::uint64_t count,
                         std::span<float> mean) const {
  std::array<double, kPattern> noise{};
  for (std::uint64_t sample = first; sample < first + count; ++sample) {
    Random random(seed_ ^ (sample * 0x9e3779b97f4a7c15U));
    for (double& at : noise) at += noise_ * (2 * random.uniform() - 1);
  }
  for (double& at : noise) at /= static_cast<double>(count);
  for (std::size_t from = 0; from < mean.size(); from += kPattern) {
    const std::size_t length = std::min(kPattern, mean.size() - from);
    const float* curvature = curvature_.data() + from;
    const float* target = target_.data() + from;
    const float* here = parameters.data() + from;
    float* out = mean.data() + from;
    for (std::size_t i = 0; i < length; ++i) {
      const double slope = static_cast<double>(curvature[i]) * (static_cast<double>(here[i]) - target[i]);
      out[i] = static_cast<float>(slope + noise[i]);
    }
  }
}

double Quadratic::loss(std::span<const float> parameters) const {
  double sum = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const double off = static_cast<double>(parameters[i]) - target_[i];
    sum += static_cast<double>(curvature_[i]) * off * off / 2;
  }
  return sum / static_cast<double>(parameters.size());
}

}  // namespace collab::sim
