// Peers with and without long vectors share a group: whatever the processor, the same bytes, values and refusals.
#include "tensor/vector_level.hpp"

#include "base/bytes.hpp"
#include "base/random.hpp"
#include "tensor/codec.hpp"
#include "tensor/codec_8bit.hpp"
#include "tensor/codec_kernels.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "support/doctest.hpp"

namespace collab {
namespace {

constexpr std::array kEveryCodec = kCodecIds;
/// Around the lengths of vectors, of lanes and of units.
constexpr std::array<std::size_t, 22> kSizes = {0,  1,  7,  8,   15,  16,  17,  31,   32,   33,   63,
                                                64, 65, 96, 255, 256, 257, 300, 4095, 4096, 4097, 9000};
constexpr std::array kNotNumbers = {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN(),
                                    std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()};

/// Those beside `portable` that this processor has.
std::vector<VectorLevel> levels_here() {
  std::vector<VectorLevel> levels;
  for (const VectorLevel level : kVectorLevels)
    if (level != VectorLevel::portable && works_here(level)) levels.push_back(level);
  return levels;
}

/// Finite bits of every kind, by far the most of sizes around 1.
std::vector<float> any_values(Random& rng, std::size_t count) {
  constexpr std::array<float, 14> special = {0.0F,       -0.0F,       1.0F,         -1.0F,    0x1p-149F,
                                             -0x1p-149F, 0x1.8p-127F, 0x1p-126F,    65504.0F, 65520.0F,
                                             0x1p-24F,   -0x1.8p-24F, 0x1.01p-130F, 3.4e38F};
  std::vector<float> values(count);
  for (float& value : values) {
    const std::uint64_t kind = rng.below(32);
    if (kind == 0)
      value = special[rng.below(special.size())];
    else if (kind == 1)
      value = std::bit_cast<float>(static_cast<std::uint32_t>(rng.next()) & 0xbfffffffU);  // below 2
    else
      value = std::ldexp(static_cast<float>(rng.next() >> 40U) * 0x1p-23F - 1.0F, -static_cast<int>(rng.below(20)));
  }
  return values;
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

/// What `codec` makes of values and of bytes that begin `shift` behind a border, so that nothing is aligned.
struct Passed {
  bool encoded = false, decoded = false;
  Bytes bytes;
  std::vector<float> values;
};

Passed pass(const Codec& codec, std::span<const float> values, std::size_t shift) {
  std::vector<float> in(shift + values.size());
  std::copy(values.begin(), values.end(), in.begin() + static_cast<std::ptrdiff_t>(shift));
  const std::size_t size = codec.encoded_bytes({0, values.size()});
  Bytes bytes(shift + size + 1, std::byte(0xa5));
  Passed passed;
  passed.encoded = bool(codec.encode(std::span(in).subspan(shift), 0, {}, std::span(bytes).subspan(shift, size)));
  REQUIRE(bytes.back() == std::byte(0xa5));
  passed.bytes.assign(bytes.begin() + static_cast<std::ptrdiff_t>(shift), bytes.end() - 1);
  std::vector<float> out(shift + values.size() + 1, 0.5F);
  const auto to = std::span(out).subspan(shift, values.size());
  passed.decoded = bool(codec.decode(std::span(bytes).subspan(shift, size), 0, to));
  REQUIRE(out.back() == 0.5F);
  passed.values.assign(to.begin(), to.end());
  return passed;
}

}  // namespace

TEST_CASE("vector level: portable works everywhere, and codecs work by the best that is here") {
  std::string here;
  for (const VectorLevel level : levels_here()) here += " " + std::string(name_of(level));
  MESSAGE("compared with portable on this processor:" << (here.empty() ? " nothing" : here));
  CHECK(works_here(VectorLevel::portable));
  CHECK(works_here(best_level()));
  for (const VectorLevel level : kVectorLevels) CHECK(works_here(level) == (level <= best_level()));
  for (const CodecId id : kEveryCodec) CHECK(&codec(id) == &codec(id, best_level()));
}

TEST_CASE(
    "vector level: all codecs write the same bytes and read the same values, at every size and wherever they lie") {
  Random rng(21);
  for (const VectorLevel level : levels_here()) {
    CAPTURE(name_of(level));
    for (const CodecId id : kEveryCodec) {
      CAPTURE(codec(id).name());
      for (const std::size_t size : kSizes) {
        CAPTURE(size);
        for (std::size_t shift = 0; shift < 4; ++shift) {
          auto values = any_values(rng, size);
          if (shift == 3)  // blocks without the largest values: codes of all sizes in the 8-bit codecs
            for (float& value : values) value = std::abs(value) > 1 ? 0x1p-9F : value;
          const Passed expected = pass(codec(id, VectorLevel::portable), values, shift);
          const Passed passed = pass(codec(id, level), values, shift);
          REQUIRE(expected.encoded);
          REQUIRE(expected.decoded);
          REQUIRE(passed.encoded);
          REQUIRE(passed.decoded);
          REQUIRE(passed.bytes == expected.bytes);
          REQUIRE(same_bits(passed.values, expected.values));
        }
      }
    }
  }
}

TEST_CASE("vector level: any bits of a float are encoded to the same bytes, or refused alike") {
  Random rng(22);
  for (const VectorLevel level : levels_here()) {
    CAPTURE(name_of(level));
    for (int round = 0; round < 200; ++round) {
      // one exponent for most of a block, else the largest would make all others 0 in the 8-bit codecs
      const std::uint32_t exponent = static_cast<std::uint32_t>(rng.below(256)) << 23U;
      std::vector<float> values(777);
      for (float& value : values) {
        const auto bits = static_cast<std::uint32_t>(rng.next()) & 0x807fffffU;
        const auto lower = static_cast<std::uint32_t>(rng.below(24)) << 23U;
        value = std::bit_cast<float>(bits | (exponent > lower ? exponent - lower : exponent));
      }
      for (const CodecId id : kEveryCodec) {
        CAPTURE(codec(id).name());
        const Passed expected = pass(codec(id, VectorLevel::portable), values, 0);
        const Passed passed = pass(codec(id, level), values, 0);
        REQUIRE(passed.encoded == expected.encoded);
        if (!expected.encoded) continue;
        REQUIRE(passed.bytes == expected.bytes);
        REQUIRE(same_bits(passed.values, expected.values));
      }
    }
  }
}

TEST_CASE("vector level: dynamic8 takes the same side of every midpoint") {
  const auto& table = dynamic8_table();
  std::vector<float> values = {1.0F};  // the scale, so that the others are looked up as they are
  for (std::size_t code = 0; code + 1 < table.size(); ++code) {
    const auto middle = static_cast<float>((double(table[code]) + double(table[code + 1])) / 2);
    for (const float value : {middle, std::nextafter(middle, 2.0F), std::nextafter(middle, -2.0F), table[code]})
      values.push_back(value);
  }
  values.push_back(-1.0F);
  Bytes expected = {};
  for (const float value : values) expected.push_back(std::byte(dynamic8_code(value)));
  auto levels = levels_here();
  levels.push_back(VectorLevel::portable);
  for (const VectorLevel level : levels) {
    CAPTURE(name_of(level));
    const Bytes bytes = pass(codec(CodecId::dynamic8, level), values, 0).bytes;
    CHECK(Bytes(bytes.begin() + sizeof(float), bytes.end()) == expected);
  }
}

TEST_CASE("vector level: all halves and all 8-bit codes decode to the same values, or are refused alike") {
  for (const VectorLevel level : levels_here()) {
    CAPTURE(name_of(level));
    for (const CodecId id : {CodecId::float16, CodecId::bfloat16}) {
      for (unsigned first = 0; first < 0x10000; first += 128) {  // few at once: a refusal hides what else is there
        Bytes bytes;
        for (unsigned bits = first; bits < first + 128; ++bits)
          bytes.insert(bytes.end(), {std::byte(bits), std::byte(bits >> 8U)});
        std::array<float, 128> expected = {}, values = {};
        const bool accepted = bool(codec(id, VectorLevel::portable).decode(bytes, 0, expected));
        REQUIRE(bool(codec(id, level).decode(bytes, 0, values)) == accepted);
        if (accepted) REQUIRE(same_bits(values, expected));
      }
    }
    for (const float scale : {0.37F, 0x1p-126F, std::numeric_limits<float>::max()}) {
      Bytes bytes(sizeof(scale));
      std::memcpy(bytes.data(), &scale, sizeof(scale));
      for (int i = 0; i < 512; ++i) bytes.push_back(std::byte(i * 37));  // each twice, in every lane
      std::array<float, 512> expected = {}, values = {};
      REQUIRE(codec(CodecId::dynamic8, VectorLevel::portable).decode(bytes, 0, expected));
      REQUIRE(codec(CodecId::dynamic8, level).decode(bytes, 0, values));
      CHECK(same_bits(values, expected));
      std::replace(bytes.begin() + sizeof(scale), bytes.end(), std::byte(0x80), std::byte(0x81));
      REQUIRE(codec(CodecId::linear8, VectorLevel::portable).decode(bytes, 0, expected));
      REQUIRE(codec(CodecId::linear8, level).decode(bytes, 0, values));
      CHECK(same_bits(values, expected));
    }
  }
}

TEST_CASE("vector level: one bad value or code is found at any place") {
  constexpr std::size_t size = 333;  // vectors, a lane and a tail
  auto levels = levels_here();
  levels.push_back(VectorLevel::portable);
  for (const VectorLevel level : levels) {
    CAPTURE(name_of(level));
    const CodecKernels& kernels = codec_kernels(level);
    std::vector<float> values(size, std::numeric_limits<float>::max());
    REQUIRE(kernels.all_finite(values.data(), size));
    Bytes out(4 * size + 8);
    for (std::size_t at = 0; at < size; ++at) {
      CAPTURE(at);
      values[at] = kNotNumbers[at % kNotNumbers.size()];
      REQUIRE(!kernels.all_finite(values.data(), size));
      REQUIRE(kernels.all_finite(values.data(), at));
      REQUIRE(!std::isfinite(kernels.largest(values.data(), size)));
      for (const CodecId id : kEveryCodec) {
        const Codec& one = codec(id, level);
        const auto to = std::span(out).first(one.encoded_bytes({0, size}));
        REQUIRE(one.encode(values, 0, {}, to).error() == Errc::bad_request);
      }
      std::vector<float> decoded(size);
      REQUIRE(codec(CodecId::float32, level).decode(std::as_bytes(std::span(values)), 0, decoded).error() ==
              Errc::bad_request);
      values[at] = std::numeric_limits<float>::max();
      for (const CodecId id : {CodecId::float16, CodecId::bfloat16}) {
        Bytes bytes(2 * size);
        bytes[2 * at + 1] = at % 2 == 0 ? std::byte(0x7f) : std::byte(0xff);
        bytes[2 * at] = std::byte(0x80);
        REQUIRE(codec(id, level).decode(bytes, 0, decoded).error() == Errc::bad_request);
      }
      Bytes bytes(sizeof(float) + size);
      std::memcpy(bytes.data(), values.data(), sizeof(float));
      bytes[sizeof(float) + at] = std::byte(0x80);
      REQUIRE(codec(CodecId::linear8, level).decode(bytes, 0, decoded).error() == Errc::bad_request);
    }
  }
}

TEST_CASE("vector level: the largest magnitude is found at any place and of any size") {
  Random rng(23);
  auto levels = levels_here();
  levels.push_back(VectorLevel::portable);
  for (const VectorLevel level : levels) {
    CAPTURE(name_of(level));
    for (const std::size_t size : kSizes) {
      const auto values = any_values(rng, size);
      float most = 0;
      for (const float value : values) most = std::max(most, std::abs(value));
      CHECK(codec_kernels(level).largest(values.data(), size) == most);
    }
    for (std::size_t at = 0; at < 300; ++at) {
      std::vector<float> values(300, 0x1p-149F);
      values[at] = at % 2 == 0 ? 0x1p-148F : -0x1p-148F;
      REQUIRE(codec_kernels(level).largest(values.data(), values.size()) == 0x1p-148F);
    }
  }
}

}  // namespace collab
