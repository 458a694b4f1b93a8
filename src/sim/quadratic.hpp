#pragma once
// What simulated peers train: a bowl whose gradient is a formula.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace collab::sim {

/// loss(p) = mean of c (p - t)^2 / 2 over all values. The gradient of one sample adds noise that is a pure function of
/// (seed, sample, place), so gradients are a pure function of (parameters, samples). Immutable, shared by all peers.
class Quadratic {
 public:
  /// `noise`: the largest that one sample adds to a gradient.
  Quadratic(std::size_t values, std::uint64_t seed, double noise);

  std::size_t values() const noexcept { return target_.size(); }
  /// Parameters of epoch 0: zeros.
  std::vector<float> start() const { return std::vector<float>(values(), 0.0F); }
  /// Mean gradient of samples first .. first + count - 1 at `parameters`; `count` > 0.
  void gradient(std::span<const float> parameters, std::uint64_t first, std::uint64_t count,
                std::span<float> mean) const;
  double loss(std::span<const float> parameters) const;

 private:
  std::uint64_t seed_;
  double noise_;
  std::vector<float> curvature_;
  std::vector<float> target_;
};

}  // namespace collab::sim
