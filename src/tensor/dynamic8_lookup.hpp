#pragma once
// Finds the entry of the dynamic table nearest to a number.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace collab {

/// Nearest entries by one look-up, one addition and one shift.
///
/// Entries are symmetric but for -1, which is none, so ranks of magnitudes are enough: the rank of w is the number of
/// midpoints m of entries >= 0 with m < w. As floats >= 0 are ordered like their bits, w is taken as the integer of its
/// bits. Magnitudes are divided into buckets so narrow that at most one midpoint lies in each. For each bucket there is
/// a `step`, such that step + w, wrapping, is (rank << 23) plus a number under 2^23: what w lies behind the bucket's
/// begin, and so much more that it carries into the rank when w is above the midpoint.
///
/// A tie goes to the lower code, so the magnitude of a negative number counts as above a midpoint that it equals: one
/// is added to its bits.
class Dynamic8Lookup {
 public:
  static constexpr int kRankShift = 23;
  static constexpr int kShift = 17;                          // a bucket: equal exponent and six bits of the fraction
  static constexpr std::int32_t kFirst = (127 - 22) << 6;    // bucket of 2^-22, below the lowest midpoint
  static constexpr std::int32_t kLowest = kFirst << kShift;  // smaller magnitudes count as this
  static constexpr std::int32_t kHighest = (127 << 23) + 1;  // 1, and one more for the sign
  static constexpr std::int32_t kBuckets = (kHighest >> kShift) - kFirst + 1;
  static constexpr std::int32_t kZeroCode = 127;
  using Steps = std::array<std::uint32_t, kBuckets>;

  Dynamic8Lookup();

  const std::array<float, 256>& table() const { return table_; }
  const Steps& steps() const { return steps_; }

  // For other buckets, of the 2^shift magnitudes from `begin` on: does at most one midpoint lie within, and their step.
  bool fits(std::int32_t begin, int shift) const;
  std::uint32_t step(std::int32_t begin, int shift) const;

  /// `z` is in [-1, 1], or a little beyond by rounding. No branches: signs are as good as random.
  std::uint8_t nearest(float z) const { return code(z, rank(steps_, magnitude(z))); }

  // Its three steps, for loops over many.
  static std::int32_t magnitude(float z) {
    const auto bits = std::bit_cast<std::int32_t>(z);
    const std::int32_t w = (bits & 0x7fffffff) - (bits >> 31);
    const std::int32_t held = w > kLowest ? w : kLowest;
    return held < kHighest ? held : kHighest;
  }
  static std::int32_t rank(const Steps& steps, std::int32_t magnitude) {
    const std::uint32_t step = steps[static_cast<std::size_t>((magnitude >> kShift) - kFirst)];
    return static_cast<std::int32_t>((step + static_cast<std::uint32_t>(magnitude)) >> kRankShift);
  }
  static std::uint8_t code(float z, std::int32_t rank) {
    const std::int32_t negative = std::bit_cast<std::int32_t>(z) >> 31;  // 0 or -1
    const std::int32_t code = kZeroCode + ((rank ^ negative) - negative);
    return static_cast<std::uint8_t>(code > 0 ? code : 0);  // there is no entry for -1
  }

  /// One of the two entries around `z`, the upper one with the probability that makes the mean `z`.
  std::uint8_t by_chance(float z, float uniform) const {
    const std::uint8_t near = nearest(z);
    const std::size_t above = std::clamp<std::size_t>(near + (table_[near] < z ? 1U : 0U), 1, table_.size() - 1);
    const float share = (z - table_[above - 1]) / (table_[above] - table_[above - 1]);
    return static_cast<std::uint8_t>(uniform < share ? above : above - 1);
  }

 private:
  /// By definition.
  std::size_t rank_of(std::int32_t magnitude) const;

  std::array<float, 256> table_;
  std::array<std::int32_t, 128> borders_{};  // borders_[r]: the least magnitude of a rank above r
  Steps steps_{};
};

const Dynamic8Lookup& dynamic8_lookup() noexcept;

}  // namespace collab
