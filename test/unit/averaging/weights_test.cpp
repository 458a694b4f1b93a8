#include "averaging/weights.hpp"

#include "averaging/segment_reducer.hpp"
#include "base/frame.hpp"

#include <memory>
#include <utility>
#include <vector>

#include "support/doctest.hpp"

namespace collab::averaging {
namespace {

constexpr std::size_t kFewUnits = 4;
constexpr std::size_t kFewValues = kFewUnits * kUnitValues - 100;

wire::UnitWeight units(std::uint32_t count, std::uint64_t weight) {
  wire::UnitWeight run;
  run.units = count;
  run.weight = weight;
  return run;
}

/// Two nodes; rank 0 owns everything in one chunk.
std::shared_ptr<const Shape> shape_of_round(std::uint32_t round) {
  TensorInfo tensor;
  tensor.name = "all";
  tensor.shape = {static_cast<std::int64_t>(kFewValues)};
  Schema schema;
  schema.tensors.push_back(tensor);
  const CodecMap codecs(schema, CodecOptions::all(CodecId::float32));
  matchmaking::Group group;
  group.round = round;
  group.codec_map = codec_map_digest(codecs);
  group.chunk_units = kFewUnits;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    matchmaking::Member member;
    member.id.key[0] = static_cast<unsigned char>(rank + 1);
    member.weight_max = 100;
    member.units = rank == 0 ? kFewUnits : 0;
    group.roster.push_back(member);
  }
  return Shape::of(matchmaking::seal(std::move(group)), codecs).value();
}

SegmentReducer::Plan plan() {
  SegmentReducer::Plan made;
  made.weight_max.assign(2, 100);
  return made;
}

wire::Part part(std::uint64_t weight, std::vector<wire::UnitWeight> weights) {
  wire::Part made;
  made.weight = weight;
  made.weights = std::move(weights);
  return made;
}

}  // namespace

TEST_CASE("weights: one number everywhere, or runs of units") {
  const Weights one = 7;
  CHECK(one.at(0) == 7);
  CHECK(one.of_units({0, kFewValues}).empty());
  const Weights two(std::vector<WeightRun>{{2 * kUnitValues, 9}, {kFewValues, 5}});
  CHECK(two.at(2 * kUnitValues - 1) == 9);
  CHECK(two.at(2 * kUnitValues) == 5);
  CHECK(two.largest() == 9);
  CHECK(two.smallest() == 5);
  CHECK(two.of_units({0, kFewValues}) == std::vector{units(2, 9), units(2, 5)});
  CHECK(two.of_units({0, 2 * kUnitValues}).empty());
}

TEST_CASE("weights: what a header may tell") {
  CHECK(fit(5, {}, 4));
  CHECK(fit(5, std::vector{units(3, 6), units(1, 5)}, 4));
  CHECK(!fit(6, std::vector{units(3, 6), units(1, 5)}, 4));  // not the smallest
  CHECK(!fit(5, std::vector{units(2, 6), units(1, 5)}, 4));  // a unit is missing
  CHECK(!fit(5, std::vector{units(4, 5)}, 4));               // one run says nothing new
  CHECK(!fit(0, std::vector{units(3, 6), units(1, 0)}, 4));
  CHECK(!fit(5, std::vector{units(0xFFFFFFFF, 6), units(5, 5)}, 4));
}

TEST_CASE("reducer: where a sender was lost in the round before, its groupmate's value counts for less") {
  const auto shape = shape_of_round(2);
  const std::vector<float> ours(kFewValues, 1.0F);
  const std::vector<float> theirs(kFewValues, 3.0F);
  Contribution own;
  own.values = ours;
  own.weights = Weights(std::vector<WeightRun>{{kUnitValues, 30}, {kFewValues, 10}});
  SegmentReducer reducer(*shape, weighted_mean(), plan(), own);
  const wire::Part sent = part(10, {units(2, 10), units(2, 30)});
  const Frame frame = frame::encode(wire::Header(sent), std::as_bytes(std::span(theirs)));
  REQUIRE(reducer.add(1, sent, frame, frame::decode<wire::Header>(*frame)->payload));

  const auto averages = reducer.reduce_ready(0);
  REQUIRE(averages.size() == 1);
  const auto message = frame::decode<wire::Header>(*averages[0]);
  const auto& average = std::get<wire::Average>(message->header);
  CHECK(average.weight == 20);
  CHECK(average.weights == std::vector{units(1, 40), units(1, 20), units(2, 40)});
  SegmentResult result(*shape, 0);
  REQUIRE(result.add(average, averages[0], message->payload));
  std::vector<float> mean(kFewValues);
  result.decode_into(mean);
  CHECK(mean[0] == 1.5F);
  CHECK(mean[kUnitValues] == 2.0F);
  CHECK(mean[2 * kUnitValues] == 2.5F);
}

TEST_CASE("reducer: in the first round everybody brings one number") {
  const auto shape = shape_of_round(1);
  const std::vector<float> values(kFewValues, 1.0F);
  Contribution own;
  own.values = values;
  own.weights = 1;
  const wire::Part sent = part(5, {units(2, 6), units(2, 5)});
  const Frame frame = frame::encode(wire::Header(sent), std::as_bytes(std::span(values)));
  SegmentReducer reducer(*shape, weighted_mean(), plan(), own);
  CHECK(reducer.add(1, sent, frame, frame::decode<wire::Header>(*frame)->payload).error() == Errc::bad_request);
  CHECK(reducer.fault(1) == Fault::malformed);
}

TEST_CASE("reducer: no run is heavier than its sender can honestly be") {
  const auto shape = shape_of_round(2);
  const std::vector<float> values(kFewValues, 1.0F);
  Contribution own;
  own.values = values;
  own.weights = 1;
  const wire::Part sent = part(5, {units(3, 101), units(1, 5)});
  const Frame frame = frame::encode(wire::Header(sent), std::as_bytes(std::span(values)));
  SegmentReducer reducer(*shape, weighted_mean(), plan(), own);
  CHECK(!reducer.add(1, sent, frame, frame::decode<wire::Header>(*frame)->payload));
  CHECK(reducer.fault(1) == Fault::weight_refused);
}

}  // namespace collab::averaging
