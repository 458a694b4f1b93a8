#pragma once
// Sums and clipping whose bits do not depend on machine, compiler or number of threads.

#include <cstddef>
#include <span>

namespace collab::optim {

/// Values that one thread sums in one go. Part of the arithmetic: the sums of blocks are added in order, so another
/// size would give other bits.
inline constexpr std::size_t kBlockValues = 4096;

/// Sum of squares in float64: eight lanes inside a block, blocks in order.
double sum_of_squares(std::span<const float> values);

/// Scales `values` down to the Euclidean norm `norm_max` when theirs is larger, and returns the norm they had. Nothing
/// is scaled when `norm_max` is 0, or when the norm is not finite: then the values are the caller's to refuse.
double clip_norm(std::span<float> values, double norm_max);

}  // namespace collab::optim
