#pragma once
// A model that takes steps of its own between two averages.

#include "base/error.hpp"
#include "epoch/fragments.hpp"
#include "node/mode.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace collab::epoch {

/// What the swarm agrees on, and how far this peer's own steps have taken it from there.
///
/// What is handed over is by how much the epoch's fragment of the parameters, in a mode without fragments all of them,
/// has fallen since its hand-over before: a gradient, as far as the round is concerned. The averaged one moves the
/// agreed parameters by the outer step, alike everywhere. Then the model goes over to those by the delta rule,
/// `p += agreed - counted`: moves that nobody has counted yet stay in it, and without any it holds the agreed ones to
/// the bit. In a mode that mixes it goes part of the way, `p += a (agreed - counted)`, and what is left of its own way
/// is a part of the next hand-over. That is `p = (1 - a) p + a agreed` (arXiv:2501.18512, equation 3, whose a is our 1
/// - a), but for moves while the round ran, of which that would lose the part a: of 10 steps 3, in the test of the
/// loss. Memory: two vectors, one more with momentum, one more where models stay apart (`Mode::keeps_apart`). Thread
/// safety: `step` may run beside what does not read what is agreed on: `hand_over`, `give_back`, `begun`. Spans of
/// parameters have their length.
class LocalSteps {
 public:
  LocalSteps(std::span<const float> parameters, const node::Mode& mode);

  std::span<const float> agreed() const noexcept { return agreed_; }
  std::span<const float> momentum() const noexcept { return momentum_; }  ///< empty when the mode has none
  /// Values that a round carries; in that of the last fragment the rest is zeros.
  std::size_t carried() const noexcept { return fragments_.length(); }

  /// Gives how far the fragment of `epoch` has fallen in `parameters`, and counts it; `fallen` has carried() values.
  void hand_over(std::uint64_t epoch, std::span<const float> parameters, std::span<float> fallen);
  /// The round failed: what was handed over goes with the next hand-over. The parameters stay where they are.
  void give_back(std::uint64_t epoch, std::span<const float> fallen);
  /// What the parameters were when the epoch began: there they are without the moves since. After a round that failed
  /// what all have counted: moves of other fragments are lost with those of the epoch then.
  std::span<const float> begun() const noexcept { return begun_known_ ? begun_ : counted_; }
  /// The outer step. Errors: `bad_request`, with nothing changed, when the average or what comes of it is not finite.
  Result<> step(std::uint64_t epoch, std::span<const float> averaged);
  /// After a step: `parameters` go over to what is agreed of its fragment.
  void adopt(std::span<float> parameters);
  /// Begins anew from a state; `momentum` is empty or as long as that of the mode.
  void load(std::span<const float> agreed, std::span<const float> momentum);
  /// What the parameters are when they begin from a place of their own.
  void begin_at(std::span<const float> parameters);

 private:
  struct Moved {
    float parameter = 0;
    float momentum = 0;
  };
  Moved moved(std::size_t i, float averaged) const;
  float merged(float own, std::size_t i) const;

  double rate_;
  double momentum_kept_;
  double mix_;
  Fragments fragments_;
  std::vector<float> agreed_;
  std::vector<float> counted_;
  std::vector<float> momentum_;
  std::vector<float> begun_;  // empty where models are not apart: it is what is counted
  bool begun_known_ = false;
  std::optional<Range> stepped_;  // agreed, and not adopted yet
};

}  // namespace collab::epoch
