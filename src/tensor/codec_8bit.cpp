#include "tensor/codec_8bit.hpp"

#include "tensor/block_codec.hpp"
#include "tensor/dynamic8_lookup.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace collab {
namespace {

struct Linear {
  static constexpr std::string_view kName = "linear8";
  static constexpr std::byte kZero{0};

  static void encode(const CodecKernels& kernels, std::span<const float> values, float scale, std::size_t /*offset*/,
                     EncodeOptions /*options*/, std::byte* out) {
    kernels.encode_linear8(values.data(), values.size(), scale, out);
  }

  static bool decode(const CodecKernels& kernels, const std::byte* codes, float scale, std::span<float> out) {
    return kernels.decode_linear8(codes, out.size(), scale, out.data());
  }

  static double error_bound(double value_max, bool /*stochastic*/) { return value_max / 253; }
};

struct Dynamic {
  static constexpr std::string_view kName = "dynamic8";
  static constexpr std::byte kZero{Dynamic8Lookup::kZeroCode};

  static void encode(const CodecKernels& kernels, std::span<const float> values, float scale, std::size_t offset,
                     EncodeOptions options, std::byte* out) {
    if (options.stochastic)
      encode_by_chance(values, scale, offset, options.seed, out);
    else
      kernels.encode_dynamic8(values.data(), values.size(), scale, out);
  }

  static void encode_by_chance(std::span<const float> values, float scale, std::size_t offset, std::uint64_t seed,
                               std::byte* out) {
    const Dynamic8Lookup& lookup = dynamic8_lookup();
    const float inverse = 1.0F / scale;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float z = std::clamp(values[i] * inverse, -1.0F, 1.0F);
      out[i] = std::byte(lookup.by_chance(z, stochastic_uniform(seed, offset + i)));
    }
  }

  static bool decode(const CodecKernels& kernels, const std::byte* codes, float scale, std::span<float> out) {
    kernels.decode_dynamic8(codes, out.size(), scale, out.data());
    return true;
  }

  static double error_bound(double value_max, bool stochastic) { return value_max * (stochastic ? 0.0141 : 0.00704); }
};

/// The largest |value| of the block, then the codes.
template <class Codes>
struct Scaled {
  static constexpr std::string_view kName = Codes::kName;

  static constexpr std::size_t bytes(std::size_t size) { return size == 0 ? 0 : sizeof(float) + size; }

  static bool encode(const CodecKernels& kernels, std::span<const float> values, std::size_t offset,
                     EncodeOptions options, std::span<std::byte> out) {
    float scale = kernels.largest(values.data(), values.size());
    if (!std::isfinite(scale)) return false;
    if (scale < kScaleMin) scale = 0;
    std::memcpy(out.data(), &scale, sizeof(scale));
    const auto codes = out.subspan(sizeof(scale));
    if (scale == 0)
      std::fill(codes.begin(), codes.end(), Codes::kZero);
    else
      Codes::encode(kernels, values, scale, offset, options, codes.data());
    return true;
  }

  static bool decode(const CodecKernels& kernels, std::span<const std::byte> bytes, std::span<float> out) {
    float scale = 0;
    std::memcpy(&scale, bytes.data(), sizeof(scale));
    const auto codes = bytes.subspan(sizeof(scale));
    if (std::bit_cast<std::uint32_t>(scale) == 0) {
      std::fill(out.begin(), out.end(), 0.0F);
      return std::all_of(codes.begin(), codes.end(), [](std::byte code) { return code == Codes::kZero; });
    }
    return is_scale(scale) && Codes::decode(kernels, codes.data(), scale, out);
  }

  static double error_bound(double value_max, bool stochastic) {
    // A block below 2^-126 is zeros, and the error is the value.
    return std::max(Codes::error_bound(value_max, stochastic), std::min(value_max, double(kScaleMin)));
  }
};

}  // namespace

const Codec& linear8_codec(VectorLevel level) noexcept {
  return at_level<BlockCodec<Scaled<Linear>>>(level);
}

const Codec& dynamic8_codec(VectorLevel level) noexcept {
  return at_level<BlockCodec<Scaled<Dynamic>>>(level);
}

const std::array<float, 256>& dynamic8_table() noexcept {
  return dynamic8_lookup().table();
}

std::uint8_t dynamic8_code(float z) noexcept {
  return dynamic8_lookup().nearest(z);
}

}  // namespace collab
