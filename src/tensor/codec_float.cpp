#include "tensor/codec_float.hpp"

#include "tensor/view.hpp"

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

// Kernels work on a fixed number of values behind pointers that cannot overlap: g++ -O2 makes vector code of such loops
// and of no others. Encoded values lie anywhere, so kernels without instructions for that go through a local array.
constexpr std::size_t kFloatLane = 256;
using Floats = std::array<float, kFloatLane>;
using Halves = std::array<std::uint16_t, kFloatLane>;
constexpr std::size_t kLaneBytes = sizeof(Halves);

// Signed, because SSE2 compares signed integers only; the sign bit of a magnitude is 0.
inline std::int32_t magnitude(float value) {
  return std::bit_cast<std::int32_t>(value) & 0x7fffffff;
}
inline std::int32_t sign_of_half(float value) {
  return static_cast<std::int32_t>((std::bit_cast<std::uint32_t>(value) >> 16U) & 0x8000U);
}

struct Float16 {
  static constexpr std::string_view kName = "float16";

  static void encode(const float* __restrict in, std::byte* __restrict to) {
    constexpr std::int32_t largest = 0x477fe000;          // 65504
    constexpr std::int32_t smallest_normal = 0x38800000;  // 2^-14
    Halves out;
    for (std::size_t i = 0; i < kFloatLane; ++i) {
      const std::int32_t bits = magnitude(in[i]);
      const std::int32_t held = bits < largest ? bits : largest;
      const std::int32_t normal = (held - (112 << 23) + 0xfff + ((held >> 13) & 1)) >> 13;
      // A float in [0.5, 1) has the steps of a binary16 subnormal, so the addition rounds as we need.
      const std::int32_t subnormal =
          std::bit_cast<std::int32_t>(std::bit_cast<float>(held) + 0.5F) - std::bit_cast<std::int32_t>(0.5F);
      out[i] = static_cast<std::uint16_t>((held < smallest_normal ? subnormal : normal) | sign_of_half(in[i]));
    }
    std::memcpy(to, out.data(), kLaneBytes);
  }

  static bool decode(const std::byte* __restrict from, float* __restrict out) {
    Halves in;
    std::memcpy(in.data(), from, kLaneBytes);
    std::int32_t overflow = 0;
    for (std::size_t i = 0; i < kFloatLane; ++i) {
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
  __attribute__((target("avx,f16c"))) static void encode(const float* __restrict in, std::byte* __restrict to) {
    const __m256 largest = _mm256_set1_ps(65504);
    const __m256 least = _mm256_set1_ps(-65504);
    for (std::size_t i = 0; i < kFloatLane; i += 8) {
      const __m256 held = _mm256_max_ps(_mm256_min_ps(_mm256_loadu_ps(in + i), largest), least);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i * sizeof(std::uint16_t)),
                       _mm256_cvtps_ph(held, _MM_FROUND_TO_NEAREST_INT));
    }
  }

  __attribute__((target("avx,f16c"))) static bool decode(const std::byte* __restrict from, float* __restrict out) {
    for (std::size_t i = 0; i < kFloatLane; i += 8) {
      const auto* halves = reinterpret_cast<const __m128i*>(from + i * sizeof(std::uint16_t));
      _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(halves)));
    }
    return all_finite({out, kFloatLane});
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

  static void encode(const float* __restrict in, std::byte* __restrict to) {
    constexpr std::int32_t largest = 0x7f7f0000;
    Halves out;
    for (std::size_t i = 0; i < kFloatLane; ++i) {
      const std::int32_t bits = magnitude(in[i]);
      const std::int32_t held = bits < largest ? bits : largest;
      out[i] = static_cast<std::uint16_t>(((held + 0x7fff + ((held >> 16) & 1)) >> 16) | sign_of_half(in[i]));
    }
    std::memcpy(to, out.data(), kLaneBytes);
  }

  static bool decode(const std::byte* __restrict from, float* __restrict out) {
    Halves in;
    std::memcpy(in.data(), from, kLaneBytes);
    std::int32_t overflow = 0;
    for (std::size_t i = 0; i < kFloatLane; ++i) {
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
    if (!all_finite(values)) return Errc::bad_request;
    const std::size_t lanes = values.size() / kFloatLane;
    for (std::size_t i = 0; i < lanes; ++i) Format::encode(&values[i * kFloatLane], &out[i * kLaneBytes]);
    const auto rest = values.subspan(lanes * kFloatLane);
    if (rest.empty()) return {};
    Floats in{};
    std::copy(rest.begin(), rest.end(), in.begin());
    std::array<std::byte, kLaneBytes> encoded;
    Format::encode(in.data(), encoded.data());
    std::copy_n(encoded.begin(), rest.size() * sizeof(std::uint16_t), &out[lanes * kLaneBytes]);
    return {};
  }

  Result<> decode(std::span<const std::byte> bytes, std::size_t offset, std::span<float> out) const override {
    if (bytes.size() != encoded_bytes({offset, out.size()})) return Errc::bad_request;
    const std::size_t lanes = out.size() / kFloatLane;
    for (std::size_t i = 0; i < lanes; ++i)
      if (!Format::decode(&bytes[i * kLaneBytes], &out[i * kFloatLane])) return Errc::bad_request;
    const auto rest = bytes.subspan(lanes * kLaneBytes);
    if (rest.empty()) return {};
    std::array<std::byte, kLaneBytes> encoded{};
    std::copy(rest.begin(), rest.end(), encoded.begin());
    Floats values;
    if (!Format::decode(encoded.data(), values.data())) return Errc::bad_request;
    std::copy_n(values.begin(), rest.size() / sizeof(std::uint16_t), &out[lanes * kFloatLane]);
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
    if (!all_finite(values)) return Errc::bad_request;
    if (!values.empty()) std::memcpy(out.data(), values.data(), out.size());
    return {};
  }

  Result<> decode(std::span<const std::byte> bytes, std::size_t offset, std::span<float> out) const override {
    if (bytes.size() != encoded_bytes({offset, out.size()})) return Errc::bad_request;
    if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
    return all_finite(out) ? Result<>() : Errc::bad_request;
  }

  double error_bound(double /*value_max*/, bool /*stochastic*/) const noexcept override { return 0; }
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
