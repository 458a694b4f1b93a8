#pragma once
// How many samples a peer computes at once, when its owner did not say.

#include "base/duration.hpp"

#include <cstdint>

namespace collab::jobs {

/// The recipe's number, which peers have memory for; fewer, by halves, where that takes longer than the others wait for
/// a border at an epoch's end. Thread safety: none; belongs to who computes.
class MicrobatchSize {
 public:
  static constexpr Duration kLongest = std::chrono::seconds(2);

  explicit MicrobatchSize(std::uint32_t recipes) : recipes_(recipes), samples_(recipes) {}

  std::uint32_t samples() const noexcept { return samples_; }
  /// So many were computed in so long. True: it is another number from now on, for two in a row were too slow, or many
  /// fast enough for twice as many: 16 at first, and eight times as many after each time that it was too many all the
  /// same. The first one of all counts for nothing: it warms up what computes.
  bool computed(std::uint64_t samples, Duration took);

 private:
  bool change_to(std::uint32_t samples);

  std::uint32_t recipes_;
  std::uint32_t samples_;
  unsigned slow_ = 0;  ///< in a row
  unsigned fast_ = 0;
  unsigned fast_in_a_row_ = 2;  ///< for more
  bool warm_ = false;
};

}  // namespace collab::jobs
