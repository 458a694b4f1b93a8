#include "tensor/codec.hpp"

#include "base/bytes.hpp"
#include "base/random.hpp"
#include "tensor/codec_8bit.hpp"
#include "tensor/codec_float.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "support/doctest.hpp"

namespace collab {
namespace {

constexpr std::array kAll = kCodecIds;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Values around ±2^exponent, a fraction of them far smaller.
std::vector<float> random_values(Random& rng, std::size_t count, int exponent) {
  std::vector<float> values(count);
  for (float& value : values) {
    const int smaller = rng.below(4) == 0 ? static_cast<int>(rng.below(30)) : 0;
    const auto mantissa = static_cast<float>(rng.next() >> 40U) * 0x1p-23F - 1.0F;
    value = std::ldexp(mantissa, exponent - smaller);
  }
  return values;
}

Bytes encoded(const Codec& codec, std::span<const float> values, std::size_t offset = 0, EncodeOptions options = {}) {
  Bytes out(codec.encoded_bytes({offset, values.size()}));
  REQUIRE(codec.encode(values, offset, options, out));
  return out;
}

float through(const Codec& codec, float value) {
  const std::array<float, 1> in = {value};
  std::array<float, 1> out = {};
  REQUIRE(codec.decode(encoded(codec, in), 0, out));
  return out[0];
}

double largest(std::span<const float> values) {
  double most = 0;
  for (const float value : values) most = std::max(most, std::abs(double(value)));
  return most;
}

Bytes block(float scale, std::initializer_list<int> codes) {
  Bytes out(sizeof(scale));
  std::memcpy(out.data(), &scale, sizeof(scale));
  for (const int code : codes) out.push_back(static_cast<std::byte>(code));
  return out;
}

}  // namespace

TEST_CASE("codec: what is decoded is within the error bound, at every size of value from subnormal to the largest") {
  Random rng(3);
  for (const CodecId id : kAll) {
    for (int exponent = -149; exponent <= 127; exponent += 3) {
      const auto values = random_values(rng, 600, exponent);
      for (const bool stochastic : {false, true}) {
        CAPTURE(codec(id).name());
        CAPTURE(exponent);
        std::vector<float> decoded(values.size());
        REQUIRE(codec(id).decode(encoded(codec(id), values, 0, {stochastic, 9}), 0, decoded));
        const double bound = codec(id).error_bound(largest(values), stochastic);
        std::size_t outside = 0;
        for (std::size_t i = 0; i < values.size(); ++i)
          outside += std::abs(double(decoded[i]) - double(values[i])) > bound ? 1U : 0U;
        CHECK(outside == 0);
      }
    }
  }
}

TEST_CASE("codec: float16 and bfloat16 are within their bound value by value, not only by the largest") {
  Random rng(4);
  for (const CodecId id : {CodecId::float16, CodecId::bfloat16}) {
    std::size_t outside = 0;
    for (int i = 0; i < 20'000; ++i) {
      const float value = random_values(rng, 1, static_cast<int>(rng.below(276)) - 148).front();
      const double bound = codec(id).error_bound(std::abs(double(value)), false);
      outside += std::abs(double(through(codec(id), value)) - double(value)) > bound ? 1U : 0U;
    }
    CHECK(outside == 0);
  }
}

TEST_CASE("codec: float16 rounds to nearest even, keeps subnormals and signs, and saturates") {
  const Codec& half = codec(CodecId::float16);
  const auto bits = [&](float value) {
    const std::array<float, 1> in = {value};
    const Bytes out = encoded(half, in);
    return std::to_integer<unsigned>(out[0]) | std::to_integer<unsigned>(out[1]) << 8U;
  };
  CHECK(bits(1.0F) == 0x3c00);
  CHECK(bits(-2.0F) == 0xc000);
  CHECK(bits(-0.0F) == 0x8000);
  CHECK(bits(1.0F + 0x1p-11F) == 0x3c00);      // half-way, to even
  CHECK(bits(1.0F + 0x3p-11F) == 0x3c02);      // half-way, to even
  CHECK(bits(1.0F + 0x1.004p-11F) == 0x3c01);  // a little over half-way
  CHECK(bits(0x1p-14F) == 0x0400);             // smallest normal
  CHECK(bits(0x1.ff8p-15F) == 0x03ff);         // largest subnormal
  CHECK(bits(0x1.fffp-15F) == 0x0400);         // rounds up into the normals
  CHECK(bits(0x1p-24F) == 0x0001);
  CHECK(bits(0x1p-25F) == 0x0000);    // half-way, to even
  CHECK(bits(0x1.8p-24F) == 0x0002);  // half-way, to even
  CHECK(bits(65504.0F) == 0x7bff);
  CHECK(bits(65519.0F) == 0x7bff);
  CHECK(bits(-1e30F) == 0xfbff);
  CHECK(bits(std::numeric_limits<float>::max()) == 0x7bff);
}

TEST_CASE("codec: float16 gives the same bytes and values with and without the processor's own conversion") {
  const Codec& native = codec(CodecId::float16);
  const Codec& portable = codec(CodecId::float16, VectorLevel::portable);
  Random rng(5);
  for (int exponent = -149; exponent <= 127; ++exponent) {
    const auto values = random_values(rng, 700, exponent);
    CAPTURE(exponent);
    CHECK(encoded(native, values) == encoded(portable, values));
  }
  std::vector<float> half_way;  // the borders between rounding down and up, and their neighbours
  for (unsigned half = 0; half < 0x7bff; ++half) {
    const Bytes both = {std::byte(half), std::byte(half >> 8U), std::byte(half + 1), std::byte((half + 1) >> 8U)};
    std::array<float, 2> values = {};
    std::array<float, 2> expected = {};
    REQUIRE(native.decode(both, 0, values));
    REQUIRE(portable.decode(both, 0, expected));
    REQUIRE(values == expected);
    const float middle = (values[0] + values[1]) / 2;
    for (const float value : {middle, std::nextafter(middle, 0.0F), std::nextafter(middle, 1e9F)})
      half_way.insert(half_way.end(), {value, -value});
  }
  CHECK(encoded(native, half_way) == encoded(portable, half_way));
}

TEST_CASE("codec: every finite float16 and bfloat16 decodes to a value that encodes to the same bytes") {
  for (const CodecId id : {CodecId::float16, CodecId::bfloat16}) {
    const unsigned exponent = id == CodecId::float16 ? 0x7c00U : 0x7f80U;
    std::size_t refused = 0;
    for (unsigned bits = 0; bits < 0x10000; ++bits) {
      const Bytes bytes = {static_cast<std::byte>(bits), static_cast<std::byte>(bits >> 8U)};
      std::array<float, 1> value = {};
      if (const auto decoded = codec(id).decode(bytes, 0, value); !decoded) {
        REQUIRE((bits & exponent) == exponent);
        REQUIRE(decoded.error() == Errc::bad_request);
        ++refused;
      } else {
        REQUIRE(encoded(codec(id), value) == bytes);
      }
    }
    CHECK(refused == (id == CodecId::float16 ? 2048 : 256));  // the infinities and NaNs
  }
}

TEST_CASE("codec: bfloat16 saturates at its largest finite value and rounds to nearest even") {
  const Codec& brain = codec(CodecId::bfloat16);
  CHECK(through(brain, std::numeric_limits<float>::max()) == 0x1.fep127F);
  CHECK(through(brain, -std::numeric_limits<float>::max()) == -0x1.fep127F);
  CHECK(through(brain, 1.0F + 0x1p-8F) == 1.0F);
  CHECK(through(brain, 1.0F + 0x3p-8F) == 1.0F + 0x1p-6F);
}

TEST_CASE("codec: a value that is not finite is refused wherever it stands") {
  for (const CodecId id : kAll) {
    for (const float bad : {kNan, -kNan, kInfinity, -kInfinity}) {
      for (const std::size_t at : {std::size_t(0), std::size_t(300), std::size_t(4097), std::size_t(4999)}) {
        std::vector<float> values(5000, 1.5F);
        values[at] = bad;
        Bytes out(codec(id).encoded_bytes({0, values.size()}));
        CHECK(codec(id).encode(values, 0, {}, out).error() == Errc::bad_request);
      }
    }
  }
}

TEST_CASE("codec: bytes of a wrong size are refused") {
  for (const CodecId id : kAll) {
    const std::vector<float> values(5000, 1.5F);
    Bytes bytes = encoded(codec(id), values);
    std::vector<float> out(values.size());
    CHECK(codec(id).decode(bytes, 0, out));
    bytes.push_back({});
    CHECK(codec(id).decode(bytes, 0, out).error() == Errc::bad_request);
    bytes.resize(bytes.size() - 2);
    CHECK(codec(id).decode(bytes, 0, out).error() == Errc::bad_request);
    CHECK(codec(id).decode({}, 0, out).error() == Errc::bad_request);
    CHECK(codec(id).decode({}, 0, std::span<float>()));
  }
}

TEST_CASE("codec: float32 refuses NaN and infinity, which an average must never hold") {
  for (const float bad : {kNan, kInfinity, -kInfinity}) {
    std::vector<float> values(700, 0.25F);
    values[699] = bad;
    std::vector<float> out(values.size());
    CHECK(codec(CodecId::float32).decode(std::as_bytes(std::span(values)), 0, out).error() == Errc::bad_request);
  }
}

TEST_CASE("codec: 8-bit blocks end at unit borders, wherever the range begins") {
  for (const CodecId id : {CodecId::linear8, CodecId::dynamic8}) {
    CHECK(codec(id).encoded_bytes({0, 0}) == 0);
    CHECK(codec(id).encoded_bytes({0, 4096}) == 4096 + 4);
    CHECK(codec(id).encoded_bytes({0, 4097}) == 4097 + 8);
    CHECK(codec(id).encoded_bytes({4095, 2}) == 2 + 8);
    CHECK(codec(id).encoded_bytes({4096, 4096}) == 4096 + 4);
    // A large value spoils its own block only.
    std::vector<float> values(200, 0.5F);
    values[0] = 1000;
    std::vector<float> out(values.size());
    REQUIRE(codec(id).decode(encoded(codec(id), values, 4096 - 10), 4096 - 10, out));
    CHECK(out[0] == 1000);
    CHECK(out[9] != doctest::Approx(0.5));
    CHECK(out[10] == doctest::Approx(0.5));
  }
}

TEST_CASE("codec: an 8-bit block below 2^-126 is zeros, one at 2^-126 is not") {
  for (const CodecId id : {CodecId::linear8, CodecId::dynamic8}) {
    const std::array<float, 3> tiny = {0x1p-127F, -0x1.fp-127F, 0x1p-149F};
    std::array<float, 3> out = {1, 1, 1};
    const Bytes bytes = encoded(codec(id), tiny);
    CHECK(bytes == encoded(codec(id), std::array<float, 3>{}));
    REQUIRE(codec(id).decode(bytes, 0, out));
    for (const float value : out) CHECK((value == 0 && !std::signbit(value)));
    CHECK(through(codec(id), 0x1p-126F) * 0x1p126F == doctest::Approx(1));
  }
}

TEST_CASE("codec: 8-bit scales and codes that encode never writes are refused") {
  const float smallest = std::numeric_limits<float>::denorm_min();
  for (const float scale : {kNan, kInfinity, -kInfinity, -1.0F, -0.0F, smallest, 0x1.fp-127F}) {
    std::array<float, 2> out = {};
    CHECK(codec(CodecId::linear8).decode(block(scale, {0, 0}), 0, out).error() == Errc::bad_request);
    CHECK(codec(CodecId::dynamic8).decode(block(scale, {127, 127}), 0, out).error() == Errc::bad_request);
  }
  std::array<float, 2> out = {};
  CHECK(codec(CodecId::linear8).decode(block(1, {-127, 127}), 0, out));
  CHECK(codec(CodecId::linear8).decode(block(1, {0, -128}), 0, out).error() == Errc::bad_request);
  CHECK(codec(CodecId::linear8).decode(block(0, {0, 1}), 0, out).error() == Errc::bad_request);
  CHECK(codec(CodecId::dynamic8).decode(block(0, {127, 127}), 0, out));
  CHECK(codec(CodecId::dynamic8).decode(block(0, {127, 0}), 0, out).error() == Errc::bad_request);
}

TEST_CASE("codec: the largest scales decode to finite values") {
  float scale = std::numeric_limits<float>::max();
  for (int i = 0; i < 2000; ++i, scale = std::nextafter(scale, 0.0F)) {
    std::array<float, 2> out = {};
    REQUIRE(codec(CodecId::linear8).decode(block(scale, {127, -127}), 0, out));
    REQUIRE(std::isfinite(out[0]));
    REQUIRE(std::isfinite(out[1]));
  }
}

TEST_CASE("codec: dynamic8 finds the nearest entry, and the lower code of two that are equally near") {
  const auto& table = dynamic8_table();
  const auto slow = [&](float z) {
    std::size_t code = 0;
    while (code + 1 < table.size() && static_cast<float>((double(table[code]) + double(table[code + 1])) / 2) < z)
      ++code;
    return code;
  };
  for (std::size_t code = 0; code + 1 < table.size(); ++code) {
    const auto middle = static_cast<float>((double(table[code]) + double(table[code + 1])) / 2);
    CHECK(dynamic8_code(table[code]) == code);
    CHECK(dynamic8_code(middle) == code);
    CHECK(dynamic8_code(std::nextafter(middle, 2.0F)) == code + 1);
    CHECK(dynamic8_code(std::nextafter(middle, -2.0F)) == code);
  }
  Random rng(5);
  std::size_t wrong = 0;
  for (int i = 0; i < 50'000; ++i) {
    const float z = random_values(rng, 1, -static_cast<int>(rng.below(26))).front();
    wrong += dynamic8_code(z) == slow(z) ? 0U : 1U;
  }
  CHECK(wrong == 0);
  CHECK(dynamic8_code(-1.0F) == 0);
  CHECK(dynamic8_code(1.0F) == 255);
  CHECK(dynamic8_code(-0.0F) == 127);
}

TEST_CASE("codec: stochastic rounding has the value itself as its mean, and depends on seed and place only") {
  const Codec& dynamic = codec(CodecId::dynamic8);
  std::vector<float> values(4096, 0.3F);
  values[0] = 1;
  const Bytes once = encoded(dynamic, values, 4096, {true, 1});
  CHECK(once == encoded(dynamic, values, 4096, {true, 1}));
  CHECK(once != encoded(dynamic, values, 4096, {true, 2}));
  CHECK(once != encoded(dynamic, values, 0, {true, 1}));
  std::vector<float> decoded(values.size());
  REQUIRE(dynamic.decode(once, 4096, decoded));
  double mean = 0;
  for (std::size_t i = 1; i < decoded.size(); ++i) mean += double(decoded[i]) / 4095;
  CHECK(std::abs(mean - 0.3) < 4 * 0.007 / std::sqrt(4095));
}

TEST_CASE("codec: names find their codecs, and nothing else is found") {
  for (const CodecId id : kAll) CHECK(codec_named(codec(id).name()).value() == id);
  CHECK(codec_named("float64").error() == Errc::bad_request);
  CHECK(codec_named("").error() == Errc::bad_request);
}

}  // namespace collab
