#include "epoch/member_options.hpp"

#include <vector>

#include "support/doctest.hpp"

namespace collab::epoch {
namespace {

CodecMap map_of(CodecId codec) {
  const Schema schema = {{{"all", DType::float32, {std::int64_t(256 * kUnitValues)}, TensorRole::gradient}}};
  return {schema, CodecOptions::all(codec)};
}

/// Lines up of 1, 1, 4 and 4 MB/s.
std::vector<matchmaking::Applicant> roster() {
  std::vector<matchmaking::Applicant> out(4);
  for (unsigned i = 0; i < out.size(); ++i) {
    out[i].id.key[0] = static_cast<unsigned char>(i + 1);
    out[i].up_bytes_per_s = i < 2 ? 1'000'000 : 4'000'000;
    out[i].down_bytes_per_s = 20'000'000;
  }
  return out;
}

std::vector<std::uint32_t> planned(double part_bytes_per_value) {
  std::vector<averaging::MemberLoad> loads;
  for (const auto& peer : roster())
    loads.push_back({static_cast<double>(peer.up_bytes_per_s), static_cast<double>(peer.down_bytes_per_s), true, true});
  averaging::LoadOptions options;
  options.part_bytes_per_value = part_bytes_per_value;
  // what is believed of lines: twice the median at most
  for (auto& load : loads) load.up_bytes_per_s = std::min(load.up_bytes_per_s, 2e6);
  return averaging::plan_load(loads, 256 * kUnitValues, options).value().units;
}

}  // namespace

TEST_CASE("member options: rounds are planned with the bytes that they send, and after round 1 parts are as results") {
  const MemberOptions sparse(map_of(CodecId::topk));
  CHECK(load_options(sparse, 1).part_bytes_per_value == 0.125);
  CHECK(load_options(sparse, 1).result_bytes_per_value == 2);
  for (const std::uint32_t round : {2U, 3U}) {
    CHECK(load_options(sparse, round).part_bytes_per_value == 2);
    CHECK(load_options(sparse, round).result_bytes_per_value == 2);
  }
  const averaging::ClaimedRates rates;
  const auto plan = planner(sparse, rates, nullptr);
  REQUIRE(planned(0.125) != planned(2));
  CHECK(plan(roster(), 1).units == planned(0.125));
  CHECK(plan(roster(), 2).units == planned(2));

  const MemberOptions dense(map_of(CodecId::float16));
  for (const std::uint32_t round : {1U, 2U}) {
    CHECK(load_options(dense, round).part_bytes_per_value == 2);
    CHECK(planner(dense, rates, nullptr)(roster(), round).units == planned(2));
  }
}

TEST_CASE("member options: a leader plans with coarse codecs when the round by the others would take too long") {
  const MemberOptions options(map_of(CodecId::float16));
  const averaging::ClaimedRates rates;
  Duration told{};
  const auto longer_than = [&told](Duration limit) {
    return [&told, limit](Duration round) {
      told = round;
      return round > limit;
    };
  };
  CHECK(planner(options, rates, longer_than(Duration(0)))(roster(), 1).coarse);
  REQUIRE(told > Duration(0));
  CHECK(!planner(options, rates, longer_than(told))(roster(), 1).coarse);
  CHECK(!planner(options, rates, nullptr)(roster(), 1).coarse);
}

}  // namespace collab::epoch
