#pragma once
// The loops of powersgd, once for each level of vector instructions. All levels give the same bits.

#include "tensor/codec_powersgd.hpp"

#include <array>

namespace collab {

/// Rows follow each other.
using LowRankMatrix = std::array<float, kPowerSgdColumns * kPowerSgdColumns>;
/// Column after column.
using LowRankFactor = std::array<float, kPowerSgdRank * kPowerSgdColumns>;

struct LowRankKernels {
  /// Column r of `out` is transposed(`matrix`) times column r of `factor`.
  void (*multiply)(const LowRankMatrix& matrix, const LowRankFactor& factor, LowRankFactor& out);
  /// Gram and Schmidt: columns of length 1, each at right angles to those before; zeros where nothing is left.
  void (*orthonormalize)(LowRankFactor& columns);
  /// Row i and column j of `out` is the sum of p[r][i] q[r][j], in [-1, 1], times `scale`.
  void (*expand)(const LowRankFactor& p, const LowRankFactor& q, float scale, LowRankMatrix& out);
};

extern const LowRankKernels kPortableLowRank;
#if defined(__x86_64__)
extern const LowRankKernels kAvx2LowRank;
extern const LowRankKernels kAvx512LowRank;
#endif

}  // namespace collab
