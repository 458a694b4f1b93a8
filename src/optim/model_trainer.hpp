#pragma once
// The model and its optimizer as the flow of an epoch sees them.

#include "epoch/trainer.hpp"
#include "node/mode.hpp"
#include "optim/extras.hpp"
#include "optim/stepper.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace collab::optim {

/// Throws `Failure(usage)` when parameters and moments of `state` are more than a joiner can be given.
void check_size(const Schema& state);

/// What became of a microbatch.
enum class Microbatch : std::uint8_t {
  counted,
  dropped,  ///< it was NaN or infinite, and nothing has changed
  silent,   ///< computed, but nobody is to count it: see LocalTrainer
};

/// A round carries what the run averages of the model, then the tracked tensors.
/// Trainer thread only, but for what epoch::Trainer allows beside a microbatch.
class ModelTrainer : public epoch::Trainer {
 public:
  /// `stepper` outlives it.
  explicit ModelTrainer(Stepper& stepper) : stepper_(stepper) {}

  /// Takes over what backward left in the gradients: the mean over `behind.samples` > 0 samples. The gradients are none
  /// afterwards. `loss`: NaN when unknown. `scale`: what the loss was multiplied by before backward.
  Microbatch add_microbatch(const Gathered& behind, double loss, double scale = 1);

  /// Before the first microbatch and the first state: see Extras.
  void track(std::string name, at::Tensor tensor);
  const std::vector<TensorInfo>& tracked() const noexcept { return extras_.tensors(); }

  std::uint64_t epoch() const noexcept override { return epoch_; }  ///< any thread
  void begin_at(std::uint64_t epoch) noexcept { epoch_ = epoch; }

  std::size_t values() const override { return carried() + extras_.values(); }
  std::uint64_t samples() const override;
  Gathered hand_over(std::vector<float>& values) override;
  std::uint64_t give_back(std::span<const float> values, const Gathered& behind) override;
  Gathered drop() override;
  double loss() const override;
  Result<> step(std::span<float> averaged, std::uint64_t epoch) override;
  void adopt() override;

  /// What nobody else has and a later process of this peer wants, beside `snapshot`; empty: nothing.
  virtual Bytes own_state() const { return {}; }
  /// Of a state that this peer itself has kept; after `restore`. Errors: `bad_request`, with nothing changed.
  virtual Result<> load_own_state(std::span<const std::byte> bytes);

 protected:
  Stepper& stepper_;
  std::atomic<std::uint64_t> epoch_ = 0;

 private:
  state::Snapshot copy_state(std::uint64_t epoch) const override;
  Result<> load_state(const state::Snapshot& snapshot) override;

  // The model's part of a round, of the step that follows, and of the state.
  virtual std::size_t carried() const = 0;
  virtual void make_room() {}  // values() has become more
  virtual Result<> step_model(std::span<float> averaged, std::uint64_t epoch) = 0;
  virtual state::Snapshot copy_model(std::uint64_t epoch) const = 0;
  virtual Result<> load_model(const state::Snapshot& snapshot) = 0;
  virtual void adopt_model() = 0;                    // with mutex_ held
  virtual bool adopts_now() const { return false; }  // after a microbatch; with mutex_ held

  // With mutex_ held: what is summed or moved so far. `values` has a place for what is tracked behind the model's.
  virtual Microbatch add(const Gathered& behind, double scale) = 0;
  virtual std::uint64_t gathered() const = 0;
  virtual Gathered give(std::vector<float>& values) = 0;
  virtual std::uint64_t take_back(std::span<const float> values, const Gathered& behind) = 0;
  virtual Gathered forget() = 0;

  struct LossSum {
    double sum = 0;
    std::uint64_t samples = 0;
  };

 protected:
  mutable std::mutex mutex_;  // of what is gathered: the loop may take it between two microbatches

 private:
  Extras extras_;
  LossSum loss_;         // of what is gathered
  LossSum handed_over_;  // of what may come back
};

/// For the mode of the run.
std::unique_ptr<ModelTrainer> make_trainer(Stepper& stepper, const node::Mode& mode);

}  // namespace collab::optim
