// Numbers of the reference encoder: the dynamic table, error figures on N(0,1), and whole payloads by checksum, so that
// every compiler writes the same bits.
#include "tensor/codec.hpp"

#include "base/bytes.hpp"
#include "base/random.hpp"
#include "support/approximately.hpp"
#include "tensor/codec_8bit.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>
#include <string>
#include <vector>

#include "support/doctest.hpp"

namespace collab {
namespace {

std::uint64_t fnv1a(std::span<const std::byte> bytes) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const std::byte byte : bytes) hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3U;
  return hash;
}

/// N(0,1) by Box and Muller.
std::vector<float> normal_values(std::size_t count) {
  Random rng(2024);
  const auto uniform = [&] { return (static_cast<double>(rng.next() >> 11U) + 0.5) * 0x1p-53; };
  std::vector<float> values(count);
  for (std::size_t i = 0; i + 1 < count; i += 2) {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    const double angle = 2 * std::numbers::pi * uniform();
    values[i] = static_cast<float>(radius * std::cos(angle));
    values[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
  return values;
}

/// 41 units whose sizes sweep all exponents of a float, subnormals included.
std::vector<float> sweeping_values() {
  Random rng(11);
  std::vector<float> values(40 * kUnitValues + 1234);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto integer = static_cast<double>(rng.next() >> 40U) - 0x1p23;
    values[i] = static_cast<float>(std::ldexp(integer, static_cast<int>(i / kUnitValues * 27 / 4) - 166));
  }
  return values;
}

struct Errors {
  double mean_square = 0;
  double worst = 0;  ///< |error| / largest |value| of the unit
  double mean = 0;
};

Errors errors_of(const Codec& codec, std::span<const float> values, EncodeOptions options) {
  Bytes bytes(codec.encoded_bytes({0, values.size()}));
  REQUIRE(codec.encode(values, 0, options, bytes));
  std::vector<float> decoded(values.size());
  REQUIRE(codec.decode(bytes, 0, decoded));
  Errors errors;
  for (std::size_t begin = 0; begin < values.size(); begin += kUnitValues) {
    double largest = 0;
    double worst = 0;
    for (std::size_t i = begin; i < begin + kUnitValues; ++i) {
      const double error = double(decoded[i]) - double(values[i]);
      errors.mean_square += error * error / static_cast<double>(values.size());
      errors.mean += error / static_cast<double>(values.size());
      worst = std::max(worst, std::abs(error));
      largest = std::max(largest, std::abs(double(values[i])));
    }
    errors.worst = std::max(errors.worst, worst / largest);
  }
  return errors;
}

}  // namespace

TEST_CASE("codec oracle: mean square errors on 2^20 values of N(0,1)") {
  const auto values = normal_values(std::size_t(1) << 20U);
  const auto mse = [&](CodecId id) { return errors_of(codec(id), values, {}).mean_square; };
  CHECK(mse(CodecId::float32) == 0);
  CHECK(mse(CodecId::float16) == test::approximately(4.32e-8, 0.03));
  CHECK(mse(CodecId::float16) <= 5e-8);
  CHECK(mse(CodecId::bfloat16) == test::approximately(2.77e-6, 0.03));
  CHECK(mse(CodecId::bfloat16) <= 3e-6);
  CHECK(mse(CodecId::linear8) == test::approximately(7.55e-5, 0.03));
  CHECK(mse(CodecId::dynamic8) == test::approximately(1.69e-4, 0.03));

  const Errors chance = errors_of(codec(CodecId::dynamic8), values, {true, 7});
  CHECK(chance.mean_square == test::approximately(3.37e-4, 0.03));
  CHECK(std::abs(chance.mean) < 4 * std::sqrt(3.37e-4) / 1024);  // unbiased
  CHECK(chance.worst <= 0.0141);
  CHECK(errors_of(codec(CodecId::linear8), values, {}).worst <= 1.0 / 253);
  CHECK(errors_of(codec(CodecId::dynamic8), values, {}).worst <= 0.00704);
}

TEST_CASE("codec oracle: the dynamic table is the reference's to the bit") {
  const auto& table = dynamic8_table();
  CHECK(std::set<float>(table.begin(), table.end()).size() == 256);
  CHECK(table[0] == test::approximately(-0.99296874, 1e-8));
  CHECK(table[1] == test::approximately(-0.97890627, 1e-8));
  CHECK(table[127] == 0);
  CHECK(table[254] == -table[0]);
  CHECK(table[255] == 1);
  CHECK(fnv1a(std::as_bytes(std::span(table))) == 0x1e28a45b2a45b220U);
}

TEST_CASE("codec oracle: the chances of stochastic rounding") {
  CHECK(stochastic_uniform(7, 0) == 0.38982969522476196F);
  CHECK(stochastic_uniform(7, 1) == 0.016788244247436523F);
  CHECK(stochastic_uniform(7, 2) == 0.9007606506347656F);
  CHECK(stochastic_uniform(7, 3) == 0.5829302668571472F);
}

TEST_CASE("codec oracle: payloads are the reference's to the bit, from subnormal to huge values") {
  struct Expected {
    CodecId codec;
    bool stochastic;
    std::size_t bytes;
    std::uint64_t checksum;
  };
  const auto values = sweeping_values();
  for (const Expected& expected : {
           Expected{CodecId::float32, false, 660'296, 0x47eb143bbe1149beU},
           Expected{CodecId::float16, false, 330'148, 0x3ccea014deb39093U},
           Expected{CodecId::bfloat16, false, 330'148, 0xe52735abe3f84234U},
           Expected{CodecId::linear8, false, 165'238, 0x09feb9b85785ec03U},
           Expected{CodecId::dynamic8, false, 165'238, 0xacec98198ad37a8aU},
           Expected{CodecId::dynamic8, true, 165'238, 0x752234ccc30e37d7U},
           // no reference wrote these two: they hold compilers and machines to each other
           Expected{CodecId::topk, false, 20'636, 0x576888fe2aa53884U},
           Expected{CodecId::powersgd, false, 41'796, 0x213d6765df54bd4fU},
       }) {
    CAPTURE(codec(expected.codec).name());
    Bytes bytes(codec(expected.codec).encoded_bytes({0, values.size()}));
    CHECK(bytes.size() == expected.bytes);
    REQUIRE(codec(expected.codec).encode(values, 0, {expected.stochastic, 7}, bytes));
    CHECK(fnv1a(bytes) == expected.checksum);
  }
}

}  // namespace collab
