#include "base/random.hpp"
#include "tensor/codec.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "support/doctest.hpp"

namespace collab {
namespace {

/// Tensors of many sizes, none of which ends at a unit border, and one that is empty.
Schema mixed() {
  return {{{"embedding", DType::float32, {300, 301}, TensorRole::gradient},
           {"bias", DType::float32, {301}, TensorRole::gradient},
           {"empty", DType::float32, {0}, TensorRole::gradient},
           {"norm", DType::float32, {77}, TensorRole::gradient},
           {"dense", DType::float32, {257, 300}, TensorRole::gradient},
           {"count", DType::float32, {}, TensorRole::statistic}}};
}

std::vector<float> random_values(std::size_t count) {
  Random rng(8);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(rng.next() >> 40U) * 0x1p-23F - 1.0F;
  return values;
}

std::vector<CodecOptions> all_options() {
  CodecOptions mixed_roles = CodecOptions::all(CodecId::linear8);
  mixed_roles.statistic = CodecId::float32;
  CodecOptions by_lines;
  by_lines.choose_gradients();
  return {CodecOptions(),
          CodecOptions::all(CodecId::float32),
          CodecOptions::all(CodecId::bfloat16),
          CodecOptions::all(CodecId::dynamic8),
          mixed_roles,
          by_lines};
}

}  // namespace

TEST_CASE("codec_map: float16 by default, everywhere") {
  const CodecMap map(mixed(), {});
  REQUIRE(map.runs().size() == 1);
  CHECK(map.runs()[0] == CodecRun{mixed().values(), CodecId::float16});
  CHECK(map.length() == mixed().values());
  CHECK(map.encoded_bytes({0, map.length()}) == 2 * map.length());
}

TEST_CASE("codec_map: with an 8-bit codec, small tensors stay float16, and neighbours of one codec are one run") {
  CodecOptions options;
  options.gradient = CodecId::dynamic8;
  options.statistic = CodecId::float32;
  const CodecMap map(mixed(), options);
  REQUIRE(map.runs().size() == 4);
  CHECK(map.runs()[0] == CodecRun{90'300, CodecId::dynamic8});
  CHECK(map.runs()[1] == CodecRun{90'678, CodecId::float16});
  CHECK(map.runs()[2] == CodecRun{167'778, CodecId::dynamic8});
  CHECK(map.runs()[3] == CodecRun{167'779, CodecId::float32});

  const Schema border = {{{"under", DType::float32, {65'535}}, {"at", DType::float32, {65'536}}}};
  const CodecMap at(border, CodecOptions::all(CodecId::linear8));
  REQUIRE(at.runs().size() == 2);
  CHECK(at.runs()[0].codec == CodecId::float16);
  CHECK(at.runs()[1].codec == CodecId::linear8);
}

TEST_CASE("codec_map: the choice auto is float16 for all, beside it linear8 for large gradients") {
  CodecOptions options;
  options.statistic = CodecId::float32;
  const CodecMap fixed(mixed(), options);
  CHECK(fixed.coarse() == nullptr);
  options.choose_gradients();
  const CodecMap map(mixed(), options);
  CHECK(std::equal(map.runs().begin(), map.runs().end(), fixed.runs().begin(), fixed.runs().end()));
  CHECK(!map.owes());
  REQUIRE(map.coarse() != nullptr);
  CHECK(map.coarse()->runs().front() == CodecRun{90'300, CodecId::linear8});
  CHECK(map.coarse()->runs().back() == CodecRun{167'779, CodecId::float32});
  CHECK(map.coarse()->coarse() == nullptr);
  CHECK(map.canonical() != fixed.canonical());
  CHECK(map.canonical() != map.coarse()->canonical());

  const Schema small = {{{"bias", DType::float32, {65'535}}}};
  CHECK(CodecMap(small, options).coarse() == nullptr);  // nothing in it is worth 8 bits
}

TEST_CASE("codec_map: canonical bytes tell maps apart") {
  const auto bytes = [](const CodecOptions& options) { return CodecMap(mixed(), options).canonical(); };
  std::vector<Bytes> all;
  for (const CodecOptions& options : all_options()) all.push_back(bytes(options));
  std::sort(all.begin(), all.end());
  CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
  CHECK(bytes({}) == bytes(CodecOptions::all(CodecId::float16)));
}

TEST_CASE("codec_map: a vector encoded whole or in pieces at unit borders gives the same bytes") {
  const auto values = random_values(mixed().values());
  const std::span<const float> vector(values);
  for (const CodecOptions& options : all_options()) {
    const CodecMap map(mixed(), options);
    for (const bool stochastic : {false, true}) {
      const EncodeOptions encode = {stochastic, 77};
      const Bytes whole = map.encode(vector, 0, encode).value();
      for (const std::size_t piece_units : {1U, 2U, 7U, 16U}) {
        Bytes joined;
        for (std::size_t begin = 0; begin < vector.size(); begin += piece_units * kUnitValues) {
          const std::size_t size = std::min(piece_units * kUnitValues, vector.size() - begin);
          const Bytes piece = map.encode(vector.subspan(begin, size), begin, encode).value();
          CHECK(piece.size() == map.encoded_bytes({begin, size}));
          joined.insert(joined.end(), piece.begin(), piece.end());
        }
        CHECK(joined == whole);
      }
    }
  }
}

TEST_CASE("codec_map: every byte is written, whatever lay there, and none is left there when values are refused") {
  std::vector<CodecOptions> all = all_options();
  for (const CodecId id : {CodecId::topk, CodecId::powersgd}) all.push_back(CodecOptions::all(id));
  const auto check = [](const CodecMap& map, std::vector<float> values) {
    const Bytes clean = map.encode(values, 0, {}).value();
    Bytes used(clean.size(), std::byte(0xA5));
    REQUIRE(map.encode(values, 0, {}, used));
    CHECK(used == clean);
    std::ranges::fill(used, std::byte(0xA5));
    values.back() = std::numeric_limits<float>::quiet_NaN();
    CHECK(map.encode(values, 0, {}, used).error() == Errc::bad_request);
    CHECK(used == Bytes(clean.size()));
  };
  for (const CodecOptions& options : all) {
    const CodecMap map(mixed(), options);
    for (const CodecMap* one : {&map, &map.parts()}) {
      check(*one, random_values(map.length()));
      check(*one, std::vector<float>(map.length()));
    }
  }
}

TEST_CASE("codec_map: decodes what it encoded, within the bound, and decoding the whole equals decoding chunks") {
  const auto values = random_values(mixed().values());
  for (const CodecOptions& options : all_options()) {
    const CodecMap map(mixed(), options);
    const Bytes bytes = map.encode(values, 0, {}).value();
    std::vector<float> whole(values.size());
    REQUIRE(map.decode(bytes, 0, whole));
    const double bound = map.error_bound({0, values.size()}, 1, false);
    double worst = 0;
    for (std::size_t i = 0; i < values.size(); ++i)
      worst = std::max(worst, std::abs(double(whole[i]) - double(values[i])));
    CHECK(worst <= bound);

    const Range chunk{20 * kUnitValues, 3 * kUnitValues};  // crosses the borders of runs
    std::vector<float> part(chunk.size);
    const std::size_t skipped = map.encoded_bytes({0, chunk.begin});
    REQUIRE(map.decode(std::span(bytes).subspan(skipped, map.encoded_bytes(chunk)), chunk.begin, part));
    CHECK(std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(chunk.begin)));
  }
}

TEST_CASE("codec_map: refuses payloads of a wrong size and values that are not finite, in any run") {
  const CodecMap map(mixed(), all_options().back());
  const auto values = random_values(map.length());
  std::vector<float> out(values.size());
  Bytes bytes = map.encode(values, 0, {}).value();
  bytes.pop_back();
  CHECK(map.decode(bytes, 0, out).error() == Errc::bad_request);
  CHECK(map.decode({}, 0, out).error() == Errc::bad_request);
  for (const std::size_t at : {std::size_t(5), std::size_t(90'400), std::size_t(120'000), map.length() - 1}) {
    auto bad = values;
    bad[at] = std::numeric_limits<float>::quiet_NaN();
    CHECK(map.encode(bad, 0, {}).error() == Errc::bad_request);
  }
}

}  // namespace collab
