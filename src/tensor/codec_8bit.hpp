#pragma once
// One byte a value plus one float32 scale a block: linear steps, or the dynamic table of 8-bit optimizers. All
// levels give the same bytes and values.

#include "tensor/codec.hpp"
#include "tensor/vector_level.hpp"

#include <array>

namespace collab {

/// Per block a = max|x| as float32, then int8 q = rint(clamp(x·(1/a))·127), which stands for q·(a·(1/127)).
/// A block with a < 2^-126 is written as zeros. Error: a/253.
const Codec& linear8_codec(VectorLevel level = best_level()) noexcept;

/// Per block a, then the code of the entry of `dynamic8_table()` nearest to x/a (arXiv 2110.02861). Fine steps near 0,
/// coarse ones near a: for values whose size differs by orders of magnitude. Error: 0.00704·a, stochastic 0.0141·a.
const Codec& dynamic8_codec(VectorLevel level = best_level()) noexcept;

/// 256 values in ascending order: 0; 1; for k = 0..6 and both signs the centres of 2^k equal cells of [0.1, 1], times
/// 10^(k-6). There is no -1. Code 127 is 0.
const std::array<float, 256>& dynamic8_table() noexcept;

/// The code of the entry nearest to `z`, which is in [-1, 1]; a tie goes to the lower code.
std::uint8_t dynamic8_code(float z) noexcept;

/// The chance of stochastic rounding, in [0, 1) with 24 bits: a function of the place in the flat vector, whatever the
/// segment. SplitMix64, entered at `index`.
constexpr float stochastic_uniform(std::uint64_t seed, std::uint64_t index) noexcept {
  std::uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return static_cast<float>(static_cast<std::int32_t>((z ^ (z >> 31U)) >> 40U)) * 0x1p-24F;
}

}  // namespace collab
