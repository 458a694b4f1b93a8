#pragma once
// What an epoch of a run averages, and what the average does: alike at all peers, and part of what they compare.

#include "base/error.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace collab::node {

/// Of gradients: everybody takes the one step of the run with their mean (DeDLOC: arXiv:2106.10207).
/// Of moves: everybody takes steps of its own, and the mean of how far they went is the gradient of an outer step, SGD
/// with Nesterov's momentum (DiLoCo: arXiv:2311.08105). With rate 1 and no momentum that is the mean of the parameters
/// (local SGD: arXiv:1805.09767).
struct Mode {
  enum class Average : std::uint8_t { gradients, moves };
  Average average = Average::gradients;
  /// Of moves: target batches of the recipe that make an epoch. 1 to 10^6.
  std::uint64_t inner_steps = 1;
  double outer_rate = 1;      ///< of moves; above 0, at most 10
  double outer_momentum = 0;  ///< of moves; 0 to below 1
  bool operator==(const Mode&) const = default;

  /// DiLoCo as its paper has it.
  static Mode diloco(std::uint64_t inner_steps = 100) { return {Average::moves, inner_steps, 0.7, 0.9}; }
  static Mode local(std::uint64_t inner_steps = 1) { return {Average::moves, inner_steps, 1, 0}; }
};

/// What manifests and flags say: "synchronous"; "local", which may go on as ",inner_steps=20"; "diloco", also as
/// ",rate=0.7" and ",momentum=0.9". Errors: `bad_request` for anything else, or numbers out of range.
Result<Mode> parse_mode(std::string_view text);
/// Its one canonical text.
std::string to_string(const Mode& mode);

}  // namespace collab::node
