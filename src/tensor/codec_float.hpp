#pragma once
// float32, float16 and bfloat16: no blocks, so any range may be encoded.

#include "tensor/codec.hpp"

namespace collab {

/// 4 bytes a value, exact.
const Codec& float32_codec() noexcept;

/// IEEE binary16, round to nearest even; values beyond ±65504 become ±65504.
/// Error: 2^-11 |x|, or 2^-25 where |x| < 2^-14; |x| - 65504 beyond.
const Codec& float16_codec() noexcept;

/// The same bytes and values from arithmetic that every processor has. `float16_codec` is this one where the processor
/// cannot convert by itself (x86's F16C): peers of both kinds share a group.
const Codec& portable_float16_codec() noexcept;

/// The upper half of a float32, round to nearest even; never rounds up to infinity.
/// Error: 2^-8 |x|, or 2^-134 where |x| < 2^-126.
const Codec& bfloat16_codec() noexcept;

}  // namespace collab
