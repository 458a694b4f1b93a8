#include "tensor/codec_float.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace collab {
namespace {

static_assert(std::endian::native == std::endian::little, "values are copied as they lie in memory");

// Kernels work on a fixed number of values through local arrays: g++ -O2 makes vector code of loops whose count it
// knows and whose arrays cannot overlap, and of no others.
constexpr std::size_t kLane = 256;
using Floats = std::array<float, kLane>;
using Halves = std::array<std::uint16_t, kLane>;

// Signed, because SSE2 compares signed integers only; the sign bit of a magnitude is 0.
inline std::int32_t magnitude(float value) {
  return std::bit_cast<std::int32_t>(value) & 0x7fffffff;
}
inline std::int32_t sign_of_half(float value) {
  return static_cast<std::int32_t>((std::bit_cast<std::uint32_t>(value) >> 16U) & 0x8000U);
}

bool finite(const Floats& values) {
  std::int32_t overflow = 0;  // the sign bit appears when an exponent is all ones
  for (std::size_t i = 0; i < kLane; ++i)
    overflow |= static_cast<std::int32_t>(static_cast<std::uint32_t>(magnitude(values[i])) + 0x00800000U);
  return overflow >= 0;
}

struct Float16 {
  static constexpr std::string_view kName = "float16";

  static void encode(const Floats& in, Halves& out) {
    constexpr std::int32_t largest = 0x477fe000;          // 65504
    constexpr std::int32_t smallest_normal = 0x38800000;  // 2^-14
    for (std::size_t i = 0; i < kLane; ++i) {
      const std::int32_t bits = magnitude(in[i]);
      const std::int32_t held = bits < largest ? bits : largest;
      const std::int32_t normal = (held - (112 << 23) + 0xfff + ((held >> 13) & 1)) >> 13;
      // A float in [0.5, 1) has the steps of a binary16 subnormal, so the addition rounds as we need.
      const std::int32_t subnormal =
          std::bit_cast<std::int32_t>(std::bit_cast<float>(held) + 0.5F) - std::bit_cast<std::int32_t>(0.5F);
      out[i] = static_cast<std::uint16_t>((held < smallest_normal ? subnormal : normal) | sign_of_half(in[i]));
    }
  }

  static bool decode(const Halves& in, Floats& out) {
    std::int32_t overflow = 0;
    for (std::size_t i = 0; i < kLane; ++i) {
      const std::int32_t half = in[i];
      const std::int32_t bits = (half & 0x7fff) << 13;
      overflow |= (half & 0x7fff) + 0x0400;
      const std::int32_t normal = bits + (112 << 23);
      const float subnormal = std::bit_cast<float>(bits + (113 << 23)) - 0x1p-14F;
      const std::int32_t value = bits < (1 << 23) ? std::bit_cast<std::int32_t>(subnormal) : normal;
      out[i] = std::bit_cast<float>(value | static_cast<std::int32_t>(std::uint32_t(half & 0x8000) << 16U));
    }
    return (overflow & 0x8000) == 0;
  }

  static double error_bound(double value_max) {
    constexpr double largest = 65504;
    return std::max({0x1p-11 * std::min(value_max, largest), 0x1p-25, value_max - largest});
  }
};

#if defined(__x86_64__)
/// The processor's own conversion. It rounds to nearest even whatever its modes are, and keeps subnormals.
struct NativeFloat16 : Float16 {
  __attribute__((target("avx,f16c"))) static void encode(const Floats& in, Halves& out) {
    const __m256 largest = _mm256_set1_ps(65504);
    const __m256 least = _mm256_set1_ps(-65504);
    for (std::size_t i = 0; i < kLane; i += 8) {
      const __m256 held = _mm256_max_ps(_mm256_min_ps(_mm256_loadu_ps(&in[i]), largest), least);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(&out[i]), _mm256_cvtps_ph(held, _MM_FROUND_TO_NEAREST_INT));
    }
  }

  __attribute__((target("avx,f16c"))) static bool decode(const Halves& in, Floats& out) {
    for (std::size_t i = 0; i < kLane; i += 8)
      _mm256_storeu_ps(&out[i], _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(&in[i]))));
    return finite(out);
  }

  static bool look() {
    unsigned a = 0, b = 0, c = 0, d = 0;  // clang 14 knows no "f16c" to ask for by name
    const bool f16c = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & unsigned(bit_F16C)) != 0;
    return f16c && __builtin_cpu_supports("avx");
  }
  /// Asked for every block: a virtual machine leaves to its host at each cpuid, which takes longer than the block.
  static bool works_here() {
    static const bool works = look();
    return works;
  }
};
#endif

