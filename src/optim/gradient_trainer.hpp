#pragma once
// The trainer of a run that averages gradients: one optimizer step for everybody.

#include "epoch/gradient_accumulator.hpp"
#include "optim/model_trainer.hpp"

namespace collab::optim {

/// Sums gradients; the step is the stepper's. Memory: one flat vector beside the stepper's.
class GradientTrainer final : public ModelTrainer {
 public:
  explicit GradientTrainer(Stepper& stepper) : ModelTrainer(stepper), gathered_(stepper.schema().values()) {}

  std::size_t values() const override { return stepper_.schema().values(); }
  Result<> step(std::span<float> averaged, std::uint64_t epoch) override;
  Digest parameter_hash() const override;

 private:
  Microbatch add(const Gathered& behind, double scale) override;
  std::uint64_t gathered() const override { return gathered_.samples(); }
  Gathered give(std::vector<float>& values) override { return gathered_.hand_over(values); }
  std::uint64_t take_back(std::span<const float> values, const Gathered& behind) override {
    return gathered_.give_back(values, behind);
  }
  Gathered forget() override { return gathered_.drop(); }
  void adopt_model() override { stepper_.adopt(); }
  state::Snapshot copy_state(std::uint64_t epoch) const override;
  Result<> load_state(const state::Snapshot& snapshot) override;

  epoch::GradientAccumulator gathered_;
};

}  // namespace collab::optim
