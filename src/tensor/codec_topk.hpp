#pragma once
// Of each block the largest values only: for parts whose sender keeps the rest (epoch/feedback.hpp).

#include "tensor/codec.hpp"
#include "tensor/vector_level.hpp"

namespace collab {

inline constexpr std::size_t kTopkShare = 32;  ///< of so many values one is written

/// Per block of n values the k = ceil(n / 32) of largest |x|, of equal ones those that come first: k positions in the
/// block, uint16 and ascending, then k float16; all others stand for 0. The same bytes at all levels.
///
/// One share for blocks of all sizes, so the bytes of a range follow from the range. Error: |x| at most, or that of
/// float16. Decoding refuses positions that do not ascend or lie outside, and values that are not finite.
const Codec& topk_codec(VectorLevel level = best_level()) noexcept;

}  // namespace collab
