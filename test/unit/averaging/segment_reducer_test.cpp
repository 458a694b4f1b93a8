#include "averaging/segment_reducer.hpp"

#include "base/frame.hpp"
#include "base/random.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "support/doctest.hpp"

namespace collab::averaging {
namespace {

constexpr std::size_t kUnits = 3;
constexpr std::size_t kValues = kUnits * kUnitValues - 100;

std::shared_ptr<const Shape> shape_of(std::size_t peers, std::vector<std::uint8_t> order = {},
                                      CodecId codec = CodecId::float32) {
  TensorInfo tensor;
  tensor.name = "all";
  tensor.shape = {static_cast<std::int64_t>(kValues)};
  Schema schema;
  schema.tensors.push_back(tensor);
  CodecOptions options = CodecOptions::all(codec);
  options.coarse_values_min = 0;
  const CodecMap codecs(schema, options);
  matchmaking::Group group;
  group.codec_map = codec_map_digest(codecs);
  group.chunk_units = 1;
  for (std::size_t rank = 0; rank < peers; ++rank) {
    matchmaking::Member member;
    member.id.key[0] = static_cast<unsigned char>(rank + 1);
    member.weight_max = 100;
    member.units = rank == 0 ? kUnits : 0;
    group.roster.push_back(member);
  }
  group = matchmaking::seal(std::move(group));
  for (std::size_t rank = 0; rank < order.size(); ++rank) group.roster[rank].order = order[rank];
  return Shape::of(group, codecs).value();
}

/// Parts of one reducer at rank 0, and what it makes of them.
struct Bench {
  explicit Bench(std::shared_ptr<const Shape> with, const Rule& rule = weighted_mean(), Weights own_weights = 2,
                 std::shared_ptr<const Work> done = nullptr)
      : shape(std::move(with)), random(5) {
    for (std::size_t rank = 0; rank < shape->members.size; ++rank) {
      std::vector<float> own(kValues);
      for (float& value : own)
        value = static_cast<float>(std::ldexp(double(random.next() >> 40U) - 0x1p23, int(random.below(40)) - 40));
      values.push_back(std::move(own));
    }
    SegmentReducer::Plan plan;
    plan.weight_max.assign(shape->members.size, 100);
    plan.done = std::move(done);
    Contribution own;
    own.values = values[0];
    own.weights = std::move(own_weights);
    reducer = std::make_unique<SegmentReducer>(*shape, rule, plan, own);
  }

  Result<> send(Rank from, std::uint32_t chunk, std::uint64_t weight, const Work& work = {}) {
    const Range range = shape->partition.chunk(0, chunk);
    return send(from, chunk, weight, std::as_bytes(std::span(values[from]).subspan(range.begin, range.size)), work);
  }
  Result<> send(Rank from, std::uint32_t chunk, std::uint64_t weight, std::span<const std::byte> bytes,
                const Work& work = {}) {
    wire::Part part;
    part.chunk = chunk;
    for (const WorkRange& range : work.ranges())
      part.work.push_back({range.first, static_cast<std::uint32_t>(range.count)});
    part.weight = weight;
    const Frame frame = frame::encode(wire::Header(part), bytes);
    return reducer->add(from, part, frame, frame::decode<wire::Header>(*frame)->payload);
  }

  void collect(Ranks suspected = 0) {
    for (Frame& frame : reducer->reduce_ready(suspected)) averages.push_back(std::move(frame));
  }

  std::vector<float> result() const {
    SegmentResult result(*shape, 0);
    for (const Frame& frame : averages) {
      const auto message = frame::decode<wire::Header>(*frame);
      REQUIRE(result.add(std::get<wire::Average>(message->header), frame, message->payload));
    }
    REQUIRE(result.complete());
    std::vector<float> whole(kValues);
    result.decode_into(whole);
    return whole;
  }

  wire::Average header(std::size_t i) const {
    return std::get<wire::Average>(frame::decode<wire::Header>(*averages.at(i))->header);
  }

