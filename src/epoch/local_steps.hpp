#pragma once
// A model that takes steps of its own between two averages.

#include "base/error.hpp"
#include "node/mode.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace collab::epoch {

/// What the swarm agrees on, and how far this peer's own steps have taken it from there.
///
/// What is handed over is by how much the parameters have fallen since the hand-over before: a gradient, as far as the
/// round is concerned. The averaged one moves the agreed parameters by the outer step, alike everywhere. The model then
/// goes over to those by the delta rule, `p += agreed - counted`: moves that nobody has counted yet stay in it, and
/// without any it holds the agreed ones to the bit.
/// Memory: two vectors, three with momentum. Thread safety: none. All spans have the length of the parameters.
class LocalSteps {
 public:
  LocalSteps(std::span<const float> parameters, const node::Mode& mode);

  std::span<const float> agreed() const noexcept { return agreed_; }
  std::span<const float> momentum() const noexcept { return momentum_; }  ///< empty when the mode has none

  /// Gives how far `parameters` have fallen, and counts it.
  void hand_over(std::span<const float> parameters, std::span<float> fallen);
  /// The round failed: what was handed over goes with the next hand-over. The parameters stay where they are.
  void give_back(std::span<const float> fallen);
  /// What the parameters were when they were counted last: there they are without the moves since.
  std::span<const float> counted() const noexcept { return counted_; }
  /// The outer step. Errors: `bad_request`, with nothing changed, when the average or what comes of it is not finite.
  Result<> step(std::span<const float> averaged);
  /// After a step: `parameters` become the agreed ones and the moves since the last hand-over.
  void adopt(std::span<float> parameters);
  /// Begins anew from a state; `momentum` is empty or as long as that of the mode.
  void load(std::span<const float> agreed, std::span<const float> momentum);

 private:
  struct Moved {
    float parameter = 0;
    float momentum = 0;
  };
  Moved moved(std::size_t i, float averaged) const;

  double rate_;
  double momentum_kept_;
  std::vector<float> agreed_;
  std::vector<float> counted_;
  std::vector<float> momentum_;
};

}  // namespace collab::epoch
