#pragma once
// Who computes, as the flow of an epoch sees it: spans of floats, no torch.

#include "base/error.hpp"
#include "base/work.hpp"
#include "crypto/hash.hpp"
#include "crypto/peer_id.hpp"
#include "data/ledger.hpp"
#include "state/snapshot.hpp"

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

namespace collab::epoch {

/// What a trainer holds after a step.
struct Stepped {
  bool finite = true;  ///< false: the step came to nothing, see Trainer::step
  Digest parameters{};
  data::Ledger::Added work;  ///< what was entered into the ledger
  data::Ledger ledger;
};

/// The model, its optimizer and the gradients gathered so far. Called through the Bridge, on the trainer's thread while
/// that is at a border; but samples, hand_over, give_back, take_on and loss also on the loop while it computes: they
/// know nothing of the microbatch in hand, and whoever adds it excludes them meanwhile. And take_step, of a trainer
/// whose `adopt` says so, on any thread.
class Trainer {
 public:
  virtual ~Trainer() = default;
  /// Length of the flat gradient.
  virtual std::size_t values() const = 0;
  /// Samples gathered since the last hand-over.
  virtual std::uint64_t samples() const = 0;
  /// Gives the mean gradient per sample gathered since the last hand-over, finite, and forgets it. Returns what is
  /// behind it; no samples: `values` are zeros. `values`: of any content and the right length, for what follows.
  virtual Gathered hand_over(std::vector<float>& values) = 0;
  /// Undoes a hand-over: the round failed and every sample is kept. Returns the samples lost: all of them when, with
  /// what was gathered since, they add up to more than float32 holds.
  virtual std::uint64_t give_back(std::span<const float> values, const Gathered& behind) = 0;
  /// Whether another peer of the epoch can go on with what was gathered: sums of gradients, not own steps.
  virtual bool hands_on() const { return false; }
  /// Of one that `hands_on` and leaves: what `hand_over` gives, never to come back.
  virtual Gathered hand_on(std::vector<float>& values) { return hand_over(values); }
  /// Of one that `hands_on`: adds what `from` has gathered for the present epoch, finite, and left to this one. False,
  /// and nothing has changed: with what is here it adds up to more than float32 holds, or both have a unit, or units in
  /// more than `ranges_max` ranges.
  virtual bool take_on(std::span<const float>, const Gathered&, const PeerId& /*from*/, std::size_t /*ranges_max*/) {
    return false;
  }
  /// Forgets what was gathered: the epoch it belongs to is over without it. Returns what is lost.
  virtual Gathered drop() = 0;
  /// The optimizer step of `epoch`; parameters belong to epoch + 1 afterwards, however it ends: others have taken the
  /// same one. `averaged` is its workspace: meaningless afterwards.
  /// Errors: `bad_request` when the average, or a parameter that the step made, is NaN or infinite: the parameters are
  /// then finite ones of before, maybe of some epochs before. Peers with another copy of those differ now, as does one
  /// whose arithmetic failed alone: they take what most hold, as whoever has diverged.
  virtual Result<> step(std::span<float> averaged, std::uint64_t epoch) = 0;
  /// state::parameter_hash of the parameters.
  virtual Digest parameter_hash() const = 0;
  /// Mean training loss of the samples gathered since the last step; NaN: unknown.
  virtual double loss() const = 0;

  /// Of the parameters: one more than the last step's, or a restored state's.
  virtual std::uint64_t epoch() const = 0;
  /// At a border, after a step: the next microbatch is computed on its parameters. One whose parameters are apart from
  /// those that microbatches read may take steps beside them. `step` and `restore` of others show at once.
  virtual void adopt() {}
  /// With Delay::gradients: whether the model waits with `adopt` for the next hand-over, so that all gradients of an
  /// epoch are of the same parameters; else it does so at the next border.
  virtual bool adopts_at_hand_over() const { return true; }
  /// While it is kept no step begins on another thread, and what is read here belongs together.
  std::unique_lock<std::mutex> still() const { return std::unique_lock(steps_); }

  /// The step, and the units that the round was made of, in one piece: nobody sees one without the other. Units of a
  /// step that came to nothing count as well: computed again, they would only do so again.
  Stepped take_step(std::span<float> averaged, std::uint64_t epoch, const Work& counted);

  /// A copy of everything that makes two peers of its epoch equal: the trainer's own state and the ledger.
  state::Snapshot snapshot() const;
  /// Errors: `bad_request` when sections are missing, malformed or of another size; nothing has changed then.
  Result<> restore(const state::Snapshot& snapshot);

  /// The units behind the parameters: a part of the state.
  data::Ledger& ledger() noexcept { return ledger_; }
  const data::Ledger& ledger() const noexcept { return ledger_; }

 private:
  /// snapshot() and restore() of all but the ledger.
  virtual state::Snapshot copy_state(std::uint64_t epoch) const = 0;
  virtual Result<> load_state(const state::Snapshot& snapshot) = 0;

  mutable std::mutex steps_;
  data::Ledger ledger_;
};

}  // namespace collab::epoch
