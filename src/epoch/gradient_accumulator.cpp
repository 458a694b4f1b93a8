#include "epoch/gradient_accumulator.hpp"

#include "tensor/vector_level.hpp"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <utility>

namespace collab::epoch {
namespace {

constexpr std::size_t kBlock = 256;

// Blocks of constant length and pointers that cannot overlap: the loops become vector instructions.

/// False, and nothing is stored, when a sum would not be finite.
template <std::size_t kSize>
[[gnu::always_inline]] inline bool add_block(const float* __restrict values, float weight,
                                             float* __restrict sum) noexcept {
  std::uint32_t bad = 0;
  for (std::size_t k = 0; k < kSize; ++k) bad |= not_finite(sum[k] + weight * values[k]);
  if ((bad & kNotFinite) != 0) return false;
  for (std::size_t k = 0; k < kSize; ++k) sum[k] += weight * values[k];
  return true;
}

/// Adds until a sum would not be finite; returns how many values were added. To ask of all values first would read them
/// from memory twice: a block is still in the nearest cache when it is added. No overlap.
[[gnu::always_inline]] inline std::size_t add_blocks(const float* __restrict values, float weight,
                                                     float* __restrict sum, std::size_t size) noexcept {
  std::size_t i = 0;
  for (; i + kBlock <= size; i += kBlock)
    if (!add_block<kBlock>(values + i, weight, sum + i)) return i;
  for (; i < size; ++i)
    if (!add_block<1>(values + i, weight, sum + i)) return i;
  return size;
}

// The same instructions on longer vectors, so the same bits.
#if defined(__x86_64__)
COLLAB_TARGET_AVX2 std::size_t add_with_avx2(const float* values, float weight, float* sum, std::size_t size) noexcept {
  return add_blocks(values, weight, sum, size);
}
#endif

std::size_t add_while_finite(const float* values, float weight, float* sum, std::size_t size) noexcept {
#if defined(__x86_64__)
  if (works_here(VectorLevel::avx2)) return add_with_avx2(values, weight, sum, size);
#endif
  return add_blocks(values, weight, sum, size);
}

void divide(float* values, float by, std::size_t size) noexcept {
  std::size_t i = 0;
  for (; i + kBlock <= size; i += kBlock)
    for (std::size_t k = i; k < i + kBlock; ++k) values[k] /= by;
  for (; i < size; ++i) values[i] /= by;
}

}  // namespace

bool GradientAccumulator::add(std::span<const FlatPiece> mean_gradient, const Gathered& behind, double scale) {
  assert(behind.samples > 0);
  if (behind_.samples == 0) std::fill(sum_.begin(), sum_.end(), 0.0F);
  const auto weight = static_cast<float>(static_cast<double>(behind.samples) / scale);
  for (std::size_t i = 0; i < mean_gradient.size(); ++i) {
    const FlatPiece& piece = mean_gradient[i];
    assert(piece.offset <= sum_.size() && piece.values.size() <= sum_.size() - piece.offset);
    float* sum = sum_.data() + piece.offset;
    const std::size_t added = add_while_finite(piece.values.data(), weight, sum, piece.values.size());
    if (added == piece.values.size()) continue;
    take_back(mean_gradient.first(i), weight);
    const FlatPiece begun{piece.offset, piece.values.first(added)};
    take_back({&begun, 1}, weight);
    return false;
  }
  behind_.samples += behind.samples;
  behind_.work.add(behind.work);
  return true;
}

void GradientAccumulator::take_back(std::span<const FlatPiece> pieces, float weight) {
  for (const FlatPiece& piece : pieces) {
    float* sum = sum_.data() + piece.offset;
    for (std::size_t k = 0; k < piece.values.size(); ++k) sum[k] -= weight * piece.values[k];
  }
}

Gathered GradientAccumulator::hand_over(std::vector<float>& mean_gradient) {
  assert(mean_gradient.size() == sum_.size());
  if (behind_.samples > 0) {
    divide(sum_.data(), static_cast<float>(behind_.samples), sum_.size());
    sum_.swap(mean_gradient);
  } else {
    std::fill(mean_gradient.begin(), mean_gradient.end(), 0.0F);
  }
  return std::exchange(behind_, {});
}

std::uint64_t GradientAccumulator::give_back(std::span<const float> mean_gradient, const Gathered& behind) {
  if (behind.samples == 0) return 0;
  const FlatPiece whole{0, mean_gradient};
  return add({&whole, 1}, behind) ? 0 : behind.samples;
}

bool GradientAccumulator::take_on(std::span<const float> mean_gradient, const Gathered& behind,
                                  std::size_t ranges_max) {
  Work both = behind_.work;
  both.add(behind.work);
  if (both.ranges().size() > ranges_max || behind_.work.overlaps(behind.work)) return false;
  const FlatPiece whole{0, mean_gradient};
  return add({&whole, 1}, behind);
}

Gathered GradientAccumulator::drop() {
  return std::exchange(behind_, {});
}

}  // namespace collab::epoch