struct BFloat16 {
  static constexpr std::string_view kName = "bfloat16";

  static void encode(const Floats& in, Halves& out) {
    constexpr std::int32_t largest = 0x7f7f0000;
    for (std::size_t i = 0; i < kLane; ++i) {
      const std::int32_t bits = magnitude(in[i]);
      const std::int32_t held = bits < largest ? bits : largest;
      out[i] = static_cast<std::uint16_t>(((held + 0x7fff + ((held >> 16) & 1)) >> 16) | sign_of_half(in[i]));
    }
  }

  static bool decode(const Halves& in, Floats& out) {
    std::int32_t overflow = 0;
    for (std::size_t i = 0; i < kLane; ++i) {
      const std::int32_t half = in[i];
      overflow |= (half & 0x7fff) + 0x0080;
      out[i] = std::bit_cast<float>(std::uint32_t(half) << 16U);
    }
    return (overflow & 0x8000) == 0;
  }

  static double error_bound(double value_max) { return std::max(0x1p-8 * value_max, 0x1p-134); }
};

template <class Format>
class HalfCodec final : public Codec {
 public:
  std::string_view name() const noexcept override { return Format::kName; }
  std::size_t encoded_bytes(Range range) const noexcept override { return range.size * sizeof(std::uint16_t); }

  Result<> encode(std::span<const float> values, std::size_t offset, EncodeOptions /*options*/,
                  std::span<std::byte> out) const override {
    assert(out.size() == encoded_bytes({offset, values.size()}));
    Floats in{};
    Halves halves;
    for (std::size_t i = 0; i < values.size(); i += kLane) {
      const std::size_t count = std::min(kLane, values.size() - i);
      std::memcpy(in.data(), &values[i], count * sizeof(float));
      if (!finite(in)) return Errc::bad_request;
      Format::encode(in, halves);
      std::memcpy(&out[i * sizeof(std::uint16_t)], halves.data(), count * sizeof(std::uint16_t));
    }
    return {};
  }

  Result<> decode(std::span<const std::byte> bytes, std::size_t offset, std::span<float> out) const override {
    if (bytes.size() != encoded_bytes({offset, out.size()})) return Errc::bad_request;
    Halves halves{};
    Floats values;
    for (std::size_t i = 0; i < out.size(); i += kLane) {
      const std::size_t count = std::min(kLane, out.size() - i);
      std::memcpy(halves.data(), &bytes[i * sizeof(std::uint16_t)], count * sizeof(std::uint16_t));
      if (!Format::decode(halves, values)) return Errc::bad_request;
      std::memcpy(&out[i], values.data(), count * sizeof(float));
    }
    return {};
  }

  double error_bound(double value_max, bool /*stochastic*/) const noexcept override {
    return Format::error_bound(value_max);
  }
};

class Float32Codec final : public Codec {
 public:
  std::string_view name() const noexcept override { return "float32"; }
  std::size_t encoded_bytes(Range range) const noexcept override { return range.size * sizeof(float); }

  Result<> encode(std::span<const float> values, std::size_t offset, EncodeOptions /*options*/,
                  std::span<std::byte> out) const override {
    assert(out.size() == encoded_bytes({offset, values.size()}));
    return copy(std::as_bytes(values), out);
  }

  Result<> decode(std::span<const std::byte> bytes, std::size_t offset, std::span<float> out) const override {
    if (bytes.size() != encoded_bytes({offset, out.size()})) return Errc::bad_request;
    return copy(bytes, std::as_writable_bytes(out));
  }

  double error_bound(double /*value_max*/, bool /*stochastic*/) const noexcept override { return 0; }

 private:
  static Result<> copy(std::span<const std::byte> from, std::span<std::byte> to) {
    Floats lane{};
    for (std::size_t i = 0; i < from.size(); i += sizeof(lane)) {
      const std::size_t count = std::min(sizeof(lane), from.size() - i);
      std::memcpy(lane.data(), &from[i], count);
      if (!finite(lane)) return Errc::bad_request;
      std::memcpy(&to[i], lane.data(), count);
    }
    return {};
  }
};

}  // namespace

const Codec& float32_codec() noexcept {
  static const Float32Codec codec;
  return codec;
}

const Codec& portable_float16_codec() noexcept {
  static const HalfCodec<Float16> codec;
  return codec;
}

const Codec& float16_codec() noexcept {
#if defined(__x86_64__)
  static const HalfCodec<NativeFloat16> native;
  if (NativeFloat16::works_here()) return native;
#endif
  return portable_float16_codec();
}

const Codec& bfloat16_codec() noexcept {
  static const HalfCodec<BFloat16> codec;
  return codec;
}

}  // namespace collab
