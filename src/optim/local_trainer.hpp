#pragma once
// The trainer of a run that averages moves: each peer takes steps of its own, the swarm the outer one.

#include "epoch/local_steps.hpp"
#include "optim/model_trainer.hpp"
#include "optim/statistics.hpp"

namespace collab::optim {

/// A step for each microbatch, by the stepper. What peers have in common, hash and send to joiners are the agreed
/// parameters, the momentum of the outer step, and moments that the mode averages along; all others are each peer's
/// own. A microbatch whose step makes parameters that are not finite counts, but takes the moves since the last outer
/// step with it.
///
/// A round carries the fragment whose turn it is, then the statistics whose turn it is. In a mode with an overlap the
/// model takes a fragment's average after so many own steps, or with the first one after the round, and at the latest
/// when it hands over the next.
///
/// DiLoCo: moments that begin from nothing are no help to the others, so whoever has fetched the state computes
/// silently: until each fragment had an outer step, or until it has taken as many steps as the mode has inner ones.
/// Memory: two flat vectors beside the stepper's, one more with outer momentum, one more where models stay apart.
class LocalTrainer final : public ModelTrainer {
 public:
  LocalTrainer(Stepper& stepper, const node::Mode& mode)
      : ModelTrainer(stepper), mode_(mode), local_(stepper.parameters(), mode), statistics_(stepper, mode) {}

  bool adopts_at_hand_over() const override { return mode_.overlap > 0; }
  Digest parameter_hash() const override;
  /// The stepper's moments, and where the model is when it stays apart.
  Bytes own_state() const override;
  Result<> load_own_state(std::span<const std::byte> bytes) override;

 private:
  Microbatch add(const Gathered& behind, double scale) override;
  std::uint64_t gathered() const override { return gathered_.samples; }
  Gathered give(std::vector<float>& values) override;
  std::uint64_t take_back(std::span<const float> values, const Gathered& behind) override;
  Gathered forget() override;
  std::size_t carried() const override { return local_.carried() + statistics_.carried(); }
  Result<> step_model(std::span<float> averaged, std::uint64_t epoch) override;
  void adopt_model() override;
  bool adopts_now() const override;
  state::Snapshot copy_model(std::uint64_t epoch) const override;
  Result<> load_model(const state::Snapshot& snapshot) override;
  void count_bad_step();

  node::Mode mode_;
  epoch::LocalSteps local_;
  Statistics statistics_;
  Gathered gathered_;
  bool moved_ = false;               // since the epoch began
  std::uint64_t silent_steps_ = 0;   // still to take
  std::uint64_t silent_epochs_ = 0;  // then there are none
  std::uint64_t steps_beside_ = 0;   // taken since the last hand-over
  bool to_adopt_ = false;            // an outer step that the model has not seen
  unsigned bad_steps_ = 0;           // outer ones, in a row
};

}  // namespace collab::optim
