#pragma once
// Applies averaged gradients, alike on every peer: schedule by epoch, clipping, step, guard against NaN.

#include "optim/factory.hpp"
#include "optim/flatten.hpp"
#include "optim/moments.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace collab::optim {

struct StepperOptions {
  std::function<double(std::uint64_t epoch)> schedule = {};  ///< learning rate; empty: the optimizer's own stays
  double grad_norm_max = 0;                                  ///< of the averaged gradient; 0: no bound
  std::uint64_t backup_every = 10;                           ///< epochs between snapshots in memory; at least 1
  /// Masters and moments lie apart from the model, in main memory: `step` may run beside a microbatch, and the model
  /// has its parameters from `adopt` on. Takes two more vectors.
  bool offload = false;
  unsigned bad_steps_max = 3;  ///< in a row; then training stops
};

enum class StepOutcome {
  stepped,
  skipped,   ///< the averaged gradient is not finite; nothing has changed
  restored,  ///< the step made parameters that are not finite: back to the last snapshot
};

struct StepReport {
  StepOutcome outcome = StepOutcome::stepped;
  double gradient_norm = 0;  ///< before clipping
  double learning_rate = 0;
};

/// Parameters, gradients and optimizer of one model. Trainer thread only.
///
/// Peers that start with equal parameters and state and are given equal averages stay equal, to the bit with our LAMB.
class Stepper {
 public:
  /// `module`'s parameters become views of one vector; it must outlive this. Throws `Failure(usage)` for parameters
  /// (see FlatParameters) or optimizers (see Moments) that cannot be shared.
  Stepper(torch::nn::Module& module, const OptimizerFactory& factory, StepperOptions options);
  Stepper(std::vector<NamedTensor> tensors, const OptimizerFactory& factory, StepperOptions options);
  ~Stepper();

  const Schema& schema() const noexcept { return flat_.schema(); }  ///< of parameters and gradients alike
  /// In main memory; write only through `load_state`.
  std::span<const float> parameters() const { return flat_.parameters(); }
  /// What backward has added up since the last `clear_gradients`; as in FlatParameters.
  std::vector<FlatPiece> gradient_pieces() { return flat_.gradient_pieces(); }
  void clear_gradients() { flat_.clear_gradients(); }
  /// The same in one vector, after `collect_gradients`.
  std::span<float> gradients() { return flat_.gradients(); }
  void collect_gradients() { flat_.collect_gradients(); }

  /// One optimizer step with `averaged`, whose length is the schema's, as the gradients: what is in them must have been
  /// taken out before, and they are none afterwards. Nothing is copied: `averaged` is workspace, meaningless
  /// afterwards. Throws `Failure(training_stopped)` after `bad_steps_max` bad steps in a row.
  StepReport step(std::span<float> averaged, std::uint64_t epoch);
  /// With `offload`: the model goes over to the parameters of the last step, but keeps what somebody else has changed
  /// them by meanwhile. Without it steps show at once. Not while a step runs.
  void adopt();

  /// What a joiner needs: parameters, then moments. Views of them, one per tensor, for reading only: they change with
  /// the next step. `steps` goes with them.
  const Schema& state_schema() const noexcept { return state_schema_; }
  std::vector<std::span<const float>> state() const;
  /// The second part of it.
  std::vector<std::span<const float>> moments() const;
  /// The moments of these kinds ("exp_avg_sq"), kind after kind, each as long as the parameters; what is written to
  /// them is what the next step begins with. Throws `Failure(usage)` when the optimizer has none of a kind.
  std::vector<std::span<float>> moments_named(const std::vector<std::string>& kinds);
  /// As if they had so many steps behind them.
  void begin_moments_at(std::uint64_t steps);
  std::uint64_t steps() const { return moments_->steps(); }

  /// Replaces parameters and moments by `values`: the tensors of `state_schema`, one after the other. The snapshot of
  /// the guard is taken anew. Errors: `bad_request`, with nothing changed, for another length or a value that is not
  /// finite.
  Result<void> load_state(std::span<const float> values, std::uint64_t steps);
  /// Replaces the parameters only (a checkpoint without moments, an average of parameters); errors as above.
  Result<void> load_parameters(std::span<const float> values);

 private:
  struct Snapshot {
    std::vector<float> values;
    std::uint64_t steps = 0;
  };

  std::vector<std::span<float>> mutable_state() const;
  void show();
  void take_snapshot();
  void restore_snapshot();
  void count_bad_step(const std::string& what);

  StepperOptions options_;
  FlatParameters flat_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::optional<Moments> moments_;
  Schema state_schema_;
  Snapshot snapshot_;
  unsigned bad_steps_ = 0;
  bool to_adopt_ = false;  // a step that the model has not seen
};

}  // namespace collab::optim
