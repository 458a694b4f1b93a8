#pragma once
// float32, float16 and bfloat16: no blocks, so any range may be encoded. All levels give the same bytes and values.

#include "tensor/codec.hpp"
#include "tensor/vector_level.hpp"

namespace collab {

/// 4 bytes a value, exact.
const Codec& float32_codec(VectorLevel level = best_level()) noexcept;

/// IEEE binary16, round to nearest even; values beyond ±65504 become ±65504.
/// Error: 2^-11 |x|, or 2^-25 where |x| < 2^-14; |x| - 65504 beyond.
const Codec& float16_codec(VectorLevel level = best_level()) noexcept;

/// The upper half of a float32, round to nearest even; never rounds up to infinity.
/// Error: 2^-8 |x|, or 2^-134 where |x| < 2^-126.
const Codec& bfloat16_codec(VectorLevel level = best_level()) noexcept;

}  // namespace collab
