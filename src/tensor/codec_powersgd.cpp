#include "tensor/codec_powersgd.hpp"

#include "tensor/block_codec.hpp"
#include "tensor/codec_8bit.hpp"
#include "tensor/codec_float.hpp"
#include "tensor/low_rank.hpp"
#include "tensor/view.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace collab {
namespace {

static_assert(kPowerSgdColumns * kPowerSgdColumns == kUnitValues);

constexpr int kIterations = 2;

constexpr std::size_t rows_of(std::size_t values) {
  return (values + kPowerSgdColumns - 1) / kPowerSgdColumns;
}
constexpr std::size_t low_rank_bytes(std::size_t values) {
  return sizeof(float) + kPowerSgdRank * (rows_of(values) + kPowerSgdColumns) * sizeof(std::uint16_t);
}
constexpr bool as_float16(std::size_t values) {
  return low_rank_bytes(values) >= values * sizeof(std::uint16_t);
}

/// Of each column the first `rows` values.
bool write_columns(const CodecKernels& kernels, const LowRankFactor& columns, std::size_t rows, std::byte* out) {
  bool finite = true;
  for (std::size_t r = 0; r < kPowerSgdRank; ++r)
    finite &= kernels.encode_float16(&columns[r * kPowerSgdColumns], rows, out + r * rows * sizeof(std::uint16_t));
  return finite;
}

bool read_columns(const CodecKernels& kernels, const std::byte* bytes, std::size_t rows, LowRankFactor& columns) {
  bool finite = true;
  columns.fill(0.0F);
  for (std::size_t r = 0; r < kPowerSgdRank; ++r)
    finite &= kernels.decode_float16(bytes + r * rows * sizeof(std::uint16_t), rows, &columns[r * kPowerSgdColumns]);
  return finite;
}

struct PowerSgd {
  static constexpr std::string_view kName = "powersgd";

  static constexpr std::size_t bytes(std::size_t size) {
    return as_float16(size) ? size * sizeof(std::uint16_t) : low_rank_bytes(size);
  }

  static bool encode(const CodecKernels& kernels, std::span<const float> values, std::size_t offset,
                     EncodeOptions options, std::span<std::byte> out) {
    if (as_float16(values.size())) return kernels.encode_float16(values.data(), values.size(), out.data());
    const float largest = kernels.largest(values.data(), values.size());
    if ((not_finite(largest) & kNotFinite) != 0) return false;
    if (largest < kScaleMin) {
      std::fill(out.begin(), out.end(), std::byte{0});
      return true;
    }
    LowRankMatrix matrix{};
    LowRankMatrix transposed;
    const float inverse = 1.0F / largest;
    for (std::size_t i = 0; i < values.size(); ++i) matrix[i] = values[i] * inverse;
    for (std::size_t row = 0; row < kPowerSgdColumns; ++row)
      for (std::size_t column = 0; column < kPowerSgdColumns; ++column)
        transposed[column * kPowerSgdColumns + row] = matrix[row * kPowerSgdColumns + column];

    LowRankFactor p;
    LowRankFactor q;
    for (std::size_t i = 0; i < q.size(); ++i) q[i] = stochastic_uniform(options.seed, offset + i) - 0.5F;
    std::memcpy(out.data(), &largest, sizeof(largest));
    std::byte* const to_p = out.data() + sizeof(largest);
    const std::size_t rows = rows_of(values.size());
    for (int i = 0; i < kIterations; ++i) {
      kernels.low_rank->multiply(transposed, q, p);
      kernels.low_rank->orthonormalize(p);
      // the other side has P as float16: Q makes the best of that
      const bool last = i + 1 == kIterations;
      if (last && !(write_columns(kernels, p, rows, to_p) && read_columns(kernels, to_p, rows, p))) return false;
      kernels.low_rank->multiply(matrix, p, q);
    }
    return write_columns(kernels, q, kPowerSgdColumns, to_p + kPowerSgdRank * rows * sizeof(std::uint16_t));
  }

  static bool decode(const CodecKernels& kernels, std::span<const std::byte> bytes, std::span<float> out) {
    if (as_float16(out.size())) return kernels.decode_float16(bytes.data(), out.size(), out.data());
    float scale = 0;
    std::memcpy(&scale, bytes.data(), sizeof(scale));
    if (std::bit_cast<std::uint32_t>(scale) == 0) {
      std::fill(out.begin(), out.end(), 0.0F);
      return std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0}; });
    }
    if (!is_scale(scale)) return false;
    const std::size_t rows = rows_of(out.size());
    const std::byte* const from_p = bytes.data() + sizeof(scale);
    LowRankFactor p;
    LowRankFactor q;
    if (!read_columns(kernels, from_p, rows, p)) return false;
    const std::byte* const from_q = from_p + kPowerSgdRank * rows * sizeof(std::uint16_t);
    if (!read_columns(kernels, from_q, kPowerSgdColumns, q)) return false;
    LowRankMatrix matrix;
    kernels.low_rank->expand(p, q, scale, matrix);
    std::copy_n(matrix.begin(), out.size(), out.begin());
    return kernels.all_finite(out.data(), out.size());
  }

  static double error_bound(double value_max, bool /*stochastic*/) {
    return std::max(2 * value_max, float16_codec().error_bound(value_max, false));
  }
};

}  // namespace

const Codec& powersgd_codec(VectorLevel level) noexcept {
  return at_level<BlockCodec<PowerSgd>>(level);
}

}  // namespace collab
