#pragma once
// What codecs have in common that write block after block, in a number of bytes that follows from the block's size.

#include "tensor/codec.hpp"
#include "tensor/codec_kernels.hpp"

#include <cassert>
#include <cmath>

namespace collab {

/// Of blocks that are divided by their largest value: below it 1/a could overflow.
inline constexpr float kScaleMin = 0x1p-126F;
/// What encode may write as the scale of a block that is not zeros: not negative, too small, or NaN.
inline bool is_scale(float scale) {
  return scale >= kScaleMin && std::isfinite(scale);
}

/// `Format`: kName; bytes(size) of a block, none of an empty one; encode(kernels, values, offset, options, out) and
/// decode(kernels, bytes, out), false for what may not be; error_bound(value_max, stochastic).
template <class Format>
class BlockCodec final : public Codec {
 public:
  explicit BlockCodec(const CodecKernels& kernels) : kernels_(kernels) {}

  std::string_view name() const noexcept override { return Format::kName; }

  std::size_t encoded_bytes(Range range) const noexcept override {
    const Range first = first_block(range);
    const std::size_t rest = range.size - first.size;
    return Format::bytes(first.size) + rest / kUnitValues * Format::bytes(kUnitValues) +
           Format::bytes(rest % kUnitValues);
  }

  Result<> encode(std::span<const float> values, std::size_t offset, EncodeOptions options,
                  std::span<std::byte> out) const override {
    assert(out.size() == encoded_bytes({offset, values.size()}));
    for (Range rest{offset, values.size()}; rest.size > 0;) {
      const Range block = first_block(rest);
      const std::size_t bytes = Format::bytes(block.size);
      const auto in = values.subspan(block.begin - offset, block.size);
      if (!Format::encode(kernels_, in, block.begin, options, out.first(bytes))) return Errc::bad_request;
      out = out.subspan(bytes);
      rest = {block.end(), rest.size - block.size};
    }
    return {};
  }

  Result<> decode(std::span<const std::byte> bytes, std::size_t offset, std::span<float> out) const override {
    if (bytes.size() != encoded_bytes({offset, out.size()})) return Errc::bad_request;
    for (Range rest{offset, out.size()}; rest.size > 0;) {
      const Range block = first_block(rest);
      const std::size_t size = Format::bytes(block.size);
      if (!Format::decode(kernels_, bytes.first(size), out.subspan(block.begin - offset, block.size)))
        return Errc::bad_request;
      bytes = bytes.subspan(size);
      rest = {block.end(), rest.size - block.size};
    }
    return {};
  }

  double error_bound(double value_max, bool stochastic) const noexcept override {
    return Format::error_bound(value_max, stochastic);
  }

 private:
  const CodecKernels& kernels_;
};

}  // namespace collab
