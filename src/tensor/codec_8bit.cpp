#include "tensor/codec_8bit.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

namespace collab {
namespace {

static_assert(std::endian::native == std::endian::little, "scales are copied as they lie in memory");

constexpr float kScaleMin = 0x1p-126F;  ///< below it 1/a could overflow
constexpr std::size_t kLane = 256;      ///< fixed counts and local arrays: what g++ -O2 makes vector code of

/// The part of `range` in the unit of its first value.
Range first_block(Range range) {
  return {range.begin, std::min(range.size, kUnitValues - range.begin % kUnitValues)};
}

/// Largest |value|; NaN or infinite when one of them is.
float largest(std::span<const float> values) {
  std::int32_t bits = 0;  // magnitudes of floats are ordered like their bits, NaN above all
  std::array<float, kLane> lane{};
  for (std::size_t i = 0; i < values.size(); i += kLane) {
    std::memcpy(lane.data(), &values[i], std::min(kLane, values.size() - i) * sizeof(float));
    for (std::size_t j = 0; j < kLane; ++j) {
      const std::int32_t magnitude = std::bit_cast<std::int32_t>(lane[j]) & 0x7fffffff;
      bits = bits < magnitude ? magnitude : bits;
    }
  }
  return std::bit_cast<float>(bits);
}

inline float clamp_to_one(float z) {
  z = z < 1.0F ? z : 1.0F;
  return z > -1.0F ? z : -1.0F;
}

struct Linear {
  static constexpr std::string_view kName = "linear8";
  static constexpr std::byte kZero{0};

  static void encode(std::span<const float> values, float scale, std::size_t /*offset*/, EncodeOptions /*options*/,
                     std::byte* out) {
    constexpr float round = 0x1.8p23F;  // its sum with |v| < 2^22 is rounded to nearest even in the lowest bits
    const float inverse = 1.0F / scale;
    std::array<float, kLane> in{};
    std::array<std::uint8_t, kLane> codes;
    for (std::size_t i = 0; i < values.size(); i += kLane) {
      const std::size_t count = std::min(kLane, values.size() - i);
      std::memcpy(in.data(), &values[i], count * sizeof(float));
      for (std::size_t j = 0; j < kLane; ++j)
        codes[j] =
            static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(clamp_to_one(in[j] * inverse) * 127.0F + round));
      std::memcpy(out + i, codes.data(), count);
    }
  }

  static bool decode(const std::byte* codes, float scale, std::span<float> out) {
    const float step = scale * (1.0F / 127.0F);
    std::array<std::int8_t, kLane> in{};
    std::array<float, kLane> values;
    for (std::size_t i = 0; i < out.size(); i += kLane) {
      const std::size_t count = std::min(kLane, out.size() - i);
      std::memcpy(in.data(), codes + i, count);
      std::int8_t lowest = 0;
      for (std::size_t j = 0; j < kLane; ++j) {
        lowest = lowest < in[j] ? lowest : in[j];
        values[j] = static_cast<float>(in[j]) * step;
      }
      if (lowest == std::numeric_limits<std::int8_t>::min()) return false;  // encode writes -127..127
      std::memcpy(&out[i], values.data(), count * sizeof(float));
    }
    return true;
  }

  static double error_bound(double value_max, bool /*stochastic*/) { return value_max / 253; }
};

std::array<float, 256> make_table() {
  constexpr std::array<double, 7> decades = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1};
  std::array<float, 256> table{};
  std::size_t size = 0;
  table[size++] = 0;
  table[size++] = 1;
  for (std::size_t k = 0; k < decades.size(); ++k) {
    const std::size_t cells = std::size_t(1) << k;
    const double width = 0.9 / static_cast<double>(cells);
    const auto edge = [&](std::size_t i) { return i == cells ? 1.0 : static_cast<double>(i) * width + 0.1; };
    for (std::size_t i = 0; i < cells; ++i) {
      const auto centre = static_cast<float>((edge(i) + edge(i + 1)) / 2 * decades[k]);
      table[size++] = centre;
      table[size++] = -centre;
    }
  }
  assert(size == table.size());
  std::sort(table.begin(), table.end());
  return table;
}

/// Nearest entries by one look-up and one comparison. Buckets of numbers with equal sign, exponent and six bits of the
/// fraction are so narrow that at most one midpoint between entries lies in each.
class DynamicLookup {
 public:
  DynamicLookup() : table_(make_table()) {
    for (std::size_t i = 0; i + 1 < table_.size(); ++i)
      middle_[i] = static_cast<float>((double(table_[i]) + double(table_[i + 1])) / 2);
    middle_.back() = std::numeric_limits<float>::infinity();
    for (std::uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
      // Positive numbers of a bucket are in [from, to), negative ones in (-to, -from].
      const float from = bucket == 0 ? 0.0F : bucket_begin(bucket);
      const float to = bucket_begin(bucket + 1);
      first_[bucket] = count_below([&](float middle) { return middle < from; });
      first_[kBuckets + bucket] = count_below([&](float middle) { return middle <= -to; });
    }
  }

