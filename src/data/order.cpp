#include "data/order.hpp"

#include "base/random.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

namespace collab::data {

namespace {

constexpr unsigned kRounds = 8;

/// Uses of one seed that must not resemble each other.
enum class Use : std::uint64_t { order = 1, sample = 2 };

std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
  return Random(Random(a).next() ^ b).next();
}

std::uint64_t mix(std::uint64_t seed, Use use, std::uint64_t index) noexcept {
  return mix(mix(seed, static_cast<std::uint64_t>(use)), index);
}

}  // namespace

Permutation::Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t pass) noexcept
    : size_(size),
      key_(mix(seed, Use::order, pass)),
      half_bits_(std::max(1U, (static_cast<unsigned>(std::bit_width(size - 1)) + 1) / 2)) {
  assert(size > 0);
}

// The network permutes 0 .. 4^half_bits - 1. Who lands outside 0 .. size-1 walks on along its cycle, which leads back
// inside because it began there: fewer than 4 steps on average, for the network is at most 4 times as large.
std::uint64_t Permutation::operator()(std::uint64_t index) const noexcept {
  assert(index < size_);
  const std::uint64_t mask = (std::uint64_t(1) << half_bits_) - 1;
  do {
    std::uint64_t left = index >> half_bits_;
    std::uint64_t right = index & mask;
    for (unsigned round = 0; round < kRounds; ++round) {
      const std::uint64_t next = left ^ (mix(key_ + round, right) & mask);
      left = right;
      right = next;
    }
    index = left << half_bits_ | right;
  } while (index >= size_);
  return index;
}

Sample sample_of_unit(std::uint64_t unit, std::uint64_t windows, std::uint64_t seed) noexcept {
  assert(windows > 0);
  return {Permutation(windows, seed, unit / windows)(unit % windows), mix(seed, Use::sample, unit)};
}

}  // namespace collab::data
