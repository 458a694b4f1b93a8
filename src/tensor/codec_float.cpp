#include "tensor/codec_float.hpp"

#include "tensor/codec_kernels.hpp"

#include <algorithm>
#include <cassert>

namespace collab {
namespace {

struct Float16 {
  static constexpr std::string_view kName = "float16";
  static constexpr auto kEncode = &CodecKernels::encode_float16;
  static constexpr auto kDecode = &CodecKernels::decode_float16;

  static double error_bound(double value_max) {
    constexpr double largest = 65504;
    return std::max({0x1p-11 * std::min(value_max, largest), 0x1p-25, value_max - largest});
  }
};

struct BFloat16 {
  static constexpr std::string_view kName = "bfloat16";
  static constexpr auto kEncode = &CodecKernels::encode_bfloat16;
  static constexpr auto kDecode = &CodecKernels::decode_bfloat16;

  static double error_bound(double value_max) { return std::max(0x1p-8 * value_max, 0x1p-134); }
};

template <class Format>
class HalfCodec final : public Codec {
 public:
  explicit HalfCodec(const CodecKernels& kernels) : kernels_(kernels) {}

  std::string_view name() const noexcept override { return Format::kName; }
  std::size_t encoded_bytes(Range range) const noexcept override { return range.size * sizeof(std::uint16_t); }

  Result<> encode(std::span<const float> values, std::size_t offset, EncodeOptions /*options*/,
                  std::span<std::byte> out) const override {
    assert(out.size() == encoded_bytes({offset, values.size()}));
    const bool finite = (kernels_.*Format::kEncode)(values.data(), values.size(), out.data());
    return finite ? Result<>() : Errc::bad_request;
  }

  Result<> decode(std::span<const std::byte> bytes, std::size_t offset, std::span<float> out) const override {
    if (bytes.size() != encoded_bytes({offset, out.size()})) return Errc::bad_request;
    const bool finite = (kernels_.*Format::kDecode)(bytes.data(), out.size(), out.data());
    return finite ? Result<>() : Errc::bad_request;
  }

  double error_bound(double value_max, bool /*stochastic*/) const noexcept override {
    return Format::error_bound(value_max);
  }

 private:
  const CodecKernels& kernels_;
};

class Float32Codec final : public Codec {
 public:
  explicit Float32Codec(const CodecKernels& kernels) : kernels_(kernels) {}

  std::string_view name() const noexcept override { return "float32"; }
  std::size_t encoded_bytes(Range range) const noexcept override { return range.size * sizeof(float); }

  Result<> encode(std::span<const float> values, std::size_t offset, EncodeOptions /*options*/,
                  std::span<std::byte> out) const override {
    assert(out.size() == encoded_bytes({offset, values.size()}));
    if (!kernels_.copy_finite(std::as_bytes(values).data(), values.size(), out.data())) return Errc::bad_request;
    return {};
  }

  Result<> decode(std::span<const std::byte> bytes, std::size_t offset, std::span<float> out) const override {
    if (bytes.size() != encoded_bytes({offset, out.size()})) return Errc::bad_request;
    if (!kernels_.copy_finite(bytes.data(), out.size(), std::as_writable_bytes(out).data())) return Errc::bad_request;
    return {};
  }

  double error_bound(double /*value_max*/, bool /*stochastic*/) const noexcept override { return 0; }

 private:
  const CodecKernels& kernels_;
};

}  // namespace

const Codec& float32_codec(VectorLevel level) noexcept {
  return at_level<Float32Codec>(level);
}

const Codec& float16_codec(VectorLevel level) noexcept {
  return at_level<HalfCodec<Float16>>(level);
}

const Codec& bfloat16_codec(VectorLevel level) noexcept {
  return at_level<HalfCodec<BFloat16>>(level);
}

}  // namespace collab
