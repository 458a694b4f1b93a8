#pragma once
// The user's object around an existing training loop: accumulates, and takes the swarm's steps.

#include "epoch/delay.hpp"
#include "epoch/report.hpp"
#include "node/mode.hpp"
#include "optim/collaboration.hpp"
#include "optim/factory.hpp"
#include "optim/grad_scaler.hpp"
#include "optim/job.hpp"
#include "optim/stepper.hpp"
#include "state/snapshot.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace collab::optim {

enum class StepResult : std::uint8_t {
  accumulated,  ///< the microbatch counts for the epoch that is being gathered
  dropped,      ///< its loss or gradient was NaN or infinite: not counted
  committed,    ///< the swarm took a step with this peer in it
  caught_up,    ///< the swarm took a step without this peer; it was applied here too
  restored,     ///< the whole state was fetched from others
};

/// Thrown by step() after Collaboration::leave(), and when the run is over.
class Stopped : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct OptimizerOptions {
  StepperOptions stepper = {};
  std::uint64_t epochs_max = 0;           ///< the run is over then; 0: when its manifest says
  std::uint64_t seed = 0;                 ///< of the order and masks of the run
  std::uint64_t units_per_pass = 0;       ///< the job's; 0: a stream without end
  std::uint64_t first_epoch = 0;          ///< of the parameters that the module has now
  std::optional<std::string> codec = {};  ///< of gradients; empty: the manifest's
  /// What of an epoch's end step() does not wait for; any but `none` makes `stepper.offload` true. The module's
  /// parameters are then behind `epoch()`, up to a step, until the last step() of the run or finish(). In a mode with
  /// an overlap it is `gradients`.
  epoch::Delay delay = epoch::Delay::none;
  /// What an epoch averages; empty: what the manifest says. Any other is refused.
  std::optional<node::Mode> mode = {};
  GradScalerOptions loss_scale = {};  ///< of `scale`; this peer's own matter
  /// Asked ten times a second, on the trainer's thread, while step() waits for the others; false: it waits no longer,
  /// and the caller computes nothing more before finish(). Empty: it waits for as long as it takes.
  std::function<bool()> waiting = {};
  /// Of the time, what run() computes in, 1..100: it rests after each microbatch for as long as that takes.
  std::uint32_t cpu_percent = 100;
};

/// Parameters of one model, trained by everybody in the run. All calls on one thread, the trainer's.
///
/// The module's parameters become views of one vector. A replaced or reset `.grad` is legal.
class Optimizer {
 public:
  /// Starts the collaboration if nobody has. Names, order and shapes come from the module; a shared tensor counts once.
  /// Throws `Failure(incompatible)` when the run trains other tensors, or averages with a codec that is unknown here,
  /// or in another mode than `options` ask for.
  Optimizer(Collaboration& run, torch::nn::Module& module, const OptimizerFactory& factory,
            OptimizerOptions options = {});
  Optimizer(Collaboration& run, std::vector<NamedTensor> tensors, const OptimizerFactory& factory,
            OptimizerOptions options = {});
  /// Takes part no more; the collaboration goes on serving state until it leaves.
  ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Before join(), load() and the first step(): a tensor that is no parameter is averaged along, see Extras; after a
  /// step it holds what all have. The names, types and shapes of those tracked, and their order, are a part of what
  /// peers compare. Throws `Failure(usage)` when it cannot be, or too late; `Failure(incompatible)` in a run whose
  /// manifest names its tensors, which those are not.
  void track(std::string name, at::Tensor extra);

  /// Waits until this peer holds the swarm's present parameters: before it, samples would be for nothing. The first
  /// step() does it when nobody has. `waiting` is called about once a second; returning false gives up (false then).
  /// Throws `Failure(incompatible)` when the swarm's state is of another model or another optimizer, as step() does.
  bool join(const std::function<bool()>& waiting = {});

  /// After `backward()` of a mean loss over `samples` > 0 samples. Blocks only while a round is due; gradients are none
  /// afterwards. `loss`: shown to people; NaN: unknown. Throws Stopped.
  StepResult step(std::int64_t samples, double loss = std::numeric_limits<double>::quiet_NaN());

  /// For mixed precision: `loss` times this peer's loss scale, whose backward() comes next. step() takes the scale out
  /// again before anything is summed. Gradients that overflowed drop the microbatch and halve the scale. Of one
  /// microbatch's losses all pass through it, or none; what is told to step() is the loss itself.
  at::Tensor scale(const at::Tensor& loss);
  double loss_scale() const noexcept;

  /// Forgets what backward has left since the last step(); for loops that do so before each backward().
  void zero_grad();

  /// Computes nothing until the swarm has taken a step, or `patience` is over (accumulated then). For whoever has given
  /// its share of an epoch. Throws Stopped.
  StepResult wait(Duration patience);

  /// Before Collaboration::leave(): computes no more, and takes part in a round that is due within `leave_wait`, so
  /// that the samples in hand count. Else, where gradients are averaged, they are handed on to one peer that stays, and
  /// told as `samples.handed_on`; what nobody takes is dropped and told as `samples.lost`. Returns the samples lost, as
  /// far as this peer knows, none at the end of the run. Who may want the last state gets it until leave() returns. At
  /// most 4/5 of `leave_wait`; no step() after it. What reports() has then may be of an epoch that ended meanwhile.
  std::uint64_t finish();

  /// The next units of work for this peer: leased, so that nobody else computes them in this pass. 1..n of them: fewer
  /// when no more are leased yet. Waits only when there is none, and joins first. They belong to the next step(), whose
  /// samples are at least as many. Throws Stopped.
  std::vector<Unit> next_units(std::size_t n);
  /// next_units, gradients, step. Or, after a microbatch, a tenth of a second of the rest that `cpu_percent` asks
  /// for, at the border: the others wait for nothing.
  StepResult run(Job& job, std::size_t samples);

  /// The module goes over to the newest parameters, which with a delay it does somewhat later. For whoever evaluates.
  void adopt();

  /// Step counter of the run: of the parameters in the module.
  std::uint64_t epoch() const noexcept;
  /// Of the epochs with this peer in them that ended up to the last call that returned a StepResult, or finish(), and
  /// after the one before it: mostly none or one.
  const std::vector<epoch::EpochReport>& reports() const noexcept;
  /// Of the last epoch that this peer took part in; empty before.
  const std::optional<epoch::EpochReport>& last_report() const noexcept;
  Digest parameter_hash() const;
  /// Of the units that are behind the parameters: equal where they are equal.
  Digest ledger_hash() const;
  /// Whether this peer is the one who evaluates the present epoch: the current peer with the lowest hash(peer, epoch).
  bool my_turn() const;

  /// Everything a later process needs to go on: parameters, moments, epoch, loss scale. One file, written atomically.
  void save(const std::filesystem::path& file) const;
  /// Before the first step. Errors: `bad_request` when it is of another model.
  Result<void> load(const std::filesystem::path& file);
  /// What peers of an epoch have in common.
  state::Snapshot snapshot() const;
  /// What this peer has beside it, for a file of its own: the loss scale, moments of its own steps.
  std::vector<state::Section> own_sections() const;
  /// A snapshot, with or without own sections. Errors: `bad_request` when it is of another model, or an own section
  /// cannot be read.
  Result<void> restore(const state::Snapshot& snapshot);

  Stepper& stepper() noexcept;
  const Stepper& stepper() const noexcept;

 private:
  struct Inner;
  std::unique_ptr<Inner> inner_;
};

}  // namespace collab::optim
