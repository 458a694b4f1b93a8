#pragma once
// The model and its optimizer as the flow of an epoch sees them.

#include "epoch/gradient_accumulator.hpp"
#include "epoch/trainer.hpp"
#include "optim/stepper.hpp"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>

namespace collab::optim {

/// Throws `Failure(usage)` when parameters and moments of `state` are more than a joiner can be given.
void check_size(const Schema& state);

/// Trainer thread only, but for what epoch::Trainer allows beside a microbatch. Memory: one flat vector beside the
/// stepper's.
class ModelTrainer final : public epoch::Trainer {
 public:
  /// `stepper` outlives it.
  explicit ModelTrainer(Stepper& stepper) : stepper_(stepper), gathered_(stepper.schema().values()) {}

  /// Takes over what backward left in the gradients: the mean over `behind.samples` > 0 samples. False when it is
  /// NaN or infinite: the microbatch is dropped whole. The gradients are none afterwards. `loss`: NaN when unknown.
  /// `scale`: what the loss was multiplied by before backward.
  bool add_microbatch(const Gathered& behind, double loss, double scale = 1);

  std::uint64_t epoch() const noexcept override { return epoch_; }  ///< any thread
  void begin_at(std::uint64_t epoch) noexcept { epoch_ = epoch; }

  std::size_t values() const override { return gathered_.values(); }
  std::uint64_t samples() const override;
  Gathered hand_over(std::vector<float>& values) override;
  std::uint64_t give_back(std::span<const float> values, const Gathered& behind) override;
  Gathered drop() override;
  Result<> step(std::span<float> averaged, std::uint64_t epoch) override;
  void adopt() override;
  Digest parameter_hash() const override;
  double loss() const override;

 private:
  state::Snapshot copy_state(std::uint64_t epoch) const override;
  Result<> load_state(const state::Snapshot& snapshot) override;

  struct LossSum {
    double sum = 0;
    std::uint64_t samples = 0;
  };

  Stepper& stepper_;
  std::atomic<std::uint64_t> epoch_ = 0;
  mutable std::mutex mutex_;  // of all below: the loop may take it between two microbatches
  epoch::GradientAccumulator gathered_;
  LossSum loss_;         // of what is gathered
  LossSum handed_over_;  // of what may come back
};

}  // namespace collab::optim