  std::shared_ptr<const Shape> shape;
  Random random;
  std::vector<std::vector<float>> values;
  std::unique_ptr<SegmentReducer> reducer;
  std::vector<Frame> averages;
};

class Median final : public Rule {
 public:
  std::string_view name() const noexcept override { return "median"; }
  bool streaming() const noexcept override { return false; }
  void reduce(std::span<const WeightedPart> parts, std::span<float> out) const override {
    for (std::size_t i = 0; i < out.size(); ++i) {
      std::vector<float> column;
      for (const WeightedPart& part : parts) column.push_back(part.values[i]);
      std::sort(column.begin(), column.end());
      out[i] = column[column.size() / 2];
    }
  }
};

}  // namespace

TEST_CASE("rule: the weighted mean sums in float64, in the order of the parts") {
  const std::vector<float> big(1000, 1e8F), small(1000, 1.0F), negative(1000, -1e8F);
  std::vector<float> out(1000);
  weighted_mean().reduce(std::vector<WeightedPart>{{1, big}, {1, small}, {2, negative}, {1, big}}, out);
  CHECK(out.front() == 0.2F);  // in float32 the one would drown
  CHECK(out.back() == 0.2F);
  weighted_mean().reduce(std::vector<WeightedPart>{{3, small}}, out);
  CHECK(out[500] == 1.0F);
}

TEST_CASE("rule: the mean has the bits of a plain loop, whatever the vector instructions and the length") {
  Random random(7);
  for (const std::size_t size : {1UL, 511UL, 512UL, 1024UL, 1303UL}) {
    std::vector<std::vector<float>> parts(3, std::vector<float>(size));
    for (auto& values : parts)
      for (float& value : values) value = static_cast<float>(random.uniform() * 2 - 1);
    std::vector<float> out(size), expected(size);
    weighted_mean().reduce(std::vector<WeightedPart>{{3, parts[0]}, {7, parts[1]}, {11, parts[2]}}, out);
    for (std::size_t i = 0; i < size; ++i) {
      double sum = 3 * double(parts[0][i]);
      sum += 7 * double(parts[1][i]);
      sum += 11 * double(parts[2][i]);
      expected[i] = static_cast<float>(sum / 21);
    }
    CHECK(std::memcmp(out.data(), expected.data(), size * sizeof(float)) == 0);
  }
}

TEST_CASE("reducer: the bytes do not depend on the order of arrival") {
  std::vector<std::pair<Rank, std::uint32_t>> arrivals;
  for (Rank rank = 1; rank < 5; ++rank)
    for (std::uint32_t chunk = 0; chunk < kUnits; ++chunk) arrivals.emplace_back(rank, chunk);
  std::vector<float> first;
  for (const std::uint64_t seed : test::seeds(10)) {
    Random random(seed);
    for (std::size_t i = arrivals.size(); i > 1; --i) std::swap(arrivals[i - 1], arrivals[random.below(i)]);
    Bench bench(shape_of(5));
    for (const auto& [rank, chunk] : arrivals) {
      REQUIRE(bench.send(rank, chunk, rank * 3U));
      bench.collect();
    }
    CHECK(bench.reducer->closed());
    if (first.empty()) first = bench.result();
    CHECK(bench.result() == first);
  }
  // the order of the sum is the plan's: another one rounds differently
  Bench other(shape_of(5, {4, 3, 2, 1, 0}));
  for (const auto& [rank, chunk] : arrivals) REQUIRE(other.send(rank, chunk, rank * 3U));
  other.collect();
  double largest = 0;
  for (std::size_t i = 0; i < kValues; ++i) largest = std::max(largest, std::abs(double(other.result()[i]) - first[i]));
  CHECK(largest < 1);
}

TEST_CASE("reducer: a chunk leaves as soon as all its parts are here, or their senders are suspected") {
  Bench bench(shape_of(3));
  REQUIRE(bench.send(1, 0, 7));
  bench.collect();
  CHECK(bench.averages.empty());
  CHECK(bench.reducer->awaited(0) == bit(2));
  REQUIRE(bench.send(2, 0, 1));
  bench.collect();
  REQUIRE(bench.averages.size() == 1);
  CHECK(bench.header(0).senders == 0b111);
  CHECK(bench.header(0).weight == 10);
  bench.collect(bit(2));  // the others: rank 1 still owes them
  CHECK(bench.averages.size() == 1);
  bench.collect(bit(1) | bit(2));
  REQUIRE(bench.averages.size() == 3);
  CHECK(bench.header(1).senders == 0b001);
  CHECK(bench.send(2, 1, 1).error() == Errc::stale);  // too late
}

TEST_CASE("reducer: what is wrong with a part leaves out its sender, and says why") {
  Bench bench(shape_of(4));
  CHECK(bench.send(1, 0, 101).error() == Errc::bad_request);
  CHECK(bench.reducer->fault(1) == Fault::weight_refused);
  CHECK(bench.send(1, 1, 5).error() == Errc::stale);  // for good

  REQUIRE(bench.send(2, 0, 5));
  CHECK(bench.send(2, 0, 5).error() == Errc::stale);  // the same again
  CHECK(bench.send(2, 1, 6).error() == Errc::bad_request);
  CHECK(bench.reducer->fault(2) == Fault::conflict);

  bench.values[3][4000] = std::numeric_limits<float>::infinity();
  REQUIRE(bench.send(3, 0, 5));
  bench.collect();
  CHECK(bench.reducer->fault(3) == Fault::not_finite);
  REQUIRE(bench.averages.size() == 3);  // nobody is awaited any more
  CHECK(bench.header(0).senders == 0b0001);
}

TEST_CASE("reducer: a part is written by the codec of parts, and by no other") {
  for (const CodecId parts : {CodecId::topk, CodecId::powersgd}) {
    CAPTURE(codec(parts).name());
    Bench bench(shape_of(1 + kCodecIds.size(), {}, parts));
    for (std::size_t i = 0; i < kCodecIds.size(); ++i) {
      const Rank from = static_cast<Rank>(i + 1);
      const Range range = bench.shape->partition.chunk(0, 0);
      Bytes bytes(codec(kCodecIds[i]).encoded_bytes(range));
      REQUIRE(codec(kCodecIds[i]).encode(std::span(bench.values[from]).first(range.size), 0, {}, bytes));
      CHECK(bench.send(from, 0, 5, bytes).has_value() == (kCodecIds[i] == parts));
      CHECK(bench.reducer->fault(from) == (kCodecIds[i] == parts ? Fault::none : Fault::malformed));
    }
  }
}

TEST_CASE("reducer: the last average names the work of everyone who is in some chunk, and of nobody else") {
  Bench bench(shape_of(4));
  Work crumbs({7, 2});
  crumbs.add({100, 3});
  REQUIRE(bench.send(1, 0, 5, crumbs));
  REQUIRE(bench.send(2, 0, 5));  // a free-form loop
  REQUIRE(bench.send(3, 2, 9));  // what it computed is not known yet
  bench.collect(bit(3));         // so it is in no chunk
  REQUIRE(bench.averages.size() == 1);
  CHECK(bench.header(0).senders == 0b0111);
  CHECK(bench.header(0).work.empty());
  REQUIRE(bench.send(1, 1, 5));
  CHECK(bench.send(3, 0, 9, Work({50, 9})).error() == Errc::stale);  // too late for that chunk
  REQUIRE(bench.send(3, 1, 9));
  bench.collect(bit(1) | bit(2));
  REQUIRE(bench.averages.size() == 3);
  CHECK(bench.header(1).senders == 0b1011);
  CHECK(bench.header(1).work.empty());
  CHECK(bench.header(2).senders == 0b1001);
  const auto work = from_wire(bench.header(2).work, kWorkRangesMax).value();
  CHECK(work == WorkOfSenders{{1, crumbs}, {3, Work({50, 9})}});
}

TEST_CASE("reducer: work that no honest peer names leaves out its sender") {
  Bench bench(shape_of(64));
  CHECK(bench.send(1, 0, 5, Work({0, 404})).error() == Errc::bad_request);  // more than anybody gathers
  CHECK(bench.reducer->fault(1) == Fault::malformed);
  REQUIRE(bench.send(2, 0, 5, Work({0, 5})));
  CHECK(bench.send(2, 0, 5, Work({1, 5})).error() == Errc::bad_request);
  CHECK(bench.reducer->fault(2) == Fault::conflict);
  CHECK(bench.send(3, 1, 5, Work({0, 5})).error() == Errc::bad_request);  // not in chunk 0
  CHECK(bench.reducer->fault(3) == Fault::malformed);
  Work crumbs;
  for (std::uint64_t i = 0; i <= 64; ++i) crumbs.add({2 * i, 1});
  CHECK(bench.send(4, 0, 99, crumbs).error() == Errc::bad_request);
  CHECK(bench.reducer->fault(4) == Fault::malformed);
}

TEST_CASE("result: the work of a segment is named once, by those who are in it, and is in its digest") {
  const auto shape = shape_of(2);
  const auto average = [&](std::uint32_t chunk, const WorkOfSenders& work) {
    wire::Average made;
    made.chunk = chunk;
    made.senders = 0b01;
    made.weight = 9;
    made.work = to_wire(work);
    return made;
  };
  const auto add = [&](SegmentResult& result, const wire::Average& header) {
    const Range range = shape->partition.chunk(0, header.chunk);
    const Bytes payload(shape->codecs.encoded_bytes(range));
    const Frame frame = frame::encode(wire::Header(header), payload);
    return result.add(header, frame, frame::decode<wire::Header>(*frame)->payload);
  };
  const WorkOfSenders mine{{0, Work({3, 4})}};
  SegmentResult named(*shape, 0);
  REQUIRE(add(named, average(1, mine)));
  CHECK(add(named, average(1, mine)).error() == Errc::stale);
  CHECK(add(named, average(1, {})).error() == Errc::bad_request);
  CHECK(add(named, average(0, mine)).error() == Errc::bad_request);
  REQUIRE(add(named, average(0, {})));
  REQUIRE(add(named, average(2, {})));
  CHECK(named.work() == mine);
  const auto digest_with = [&](const WorkOfSenders& work) {
    SegmentResult result(*shape, 0);
    for (std::uint32_t chunk = 0; chunk < kUnits; ++chunk)
      REQUIRE(add(result, average(chunk, chunk == 0 ? work : WorkOfSenders())));
    return result.digest();
  };
  CHECK(digest_with(mine) == named.digest());
  CHECK(digest_with({{0, Work({3, 5})}}) != named.digest());
  CHECK(digest_with({}) != named.digest());
  SegmentResult foreign(*shape, 0);
  REQUIRE(add(foreign, average(0, {{1, Work({0, 1})}})));
  REQUIRE(add(foreign, average(1, {})));
  CHECK(add(foreign, average(2, {})).error() == Errc::bad_request);  // rank 1 sent nothing
  for (const Rank nobody : {Rank(2), Rank(64), Rank(255)}) {         // 64: whose bit would be rank 0's
    CAPTURE(nobody);
    SegmentResult of_nobody(*shape, 0);
    REQUIRE(add(of_nobody, average(0, {{nobody, Work({0, 1})}})));
    REQUIRE(add(of_nobody, average(1, {})));
    CHECK(add(of_nobody, average(2, {})).error() == Errc::bad_request);
  }
  wire::Average twice = average(0, mine);
  twice.work.push_back(twice.work.front());
  CHECK(add(foreign, twice).error() == Errc::bad_request);
}

TEST_CASE("reducer: of two senders of one unit the lighter one counts for nothing, and everybody is told") {
  Bench bench(shape_of(4));
  REQUIRE(bench.send(1, 0, 5, Work({0, 5})));
  REQUIRE(bench.send(2, 0, 9, Work({4, 9})));
  REQUIRE(bench.send(3, 0, 9, Work({13, 9})));
  bench.collect(0);
  CHECK(bench.reducer->fault(1) == Fault::overlap);
  for (const Rank rank : {Rank(2), Rank(3)})
    for (std::uint32_t chunk : {1, 2}) REQUIRE(bench.send(rank, chunk, 9));
  CHECK(bench.send(1, 1, 5).error() == Errc::stale);
  bench.collect(0);
  REQUIRE(bench.averages.size() == kUnits);
  for (std::size_t chunk = 0; chunk < kUnits; ++chunk) CHECK(bench.header(chunk).senders == 0b1101);
  CHECK(bench.header(0).overlapping == 0);
  CHECK(bench.header(kUnits - 1).overlapping == 0b0010);
}

TEST_CASE("reducer: who comes late with units that are counted already stays out, however heavy it is") {
  Bench bench(shape_of(3));
  REQUIRE(bench.send(1, 0, 5, Work({0, 5})));
  bench.collect(bit(2));
  REQUIRE(bench.averages.size() == 1);
  CHECK(bench.send(2, 0, 99, Work({4, 99})).error() == Errc::stale);
  REQUIRE(bench.send(1, 1, 5));
  REQUIRE(bench.send(2, 1, 99));
  bench.collect(0);
  REQUIRE(bench.averages.size() == 2);
  CHECK(bench.header(1).senders == 0b011);
  CHECK(bench.reducer->fault(2) == Fault::overlap);
}

TEST_CASE("reducer: units that an earlier epoch has counted leave out their sender") {
  Bench bench(shape_of(3), weighted_mean(), 2, std::make_shared<const Work>(WorkRange{100, 50}));
  CHECK(bench.send(1, 0, 5, Work({149, 5})).error() == Errc::bad_request);
  CHECK(bench.reducer->fault(1) == Fault::overlap);
  CHECK(bench.send(2, 0, 5, Work({150, 5})));
}

TEST_CASE("result: no owner counts a unit twice, or both counts and refuses a sender") {
  const auto shape = shape_of(3);
  const auto add = [&](const WorkOfSenders& work, Ranks overlapping) {
    SegmentResult result(*shape, 0);
    Result<> last;
    for (std::uint32_t chunk = 0; chunk < kUnits; ++chunk) {
      wire::Average made;
      made.chunk = chunk;
      made.senders = 0b011;
      made.weight = 9;
      if (chunk == 0) made.work = to_wire(work);
      if (chunk == 0) made.overlapping = overlapping;
      const Bytes payload(shape->codecs.encoded_bytes(shape->partition.chunk(0, chunk)));
      const Frame frame = frame::encode(wire::Header(made), payload);
      last = result.add(made, frame, frame::decode<wire::Header>(*frame)->payload);
    }
    return last;
  };
  CHECK(add({{0, Work({0, 4})}, {1, Work({4, 5})}}, 0b100));
  CHECK(add({{0, Work({0, 4})}, {1, Work({3, 5})}}, 0).error() == Errc::bad_request);
  CHECK(add({{0, Work({0, 4})}, {1, Work({4, 5})}}, 0b010).error() == Errc::bad_request);
}

TEST_CASE("round work: a stand-in names what its voice named, and that is no overlap") {
  matchmaking::Group group = shape_of(4)->group;
  group.round = 2;
  group.roster[0].previous[0] = group.roster[2].previous[0] = 7;
  group.roster[1].previous[0] = 9;
  const Members members = Members::of(group);
  CHECK(work_ranges_max(members) == 256);
  const WorkOfSenders voice{{0, Work({0, 10})}, {1, Work({8, 10})}};
  const WorkOfSenders stand_in{{1, Work({8, 10})}, {2, Work({0, 10})}};
  const RoundWork work = attribute(members, {voice, stand_in});
  CHECK(work.all() == Work({0, 18}));
}

TEST_CASE("round work: of two senders of a unit, each counted by another owner, one has it, and it is there once") {
  const auto shape = shape_of(3);
  const Members& members = shape->members;
  const WorkOfSenders one_owner{{0, Work({0, 4})}, {2, Work({20, 4})}};
  const WorkOfSenders other_owner{{1, Work({2, 6})}, {2, Work({20, 4})}};  // rank 0 was late there
  const RoundWork work = attribute(members, {one_owner, other_owner});
  CHECK(work.all().count() == 12);
  CHECK(work.by_rank[0].count() + work.by_rank[1].count() + work.by_rank[2].count() == 12);
}

TEST_CASE("wire: the work of the largest group in the most crumbs fits a header") {
  WorkOfSenders work;
  for (Rank rank = 0; rank < matchmaking::kGroupSizeMax; ++rank)
    for (std::uint64_t i = 0; i < kWorkRangesMax; ++i)
      work[rank].add({(std::uint64_t(1) << 61U) + (i << 33U), ~std::uint32_t(0)});
  wire::Average average;
  average.senders = ~Ranks(0);
  average.weight = ~std::uint64_t(0);
  average.work = to_wire(work);
  const Frame frame = frame::encode(wire::Header(average));
  const auto back = frame::decode<wire::Header>(*frame);
  REQUIRE(back);
  CHECK(from_wire(std::get<wire::Average>(back->header).work, kWorkRangesMax).value() == work);
}

TEST_CASE("reducer: weights of nothing make averages of nothing") {
  Bench bench(shape_of(2), weighted_mean(), 0);
  bench.collect(bit(1));
  CHECK(bench.averages.size() == 3);  // we were heard, with nothing
  CHECK(bench.header(0).weight == 0);
  CHECK(bench.header(0).senders == 0);
}

TEST_CASE("reducer: where nobody has a weight there is no mean, and who is alone there counts for nothing") {
  Bench bench(shape_of(2), weighted_mean(), Weights({{kUnitValues, 0}, {kValues, 5}}));
  bench.collect(bit(1));
  CHECK(bench.reducer->fault(0) == Fault::not_finite);
  REQUIRE(bench.averages.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(bench.header(i).senders == 0);
}

TEST_CASE("reducer: a rule that needs whole segments gets them, and only complete ones") {
  const Median median;
  Bench bench(shape_of(4), median);
  for (std::uint32_t chunk = 0; chunk < kUnits; ++chunk) {
    REQUIRE(bench.send(1, chunk, 1));
    REQUIRE(bench.send(2, chunk, 1));
    bench.collect();
  }
  REQUIRE(bench.send(3, 0, 1));
  CHECK(bench.averages.empty());
  bench.collect(bit(3));  // incomplete: left out of every chunk
  REQUIRE(bench.averages.size() == kUnits);
  CHECK(bench.header(0).senders == 0b0111);
  const auto result = bench.result();
  for (const std::size_t i : {std::size_t(0), std::size_t(5000), kValues - 1}) {
    std::vector<float> column = {bench.values[0][i], bench.values[1][i], bench.values[2][i]};
    std::sort(column.begin(), column.end());
    CHECK(result[i] == column[1]);
  }
}

}  // namespace collab::averaging
