#pragma once
// Gradients of microbatches, summed until the swarm has its target batch.

#include "base/work.hpp"
#include "tensor/view.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace collab::epoch {

/// `sum += b * gradient`, `weight += b`: the mean over all samples, whatever the microbatches' sizes.
/// Memory: one flat vector. Thread safety: none; the trainer's.
class GradientAccumulator {
 public:
  explicit GradientAccumulator(std::size_t values) : sum_(values) {}

  std::size_t values() const noexcept { return sum_.size(); }
  /// Adds the mean gradient of `behind.samples` > 0 samples: one pass over each piece where it lies, no copy. False
  /// when a value is NaN or infinite, or a sum would be: what was added by then is taken back, up to a rounding.
  /// `scale` > 0: the values are so many times the gradient; of a power of two nothing is rounded.
  bool add(std::span<const FlatPiece> mean_gradient, const Gathered& behind, double scale = 1);
  /// Gives the mean gradient per sample and forgets it; zeros when there is none. Returns what is behind it.
  /// `mean_gradient`: of any content and the same length; it stays here for what is added next, so nothing is copied.
  Gathered hand_over(std::vector<float>& mean_gradient);
  /// Puts back what was handed over, beside what has been added since. Returns the samples lost: all of them, as with
  /// `add`, when the two together leave the range of float32.
  std::uint64_t give_back(std::span<const float> mean_gradient, const Gathered& behind);
  /// Adds what another has handed over. False, and nothing has changed: as with `add`, or a unit is here already, or
  /// there would be more than `ranges_max` ranges of units.
  bool take_on(std::span<const float> mean_gradient, const Gathered& behind, std::size_t ranges_max);
  /// Forgets everything; returns what is lost.
  Gathered drop();

  std::uint64_t samples() const noexcept { return behind_.samples; }
  const Work& work() const noexcept { return behind_.work; }

 private:
  void take_back(std::span<const FlatPiece> pieces, float weight);

  std::vector<float> sum_;  // finite; without samples it is anything
  Gathered behind_;
};

}  // namespace collab::epoch
