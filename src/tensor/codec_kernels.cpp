// The portable kernels. They work on a fixed number of values in local arrays or behind pointers that cannot overlap:
// g++ -O2 makes vector code of such loops and of no others. Whoever changes one changes all levels.
#include "tensor/codec_kernels.hpp"

#include "tensor/dynamic8_lookup.hpp"
#include "tensor/low_rank.hpp"
#include "tensor/view.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

namespace collab {
namespace {

static_assert(std::endian::native == std::endian::little, "values are copied as they lie in memory");

constexpr std::size_t kLane = 256;
using Floats = std::array<float, kLane>;
using Halves = std::array<std::uint16_t, kLane>;

// Signed, because SSE2 compares signed integers only; the sign bit of a magnitude is 0.
inline std::int32_t magnitude(float value) {
  return std::bit_cast<std::int32_t>(value) & 0x7fffffff;
}
/// `yes` where `when`, else `no`; both are computed, which g++ does not take upon itself for floats, and then has no
/// vectors.
inline std::int32_t choose_bits(bool when, std::int32_t yes, std::int32_t no) {
  const std::int32_t mask = when ? -1 : 0;
  return (yes & mask) | (no & ~mask);
}
inline std::int32_t sign_of_half(float value) {
  return static_cast<std::int32_t>((std::bit_cast<std::uint32_t>(value) >> 16U) & 0x8000U);
}

bool all_finite_portable(const float* __restrict values, std::size_t size) {
  std::size_t i = 0;
  for (; i + kLane <= size; i += kLane) {
    std::uint32_t bad = 0;
    for (std::size_t j = 0; j < kLane; ++j) bad |= not_finite(values[i + j]);
    if ((bad & kNotFinite) != 0) return false;
  }
  return std::all_of(values + i, values + size, [](float value) { return (not_finite(value) & kNotFinite) == 0; });
}

bool copy_finite_portable(const std::byte* __restrict from, std::size_t size, std::byte* __restrict into) {
  std::uint32_t bad = 0;
  for (std::size_t i = 0; i < size; ++i) {
    float value = 0;
    std::memcpy(&value, from + i * sizeof value, sizeof value);
    std::memcpy(into + i * sizeof value, &value, sizeof value);
    bad |= not_finite(value);
  }
  return (bad & kNotFinite) == 0;
}

float largest_portable(const float* values, std::size_t size) {
  std::int32_t bits = 0;  // magnitudes of floats are ordered like their bits, NaN above all
  Floats lane{};
  for (std::size_t i = 0; i < size; i += kLane) {
    std::memcpy(lane.data(), values + i, std::min(kLane, size - i) * sizeof(float));
    for (std::size_t j = 0; j < kLane; ++j) {
      const std::int32_t held = magnitude(lane[j]);
      bits = bits < held ? held : bits;
    }
  }
  return std::bit_cast<float>(bits);
}

/// False when a value is not finite, like all of these.
bool encode_float16_lane(const float* __restrict in, std::uint16_t* __restrict out) {
  constexpr std::int32_t largest = 0x477fe000;          // 65504
  constexpr std::int32_t smallest_normal = 0x38800000;  // 2^-14
  std::uint32_t bad = 0;
  for (std::size_t i = 0; i < kLane; ++i) {
    bad |= not_finite(in[i]);
    const std::int32_t bits = magnitude(in[i]);
    const std::int32_t held = bits < largest ? bits : largest;
    const std::int32_t normal = (held - (112 << 23) + 0xfff + ((held >> 13) & 1)) >> 13;
    // A float in [0.5, 1) has the steps of a binary16 subnormal, so the addition rounds as we need.
    const std::int32_t subnormal =
        std::bit_cast<std::int32_t>(std::bit_cast<float>(held) + 0.5F) - std::bit_cast<std::int32_t>(0.5F);
    out[i] = static_cast<std::uint16_t>(choose_bits(held < smallest_normal, subnormal, normal) | sign_of_half(in[i]));
  }
  return (bad & kNotFinite) == 0;
}

bool decode_float16_lane(const std::uint16_t* __restrict in, float* __restrict out) {
  std::int32_t overflow = 0;
  for (std::size_t i = 0; i < kLane; ++i) {
    const std::int32_t half = in[i];
    const std::int32_t bits = (half & 0x7fff) << 13;
    overflow |= (half & 0x7fff) + 0x0400;
    const std::int32_t normal = bits + (112 << 23);
    const float subnormal = std::bit_cast<float>(bits + (113 << 23)) - 0x1p-14F;
    const std::int32_t value = choose_bits(bits < (1 << 23), std::bit_cast<std::int32_t>(subnormal), normal);
    out[i] = std::bit_cast<float>(value | static_cast<std::int32_t>(std::uint32_t(half & 0x8000) << 16U));
  }
  return (overflow & 0x8000) == 0;
}

bool encode_bfloat16_lane(const float* __restrict in, std::uint16_t* __restrict out) {
  constexpr std::int32_t largest = 0x7f7f0000;
  std::uint32_t bad = 0;
  for (std::size_t i = 0; i < kLane; ++i) {
    bad |= not_finite(in[i]);
    const std::int32_t bits = magnitude(in[i]);
    const std::int32_t held = bits < largest ? bits : largest;
    out[i] = static_cast<std::uint16_t>(((held + 0x7fff + ((held >> 16) & 1)) >> 16) | sign_of_half(in[i]));
  }
  return (bad & kNotFinite) == 0;
}

bool decode_bfloat16_lane(const std::uint16_t* __restrict in, float* __restrict out) {
  std::int32_t overflow = 0;
  for (std::size_t i = 0; i < kLane; ++i) {
    const std::int32_t half = in[i];
    overflow |= (half & 0x7fff) + 0x0080;
    out[i] = std::bit_cast<float>(std::uint32_t(half) << 16U);
  }
  return (overflow & 0x8000) == 0;
}

template <bool (*encode_lane)(const float*, std::uint16_t*)>
bool encode_halves(const float* values, std::size_t size, std::byte* out) {
  Halves halves;
  std::size_t i = 0;
  for (; i + kLane <= size; i += kLane) {
    if (!encode_lane(values + i, halves.data())) return false;
    std::memcpy(out + i * sizeof(std::uint16_t), halves.data(), sizeof(halves));
  }
  if (i == size) return true;
  Floats in{};
  std::copy(values + i, values + size, in.begin());
  const bool finite = encode_lane(in.data(), halves.data());
  std::memcpy(out + i * sizeof(std::uint16_t), halves.data(), (size - i) * sizeof(std::uint16_t));
  return finite;
}

template <bool (*decode_lane)(const std::uint16_t*, float*)>
bool decode_halves(const std::byte* codes, std::size_t size, float* out) {
  Halves halves{};
  std::size_t i = 0;
  for (; i + kLane <= size; i += kLane) {
    std::memcpy(halves.data(), codes + i * sizeof(std::uint16_t), sizeof(halves));
    if (!decode_lane(halves.data(), out + i)) return false;
  }
  if (i == size) return true;
  // behind the last ones lie halves already seen, or zeros
  std::memcpy(halves.data(), codes + i * sizeof(std::uint16_t), (size - i) * sizeof(std::uint16_t));
  Floats values;
  const bool finite = decode_lane(halves.data(), values.data());
  std::copy_n(values.begin(), size - i, out + i);
  return finite;
}

// No |x·(1/a)| is above 1 + 2^-21, which rounds to 127 like 1: there is nothing to clamp.
void encode_linear8_portable(const float* values, std::size_t size, float scale, std::byte* out) {
  constexpr float round = 0x1.8p23F;  // its sum with |v| < 2^22 is rounded to nearest even in the lowest bits
  const float inverse = 1.0F / scale;
  Floats in{};
  std::array<std::uint8_t, kLane> codes;
  for (std::size_t i = 0; i < size; i += kLane) {
    const std::size_t count = std::min(kLane, size - i);
    std::memcpy(in.data(), values + i, count * sizeof(float));
    for (std::size_t j = 0; j < kLane; ++j)
      codes[j] = static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(in[j] * inverse * 127.0F + round));
    std::memcpy(out + i, codes.data(), count);
  }
}

bool decode_linear8_portable(const std::byte* codes, std::size_t size, float scale, float* out) {
  const float step = scale * (1.0F / 127.0F);
  std::array<std::int8_t, kLane> in{};
  Floats values;
  for (std::size_t i = 0; i < size; i += kLane) {
    const std::size_t count = std::min(kLane, size - i);
    std::memcpy(in.data(), codes + i, count);
    std::int8_t lowest = 0;
    for (std::size_t j = 0; j < kLane; ++j) {
      lowest = lowest < in[j] ? lowest : in[j];
      values[j] = static_cast<float>(in[j]) * step;
    }
    if (lowest == std::numeric_limits<std::int8_t>::min()) return false;
    std::memcpy(out + i, values.data(), count * sizeof(float));
  }
  return true;
}

/// Dynamic8Lookup::nearest in three loops, so that only the look-up itself goes value by value.
void encode_dynamic8_portable(const float* values, std::size_t size, float scale, std::byte* out) {
  const auto& steps = dynamic8_lookup().steps();
  const float inverse = 1.0F / scale;
  Floats in{};
  std::array<std::int32_t, kLane> magnitudes, ranks;
  std::array<std::uint8_t, kLane> codes;
  for (std::size_t i = 0; i < size; i += kLane) {
    const std::size_t count = std::min(kLane, size - i);
    std::memcpy(in.data(), values + i, count * sizeof(float));
    for (std::size_t j = 0; j < kLane; ++j) magnitudes[j] = Dynamic8Lookup::magnitude(in[j] * inverse);
    for (std::size_t j = 0; j < kLane; ++j) ranks[j] = Dynamic8Lookup::rank(steps, magnitudes[j]);
    for (std::size_t j = 0; j < kLane; ++j) codes[j] = Dynamic8Lookup::code(in[j], ranks[j]);
    std::memcpy(out + i, codes.data(), count);
  }
}

void decode_dynamic8_portable(const std::byte* codes, std::size_t size, float scale, float* out) {
  const auto& table = dynamic8_lookup().table();
  for (std::size_t i = 0; i < size; ++i) out[i] = table[std::to_integer<std::size_t>(codes[i])] * scale;
}

}  // namespace

const CodecKernels& portable_kernels() noexcept {
  static constexpr CodecKernels kernels = {
      .all_finite = all_finite_portable,
      .copy_finite = copy_finite_portable,
      .largest = largest_portable,
      .encode_float16 = encode_halves<encode_float16_lane>,
      .decode_float16 = decode_halves<decode_float16_lane>,
      .encode_bfloat16 = encode_halves<encode_bfloat16_lane>,
      .decode_bfloat16 = decode_halves<decode_bfloat16_lane>,
      .encode_linear8 = encode_linear8_portable,
      .decode_linear8 = decode_linear8_portable,
      .encode_dynamic8 = encode_dynamic8_portable,
      .decode_dynamic8 = decode_dynamic8_portable,
      .low_rank = &kPortableLowRank,
  };
  return kernels;
}

const CodecKernels& codec_kernels([[maybe_unused]] VectorLevel level) noexcept {
#if defined(__x86_64__)
  if (level == VectorLevel::avx512) return avx512_kernels();
  if (level == VectorLevel::avx2) return avx2_kernels();
#endif
  return portable_kernels();
}

}  // namespace collab
