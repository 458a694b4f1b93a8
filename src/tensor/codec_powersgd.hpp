#pragma once
// Each block as a matrix of low rank: for parts whose sender keeps the rest (epoch/feedback.hpp).

#include "tensor/codec.hpp"
#include "tensor/vector_level.hpp"

namespace collab {

inline constexpr std::size_t kPowerSgdColumns = 64;
inline constexpr std::size_t kPowerSgdRank = 4;

/// A block of n values, divided by a = max|x|, is the rows of a matrix M of 64 columns and ceil(n / 64) rows, filled up
/// with zeros. Subspace iteration, as PowerSGD (arXiv 1905.13727) has it, from four directions Q that follow from seed
/// and offset: twice P = orthonormal(M Q), Q = transposed(M) P. Written are float32 a, then the columns of P and those
/// of Q, float16; a value stands for the sum of P Q over the four, no farther from 0 than 1, times a. PowerSGD averages
/// P over the senders before it makes Q, which costs a second exchange; here each sender's part is one of its own.
///
/// A block that would not become smaller than as float16 (n <= 278) is written as float16. One with a < 2^-126 is
/// zeros. Error of a value: 2 a. Sums in one order, so the same bytes at all levels. Decoding refuses an a that encode
/// never writes, and factors that are not finite.
const Codec& powersgd_codec(VectorLevel level = best_level()) noexcept;

}  // namespace collab
