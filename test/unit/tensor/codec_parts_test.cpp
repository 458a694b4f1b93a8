#include "base/random.hpp"
#include "tensor/codec.hpp"
#include "tensor/codec_powersgd.hpp"
#include "tensor/codec_topk.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "support/doctest.hpp"

namespace collab {
namespace {

constexpr std::array<std::uint16_t, 4> kNotFiniteHalves = {0x7c00, 0xfc00, 0x7e00, 0xfe01};

std::vector<float> normal(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = 0;
    for (int i = 0; i < 12; ++i) value += static_cast<float>(random.uniform());
    value -= 6;
  }
  return values;
}

Bytes encoded(CodecId id, std::span<const float> values, std::size_t offset = 0, std::uint64_t seed = 1) {
  Bytes out(codec(id).encoded_bytes({offset, values.size()}));
  EncodeOptions options;
  options.seed = seed;
  REQUIRE(codec(id).encode(values, offset, options, out));
  return out;
}

std::vector<float> decoded(CodecId id, std::span<const std::byte> bytes, std::size_t size, std::size_t offset = 0) {
  std::vector<float> out(size);
  REQUIRE(codec(id).decode(bytes, offset, out));
  return out;
}

bool refused(CodecId id, std::span<const std::byte> bytes, std::size_t size) {
  std::vector<float> out(size);
  return codec(id).decode(bytes, 0, out).error() == Errc::bad_request;
}

template <class T>
Bytes with(Bytes bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof(value));
  return bytes;
}

double square_sum(std::span<const float> values) {
  return std::accumulate(values.begin(), values.end(), 0.0, [](double sum, double x) { return sum + x * x; });
}

/// The sum of `rank` products of a column and a row, each half as large as the one before.
std::vector<float> of_rank(std::size_t rank) {
  std::vector<float> matrix(kUnitValues);
  for (std::size_t r = 0; r < rank; ++r) {
    const auto column = normal(kPowerSgdColumns, 2 * r + 100);
    const auto row = normal(kPowerSgdColumns, 2 * r + 101);
    for (std::size_t i = 0; i < matrix.size(); ++i)
      matrix[i] += std::ldexp(column[i / kPowerSgdColumns] * row[i % kPowerSgdColumns], -int(r));
  }
  return matrix;
}

}  // namespace

