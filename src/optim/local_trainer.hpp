#pragma once
// The trainer of a run that averages moves: each peer takes steps of its own, the swarm the outer one.

#include "epoch/local_steps.hpp"
#include "optim/model_trainer.hpp"

namespace collab::optim {

/// A step for each microbatch, by the stepper. What peers have in common, hash and send to joiners are the agreed
/// parameters and the momentum of the outer step; the stepper's moments are each peer's own. A microbatch whose step
/// makes parameters that are not finite counts, but takes the moves since the last outer step with it.
///
/// DiLoCo: moments that begin from nothing are no help to the others, so whoever has fetched the state computes
/// silently: until the next outer step, or until it has taken as many steps as an epoch has target batches.
/// Memory: two flat vectors beside the stepper's, three with outer momentum.
class LocalTrainer final : public ModelTrainer {
 public:
  LocalTrainer(Stepper& stepper, const node::Mode& mode)
      : ModelTrainer(stepper), mode_(mode), local_(stepper.parameters(), mode) {}

  Result<> step(std::span<float> averaged, std::uint64_t epoch) override;
  void adopt() override;
  bool adopts_at_hand_over() const override { return false; }
  Digest parameter_hash() const override;
  /// The stepper's moments.
  Bytes own_state() const override;
  Result<> load_own_state(std::span<const std::byte> bytes) override;

 private:
  Microbatch add(const Gathered& behind, double scale) override;
  std::uint64_t gathered() const override { return gathered_.samples; }
  Gathered give(std::vector<float>& values) override;
  std::uint64_t take_back(std::span<const float> values, const Gathered& behind) override;
  Gathered forget() override;
  state::Snapshot copy_state(std::uint64_t epoch) const override;
  Result<> load_state(const state::Snapshot& snapshot) override;
  void count_bad_step();

  node::Mode mode_;
  epoch::LocalSteps local_;
  Gathered gathered_;
  bool moved_ = false;              // since the moves were counted
  std::uint64_t silent_steps_ = 0;  // still to take
  bool to_adopt_ = false;           // an outer step that the model has not seen
  unsigned bad_steps_ = 0;          // outer ones, in a row
};

}  // namespace collab::optim