  const std::array<float, 256>& table() const { return table_; }

  std::uint8_t nearest(float z) const {
    const auto bits = std::bit_cast<std::uint32_t>(z);
    const std::uint32_t bucket = std::max((bits & 0x7fffffffU) >> kShift, kFirst) - kFirst;
    assert(bucket < kBuckets);
    const std::uint8_t code = first_[bucket + (bits >> 31U) * kBuckets];
    return static_cast<std::uint8_t>(code + (z > middle_[code] ? 1 : 0));
  }

  /// One of the two entries around `z`, the upper one with the probability that makes the mean `z`.
  std::uint8_t by_chance(float z, float uniform) const {
    const std::uint8_t near = nearest(z);
    const std::size_t above = std::clamp<std::size_t>(near + (table_[near] < z ? 1U : 0U), 1, table_.size() - 1);
    const float share = (z - table_[above - 1]) / (table_[above] - table_[above - 1]);
    return static_cast<std::uint8_t>(uniform < share ? above : above - 1);
  }

 private:
  static constexpr std::uint32_t kShift = 17;                  // leaves six bits of the fraction
  static constexpr std::uint32_t kFirst = (127U - 22U) << 6U;  // of 2^-22, under the lowest midpoint
  static constexpr std::uint32_t kBuckets = (22U << 6U) + 1;   // up to 1 itself

  static float bucket_begin(std::uint32_t bucket) { return std::bit_cast<float>((bucket + kFirst) << kShift); }
  template <class Below>
  std::uint8_t count_below(Below below) const {
    return static_cast<std::uint8_t>(std::count_if(middle_.begin(), middle_.end(), below));
  }

  std::array<float, 256> table_;
  std::array<float, 256> middle_{};  // middle_[c]: between the entries of c and c + 1
  std::array<std::uint8_t, std::size_t(2) * kBuckets> first_{};
};

const DynamicLookup& lookup() {
  static const DynamicLookup lookup;
  return lookup;
}

struct Dynamic {
  static constexpr std::string_view kName = "dynamic8";
  static constexpr std::byte kZero{127};

  static void encode(std::span<const float> values, float scale, std::size_t offset, EncodeOptions options,
                     std::byte* out) {
    const DynamicLookup& codes = lookup();
    const float inverse = 1.0F / scale;
    if (options.stochastic) {
      for (std::size_t i = 0; i < values.size(); ++i)
        out[i] =
            std::byte(codes.by_chance(clamp_to_one(values[i] * inverse), stochastic_uniform(options.seed, offset + i)));
    } else {
      for (std::size_t i = 0; i < values.size(); ++i)
        out[i] = std::byte(codes.nearest(clamp_to_one(values[i] * inverse)));
    }
  }

  static bool decode(const std::byte* codes, float scale, std::span<float> out) {
    const auto& table = dynamic8_table();
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = table[std::to_integer<std::size_t>(codes[i])] * scale;
    return true;
  }

  static double error_bound(double value_max, bool stochastic) { return value_max * (stochastic ? 0.0141 : 0.00704); }
};

template <class Format>
class BlockCodec final : public Codec {
 public:
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
      float scale = largest(in);
      if (!std::isfinite(scale)) return Errc::bad_request;
      if (scale < kScaleMin) scale = 0;
      std::memcpy(to, &scale, sizeof(scale));
      to += sizeof(scale);
      if (scale == 0)
        std::fill_n(to, block.size, Format::kZero);
      else
        Format::encode(in, scale, block.begin, options, to);
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
  static bool decode_block(const std::byte* codes, float scale, std::span<float> out) {
    if (std::bit_cast<std::uint32_t>(scale) == 0) {
      std::fill(out.begin(), out.end(), 0.0F);
      return std::all_of(codes, codes + out.size(), [](std::byte code) { return code == Format::kZero; });
    }
    if (!(scale >= kScaleMin) || !std::isfinite(scale)) return false;  // negative, too small, NaN
    return Format::decode(codes, scale, out);
  }
};

}  // namespace

const Codec& linear8_codec() noexcept {
  static const BlockCodec<Linear> codec;
  return codec;
}

const Codec& dynamic8_codec() noexcept {
  static const BlockCodec<Dynamic> codec;
  return codec;
}

const std::array<float, 256>& dynamic8_table() noexcept {
  return lookup().table();
}

std::uint8_t dynamic8_code(float z) noexcept {
  return lookup().nearest(z);
}

}  // namespace collab