TEST_CASE("codec topk: of every block a 32nd is written, the largest, and all else stands for 0") {
  for (const std::size_t size : {1, 31, 32, 33, 1000, 4096, 5000, 12'288}) {
    CAPTURE(size);
    const auto values = normal(size, size);
    const auto back = decoded(CodecId::topk, encoded(CodecId::topk, values), size);
    for (std::size_t begin = 0; begin < size; begin += kUnitValues) {
      const std::size_t end = std::min(size, begin + kUnitValues);
      std::vector<float> magnitudes;
      for (std::size_t i = begin; i < end; ++i) magnitudes.push_back(std::abs(values[i]));
      std::sort(magnitudes.begin(), magnitudes.end(), std::greater<>());
      const std::size_t kept = (end - begin + kTopkShare - 1) / kTopkShare;
      std::size_t wrong = 0;
      for (std::size_t i = begin; i < end; ++i) {
        const bool is_kept = std::abs(values[i]) >= magnitudes[kept - 1];
        const float expected = is_kept ? values[i] : 0.0F;
        wrong += std::abs(back[i] - expected) > 0x1p-11F * std::abs(expected) ? 1U : 0U;
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("codec topk: of equal values those that come first are written, also among zeros and at full size") {
  for (const float height : {0.0F, 1.0F, 65504.0F}) {
    CAPTURE(height);
    std::vector<float> values(1000, height);
    for (std::size_t i = 0; i < values.size(); i += 3) values[i] = -height;
    const Bytes bytes = encoded(CodecId::topk, values);
    for (std::uint16_t i = 0; i < 32; ++i) CHECK(std::memcmp(bytes.data() + 2 * i, &i, sizeof(i)) == 0);
  }
  std::vector<float> one_large(4096, 0.5F);
  one_large[4095] = 1;
  const auto back = decoded(CodecId::topk, encoded(CodecId::topk, one_large), 4096);
  CHECK(back[4095] == 1);
  CHECK(std::count(back.begin(), back.end(), 0.5F) == 127);
  CHECK(std::count(back.begin(), back.begin() + 127, 0.5F) == 127);
}

TEST_CASE("codec topk: bytes that encode never writes are refused") {
  const std::size_t size = 1000;  // 32 positions, 32 values
  const Bytes good = encoded(CodecId::topk, normal(size, 5));
  std::uint16_t first = 0;
  std::uint16_t second = 0;
  std::memcpy(&first, good.data(), 2);
  std::memcpy(&second, good.data() + 2, 2);
  CHECK_FALSE(refused(CodecId::topk, good, size));
  CHECK(refused(CodecId::topk, with(good, 0, second), size));                  // twice
  CHECK(refused(CodecId::topk, with(with(good, 0, second), 2, first), size));  // descending
  CHECK(refused(CodecId::topk, with(good, 62, std::uint16_t(1000)), size));    // outside
  CHECK_FALSE(refused(CodecId::topk, with(good, 62, std::uint16_t(999)), size));
  CHECK(refused(CodecId::topk, with(good, 62, std::uint16_t(0xffff)), size));
  for (const std::uint16_t bits : kNotFiniteHalves) CHECK(refused(CodecId::topk, with(good, 126, bits), size));
  for (const std::size_t bytes : {0, 1, 127, 129, 256}) {
    CAPTURE(bytes);
    Bytes other = good;
    other.resize(bytes);
    CHECK(refused(CodecId::topk, other, size));
  }
}

TEST_CASE("codec powersgd: a matrix of rank 4 arrives as it was, up to the roundings of float16") {
  for (std::size_t rank = 1; rank <= 4; ++rank) {
    CAPTURE(rank);
    const auto values = of_rank(rank);
    auto left = decoded(CodecId::powersgd, encoded(CodecId::powersgd, values), values.size());
    for (std::size_t i = 0; i < values.size(); ++i) left[i] -= values[i];
    CHECK(square_sum(left) < 1e-6 * square_sum(values));
  }
  const auto values = of_rank(7);  // what is owed: the three smallest, 2^-8, 2^-10 and 2^-12 of the first, squared
  auto left = decoded(CodecId::powersgd, encoded(CodecId::powersgd, values), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) left[i] -= values[i];
  CHECK(square_sum(left) < 0.01 * square_sum(values));
}

TEST_CASE("codec powersgd: its bytes and what it loses are those of its shape, also of short blocks") {
  const Codec& low = codec(CodecId::powersgd);
  CHECK(low.encoded_bytes({0, 4096}) == 4 + 4 * 128 * 2);
  CHECK(low.encoded_bytes({4096, 3 * 4096}) == 3 * (4 + 4 * 128 * 2));
  CHECK(low.encoded_bytes({0, 4096 + 640}) == 4 + 4 * 128 * 2 + 4 + 4 * 74 * 2);
  CHECK(low.encoded_bytes({0, 200}) == 400);  // as float16
  CHECK(low.encoded_bytes({0, 278}) == 556);  // the longest
  CHECK(low.encoded_bytes({0, 279}) == 556);
  const auto short_block = normal(278, 278);
  CHECK(encoded(CodecId::powersgd, short_block) == encoded(CodecId::float16, short_block));
  for (const std::size_t size : {1, 200, 278, 279, 291, 292, 293, 300, 640, 641, 4095}) {
    CAPTURE(size);
    CHECK(low.encoded_bytes({0, size}) <= 2 * size);
    const auto values = normal(size, size);
    auto left = decoded(CodecId::powersgd, encoded(CodecId::powersgd, values), size);
    for (std::size_t i = 0; i < size; ++i) left[i] -= values[i];
    CHECK(square_sum(left) < 0.9 * square_sum(values));
  }
  const std::vector<float> zeros(4096, 0x1p-127F);
  const Bytes nothing = encoded(CodecId::powersgd, zeros);
  CHECK(std::all_of(nothing.begin(), nothing.end(), [](std::byte byte) { return byte == std::byte{0}; }));
}

TEST_CASE("codec powersgd: the same seed and place give the same bytes, another seed others") {
  const auto values = normal(4096, 3);
  CHECK(encoded(CodecId::powersgd, values, 0, 7) == encoded(CodecId::powersgd, values, 0, 7));
  CHECK(encoded(CodecId::powersgd, values, 0, 7) != encoded(CodecId::powersgd, values, 0, 8));
  CHECK(encoded(CodecId::powersgd, values, 0, 7) != encoded(CodecId::powersgd, values, 4096, 7));
}

TEST_CASE("codec powersgd: scales and factors that encode never writes are refused") {
  const std::size_t size = 4096;
  const Bytes good = encoded(CodecId::powersgd, normal(size, 5));
  CHECK_FALSE(refused(CodecId::powersgd, good, size));
  for (const float scale :
       {-1.0F, 0.0F, -0.0F, 0x1p-127F, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    CHECK(refused(CodecId::powersgd, with(good, 0, scale), size));
  for (const std::size_t at : {std::size_t(4), good.size() / 2, good.size() - 2})
    for (const std::uint16_t bits : kNotFiniteHalves) CHECK(refused(CodecId::powersgd, with(good, at, bits), size));
  CHECK(refused(CodecId::powersgd, with(Bytes(good.size()), good.size() - 1, std::byte{1}), size));
  CHECK_FALSE(refused(CodecId::powersgd, Bytes(good.size()), size));
  const float largest = std::numeric_limits<float>::max();
  Bytes too_large = with(Bytes(good.size()), 0, largest);
  const std::uint16_t two = 0x4000;
  too_large = with(with(too_large, 4, two), 4 + 4 * 64 * 2, two);  // 2 · 2 · the largest float
  CHECK(decoded(CodecId::powersgd, too_large, size)[0] == largest);
  for (const std::size_t bytes : {std::size_t(0), std::size_t(4), good.size() - 1, good.size() + 1}) {
    Bytes other = good;
    other.resize(bytes);
    CHECK(refused(CodecId::powersgd, other, size));
  }
}

TEST_CASE("codec: blocks of topk and powersgd end at unit borders, wherever the range begins") {
  const auto values = normal(10'000, 4);
  const std::size_t offset = 4096 - 700;
  for (const CodecId id : {CodecId::topk, CodecId::powersgd}) {
    CAPTURE(codec(id).name());
    Bytes pieces = encoded(id, std::span(values).first(700), offset);
    for (std::size_t begin = 700; begin < values.size(); begin += 4096) {
      const auto piece = std::span(values).subspan(begin, std::min<std::size_t>(4096, values.size() - begin));
      const Bytes more = encoded(id, piece, offset + begin);
      pieces.insert(pieces.end(), more.begin(), more.end());
    }
    CHECK(encoded(id, values, offset) == pieces);
  }
}

TEST_CASE("codec_map: topk and powersgd write parts of large gradients, and float16 all else") {
  const Schema schema = {{{"dense", DType::float32, {100'000}, TensorRole::gradient},
                          {"norm", DType::float32, {300}, TensorRole::gradient},
                          {"moment", DType::float32, {100'000}, TensorRole::statistic}}};
  for (const CodecId id : {CodecId::topk, CodecId::powersgd}) {
    const CodecMap map(schema, CodecOptions::all(id));
    REQUIRE(map.runs().size() == 1);
    CHECK(map.runs()[0] == CodecRun{200'300, CodecId::float16});
    REQUIRE(map.parts().runs().size() == 2);
    CHECK(map.parts().runs()[0] == CodecRun{100'000, id});
    CHECK(map.parts().runs()[1] == CodecRun{200'300, CodecId::float16});
    CHECK(map.owes());
    CHECK(map.parts().length() == map.length());
    CHECK(map.canonical() != CodecMap(schema, CodecOptions()).canonical());
  }
  const CodecMap plain(schema, CodecOptions::all(CodecId::linear8));
  CHECK(&plain.parts() == &plain);
  CHECK_FALSE(plain.owes());

  CodecOptions fine_results;
  fine_results.gradient_parts = CodecId::linear8;
  const CodecMap apart(schema, fine_results);
  CHECK(apart.runs()[0].codec == CodecId::float16);
  CHECK(apart.parts().runs()[0].codec == CodecId::linear8);
  CHECK_FALSE(apart.owes());
}

}  // namespace collab
