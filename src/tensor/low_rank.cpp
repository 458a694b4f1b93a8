#include "tensor/low_rank.hpp"

#include "tensor/vector_level.hpp"

#include <cmath>
#include <cstring>

namespace collab {
namespace {

// Many sums side by side, in vectors of the width that a level has. Each sum has one order, the same at every width.
template <std::size_t kWidth>
struct Vector {
  using Lanes [[gnu::vector_size(kWidth * sizeof(float))]] = float;
};
constexpr std::size_t kSide = kPowerSgdColumns;
constexpr std::size_t kPartialSums = 16;

template <class Lanes>
[[gnu::always_inline]] inline void store(LowRankFactor& factor, std::size_t at, const Lanes& c0, const Lanes& c1,
                                         const Lanes& c2, const Lanes& c3) {
  std::memcpy(&factor[at], &c0, sizeof(c0));
  std::memcpy(&factor[kSide + at], &c1, sizeof(c1));
  std::memcpy(&factor[2 * kSide + at], &c2, sizeof(c2));
  std::memcpy(&factor[3 * kSide + at], &c3, sizeof(c3));
}

template <std::size_t kWidth>
[[gnu::always_inline]] inline void multiply(const LowRankMatrix& matrix, const LowRankFactor& factor,
                                            LowRankFactor& out) {
  using Lanes = typename Vector<kWidth>::Lanes;
  // eight sums, so that none waits for its last term; by name, for g++ -O2 keeps no arrays in registers
  static_assert(kPowerSgdRank == 4);
  for (std::size_t column = 0; column < kSide; column += 2 * kWidth) {
    Lanes a0{}, a1{}, a2{}, a3{}, b0{}, b1{}, b2{}, b3{};
    for (std::size_t row = 0; row < kSide; ++row) {
      Lanes a, b;
      std::memcpy(&a, &matrix[row * kSide + column], sizeof(a));
      std::memcpy(&b, &matrix[row * kSide + column + kWidth], sizeof(b));
      const float f0 = factor[row], f1 = factor[kSide + row], f2 = factor[2 * kSide + row],
                  f3 = factor[3 * kSide + row];
      a0 += a * f0, b0 += b * f0;
      a1 += a * f1, b1 += b * f1;
      a2 += a * f2, b2 += b * f2;
      a3 += a * f3, b3 += b * f3;
    }
    store(out, column, a0, a1, a2, a3);
    store(out, column + kWidth, b0, b1, b2, b3);
  }
}

template <std::size_t kWidth>
[[gnu::always_inline]] inline float dot(const float* a, const float* b) {
  using Lanes = typename Vector<kWidth>::Lanes;
  constexpr std::size_t kVectors = kPartialSums / kWidth;
  Lanes sums[kVectors] = {};
  for (std::size_t i = 0; i < kSide; i += kPartialSums) {
    Lanes left[kVectors];
    Lanes right[kVectors];
    std::memcpy(&left, a + i, sizeof(left));
    std::memcpy(&right, b + i, sizeof(right));
    for (std::size_t v = 0; v < kVectors; ++v) sums[v] += left[v] * right[v];
  }
  std::array<float, kPartialSums> parts;
  std::memcpy(parts.data(), &sums, sizeof(sums));
  for (std::size_t half = kPartialSums / 2; half > 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) parts[i] += parts[i + half];
  return parts[0];
}

template <std::size_t kWidth>
[[gnu::always_inline]] inline void orthonormalize(LowRankFactor& columns) {
  constexpr float kNothingLeft = 1e-10F;  // of the square of a length: what is left then are roundings
  for (std::size_t r = 0; r < kPowerSgdRank; ++r) {
    float* column = &columns[r * kSide];
    const float before = dot<kWidth>(column, column);
    for (std::size_t s = 0; s < r; ++s) {
      const float* other = &columns[s * kSide];
      const float along = dot<kWidth>(column, other);
      for (std::size_t i = 0; i < kSide; ++i) column[i] -= along * other[i];
    }
    const float left = dot<kWidth>(column, column);
    const bool is_something = left > kNothingLeft * before && left > 0x1p-100F;
    const float inverse = is_something ? 1.0F / std::sqrt(left) : 0.0F;
    for (std::size_t i = 0; i < kSide; ++i) column[i] = is_something ? column[i] * inverse : 0.0F;
  }
}

template <std::size_t kWidth>
[[gnu::always_inline]] inline void expand(const LowRankFactor& p, const LowRankFactor& q, float scale,
                                          LowRankMatrix& out) {
  using Lanes = typename Vector<kWidth>::Lanes;
  const Lanes most = Lanes{} + 1.0F;
  for (std::size_t column = 0; column < kSide; column += kWidth) {
    Lanes values[kPowerSgdRank];
    for (std::size_t r = 0; r < kPowerSgdRank; ++r) std::memcpy(&values[r], &q[r * kSide + column], sizeof(Lanes));
    for (std::size_t row = 0; row < kSide; ++row) {
      Lanes sum{};
      for (std::size_t r = 0; r < kPowerSgdRank; ++r) sum += values[r] * p[r * kSide + row];
      sum = sum > most ? most : sum;
      sum = sum < -most ? -most : sum;
      sum *= scale;
      std::memcpy(&out[row * kSide + column], &sum, sizeof(sum));
    }
  }
}

void multiply_portable(const LowRankMatrix& matrix, const LowRankFactor& factor, LowRankFactor& out) {
  multiply<4>(matrix, factor, out);
}
void orthonormalize_portable(LowRankFactor& columns) {
  orthonormalize<4>(columns);
}
void expand_portable(const LowRankFactor& p, const LowRankFactor& q, float scale, LowRankMatrix& out) {
  expand<4>(p, q, scale, out);
}

#if defined(__x86_64__)
COLLAB_TARGET_AVX2 void multiply_avx2(const LowRankMatrix& matrix, const LowRankFactor& factor, LowRankFactor& out) {
  multiply<8>(matrix, factor, out);
}
COLLAB_TARGET_AVX2 void orthonormalize_avx2(LowRankFactor& columns) {
  orthonormalize<8>(columns);
}
COLLAB_TARGET_AVX2 void expand_avx2(const LowRankFactor& p, const LowRankFactor& q, float scale, LowRankMatrix& out) {
  expand<8>(p, q, scale, out);
}
COLLAB_TARGET_AVX512 void multiply_avx512(const LowRankMatrix& matrix, const LowRankFactor& factor,
                                          LowRankFactor& out) {
  multiply<16>(matrix, factor, out);
}
COLLAB_TARGET_AVX512 void orthonormalize_avx512(LowRankFactor& columns) {
  orthonormalize<16>(columns);
}
COLLAB_TARGET_AVX512 void expand_avx512(const LowRankFactor& p, const LowRankFactor& q, float scale,
                                        LowRankMatrix& out) {
  expand<16>(p, q, scale, out);
}
#endif

}  // namespace

const LowRankKernels kPortableLowRank = {multiply_portable, orthonormalize_portable, expand_portable};
#if defined(__x86_64__)
const LowRankKernels kAvx2LowRank = {multiply_avx2, orthonormalize_avx2, expand_avx2};
const LowRankKernels kAvx512LowRank = {multiply_avx512, orthonormalize_avx512, expand_avx512};
#endif

}  // namespace collab
