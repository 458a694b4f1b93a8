#include "tensor/codec_8bit.hpp"

#include "tensor/codec_kernels.hpp"
#include "tensor/dynamic8_lookup.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>

namespace collab {
namespace {

constexpr float kScaleMin = 0x1p-126F;  ///< below it 1/a could overflow

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

template <class Format>
class BlockCodec final : public Codec {
 public:
  explicit BlockCodec(const CodecKernels& kernels) : kernels_(kernels) {}

  std::string_view name() const noexcept override { return Format::kName; }

  std::size_t encoded_bytes(Range range) const noexcept override {
    if (range.size == 0) return 0;
    const std::size_t blocks = (range.end() - 1) / kUnitValues - range.begin / kUnitValues + 1;
    return range.size + blocks * sizeof(float);
  }

  Result<> encode(std::span<const float> values, std::size_t offset, EncodeOptions options,
                  std::span<std::byte> out) const override {
    assert(out.size() == encoded_bytes({offset, values.size()}));
    std::byte* to = out.data();
    for (Range rest{offset, values.size()}; rest.size > 0;) {
      const Range block = first_block(rest);
      const auto in = values.subspan(block.begin - offset, block.size);
      float scale = kernels_.largest(in.data(), in.size());
      if (!std::isfinite(scale)) return Errc::bad_request;
      if (scale < kScaleMin) scale = 0;
      std::memcpy(to, &scale, sizeof(scale));
      to += sizeof(scale);
      if (scale == 0)
        std::fill_n(to, block.size, Format::kZero);
      else
        Format::encode(kernels_, in, scale, block.begin, options, to);
      to += block.size;
      rest = {block.end(), rest.size - block.size};
    }
    return {};
  }

  Result<> decode(std::span<const std::byte> bytes, std::size_t offset, std::span<float> out) const override {
    if (bytes.size() != encoded_bytes({offset, out.size()})) return Errc::bad_request;
    const std::byte* from = bytes.data();
    for (Range rest{offset, out.size()}; rest.size > 0;) {
      const Range block = first_block(rest);
      float scale = 0;
      std::memcpy(&scale, from, sizeof(scale));
      from += sizeof(scale);
      if (!decode_block(from, scale, out.subspan(block.begin - offset, block.size))) return Errc::bad_request;
      from += block.size;
      rest = {block.end(), rest.size - block.size};
    }
    return {};
  }

  double error_bound(double value_max, bool stochastic) const noexcept override {
    // A block below 2^-126 is zeros, and the error is the value.
    return std::max(Format::error_bound(value_max, stochastic), std::min(value_max, double(kScaleMin)));
  }

 private:
  bool decode_block(const std::byte* codes, float scale, std::span<float> out) const {
    if (std::bit_cast<std::uint32_t>(scale) == 0) {
      std::fill(out.begin(), out.end(), 0.0F);
      return std::all_of(codes, codes + out.size(), [](std::byte code) { return code == Format::kZero; });
    }
    if (!(scale >= kScaleMin) || !std::isfinite(scale)) return false;  // negative, too small, NaN
    return Format::decode(kernels_, codes, scale, out);
  }

  const CodecKernels& kernels_;
};

}  // namespace

const Codec& linear8_codec(VectorLevel level) noexcept {
  return at_level<BlockCodec<Linear>>(level);
}

const Codec& dynamic8_codec(VectorLevel level) noexcept {
  return at_level<BlockCodec<Dynamic>>(level);
}

const std::array<float, 256>& dynamic8_table() noexcept {
  return dynamic8_lookup().table();
}

std::uint8_t dynamic8_code(float z) noexcept {
  return dynamic8_lookup().nearest(z);
}

}  // namespace collab
