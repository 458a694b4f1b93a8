#pragma once
// What an epoch of a run averages, and what the average does: alike at all peers, and part of what they compare.

#include "base/error.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace collab::node {

/// Of gradients: everybody takes the one step of the run with their mean (DeDLOC: arXiv:2106.10207).
/// Of moves: everybody takes steps of its own, and the mean of how far they went is the gradient of an outer step, SGD
/// with Nesterov's momentum (DiLoCo: arXiv:2311.08105). With rate 1 and no momentum that is the mean of the parameters
/// (local SGD: arXiv:1805.09767). In fragments: an epoch averages the moves of one of them, in turn (Streaming DiLoCo:
/// arXiv:2501.18512).
struct Mode {
  enum class Average : std::uint8_t { gradients, moves };
  Average average = Average::gradients;
  // What follows is of moves.
  /// Target batches of the recipe between two averages of a parameter. 1 to 10^6, a multiple of `fragments`.
  std::uint64_t inner_steps = 1;
  double outer_rate = 1;        ///< above 0, at most 10
  double outer_momentum = 0;    ///< 0 to below 1
  std::uint64_t fragments = 1;  ///< 1 to 256
  /// Own steps from the hand-over of a fragment until the model takes its average, which is made beside them; 0: when
  /// it is there, and whether a peer waits for it is its own matter. Fewer than an epoch has target batches.
  std::uint64_t overlap = 0;
  double mix = 1;  ///< a in p = (1 - a) local + a average, what it moved by meanwhile apart; above 0, at most 1
  /// Moments of the inner optimizer whose mean everybody takes ("exp_avg_sq"), at most 4; each value once in
  /// `statistics_every` epochs, a part of them in each, so that all rounds are of one size. 1 to 10^6 with any.
  std::vector<std::string> statistics = {};
  std::uint64_t statistics_every = 0;
  bool operator==(const Mode&) const = default;

  /// Target batches that make an epoch.
  std::uint64_t epoch_steps() const noexcept { return inner_steps / fragments; }
  /// Whether between two epochs a peer's model is another than what all agree on.
  bool keeps_apart() const noexcept { return fragments > 1 || mix < 1; }

  /// DiLoCo as its paper has it.
  static Mode diloco(std::uint64_t inner_steps = 100) { return of_moves(inner_steps, 0.7, 0.9); }
  static Mode local(std::uint64_t inner_steps = 1) { return of_moves(inner_steps, 1, 0); }
  static Mode of_moves(std::uint64_t inner_steps, double rate, double momentum) {
    Mode mode;
    mode.average = Average::moves;
    mode.inner_steps = inner_steps;
    mode.outer_rate = rate;
    mode.outer_momentum = momentum;
    return mode;
  }
};

/// What manifests and flags say: "synchronous"; "local", which may go on as ",inner_steps=20"; "diloco", also as
/// ",rate=0.7", ",momentum=0.9", ",fragments=4", ",overlap=5", ",mix=0.5". Both as ",average_statistics=exp_avg_sq", of
/// several with a "+" between, and ",state_averaging_every=1" (the default with any; 0: off). Errors: `bad_request` for
/// anything else, or numbers out of range.
Result<Mode> parse_mode(std::string_view text);
/// Its one canonical text.
std::string to_string(const Mode& mode);

}  // namespace collab::node
