#pragma once
// Which sample a unit of work is: pure, the same on every peer.

#include <cstdint>

namespace collab::data {

/// A permutation of 0 .. size-1 chosen by (seed, pass): a Feistel network with cycle walking.
class Permutation {
 public:
  Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t pass) noexcept;
  std::uint64_t operator()(std::uint64_t index) const noexcept;  ///< index < size

 private:
  std::uint64_t size_;
  std::uint64_t key_;
  unsigned half_bits_;
};

/// Unit `unit` of an endless stream of passes over `windows` windows.
struct Sample {
  std::uint64_t window = 0;  ///< index of a training window
  std::uint64_t seed = 0;    ///< of masking and splitting
};
Sample sample_of_unit(std::uint64_t unit, std::uint64_t windows, std::uint64_t seed) noexcept;

}  // namespace collab::data
