#pragma once
// The trainer of a run that averages gradients: one optimizer step for everybody.

#include "epoch/gradient_accumulator.hpp"
#include "optim/model_trainer.hpp"

namespace collab::optim {

/// Sums gradients; the step is the stepper's. Memory: one flat vector beside the stepper's.
class GradientTrainer final : public ModelTrainer {
 public:
  explicit GradientTrainer(Stepper& stepper) : ModelTrainer(stepper), gathered_(stepper.schema().values()) {}

  Digest parameter_hash() const override;
  bool hands_on() const override { return true; }
  bool take_on(std::span<const float> values, const Gathered& behind, const PeerId& from,
               std::size_t ranges_max) override;

 private:
  Microbatch add(const Gathered& behind, double scale) override;
  std::uint64_t gathered() const override { return gathered_.samples(); }
  Gathered give(std::vector<float>& values) override { return gathered_.hand_over(values); }
  std::uint64_t take_back(std::span<const float> values, const Gathered& behind) override {
    return gathered_.give_back(values, behind);
  }
  Gathered forget() override { return gathered_.drop(); }
  std::size_t carried() const override { return stepper_.schema().values(); }
  void make_room() override { gathered_ = epoch::GradientAccumulator(values()); }
  Result<> step_model(std::span<float> averaged, std::uint64_t epoch) override;
  void adopt_model() override { stepper_.adopt(); }
  state::Snapshot copy_model(std::uint64_t epoch) const override;
  Result<> load_model(const state::Snapshot& snapshot) override;

  epoch::GradientAccumulator gathered_;
};

}  // namespace collab::optim
