#include "pass_peer.hpp"

#include "averaging/load_balance.hpp"
#include "averaging/shape.hpp"
#include "tensor/partition.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace collab::bench {
namespace {

constexpr std::uint64_t kWeightMax = 64 * 65;  // of a search: the sum of all weights there can be is less
constexpr Duration kFirstGroupTime = std::chrono::seconds(20);

averaging::MoshpitOptions moshpit_options(const CodecMap& codecs) {
  averaging::MoshpitOptions options;
  options.bundle = "bench/values";
  options.matchmaking.codec_map = averaging::codec_map_digest(codecs);
  options.matchmaking.values = codecs.length();
  options.matchmaking.plan = [values = codecs.length()](const auto& roster, std::uint32_t /*round*/) {
    const std::vector<averaging::MemberLoad> loads(roster.size());  // all on one machine
    matchmaking::Plan plan;
    plan.units = averaging::plan_load(loads, values, averaging::LoadOptions()).value().units;
    plan.chunk_units = chunk_units_for(plan.units);
    return plan;
  };
  options.matchmaking.weight_max = [](const PeerId&) { return kWeightMax; };
  options.all_reduce.values_are_finite = true;  // as those of a trainer are
  return options;
}

bool is_full(const averaging::RoundReport& report, std::size_t foreseen) {
  const auto whole = [&](const averaging::SegmentReport& segment) {
    return static_cast<std::size_t>(std::popcount(segment.spoken_for)) == foreseen;
  };
  return report.outcome == averaging::RoundReport::Outcome::committed && report.peers.size() == foreseen &&
         std::all_of(report.segments.begin(), report.segments.end(), whole);
}

}  // namespace

PassPeer::PassPeer(averaging::Context context, matchmaking::Context searches, const CodecMap& codecs)
    : clock_(context.clock),
      self_(context.identity.id()),
      moshpit_(context, searches, codecs, moshpit_options(codecs)) {}

Task<Result<PassFigures>> PassPeer::pass(PassOrder order, std::span<float> values) {
  averaging::Pass pass;
  pass.grid.radices = order.radices;
  const auto schedule = std::make_shared<const matchmaking::Schedule>(pass.grid, order.peers, order.number);
  pass.schedule = schedule;
  pass.epoch = order.number;
  pass.weight_max = order.weight_max;
  pass.deadline = clock_.now() + kFirstGroupTime;
  averaging::PassReport report;
  const auto first = co_await moshpit_.begin(std::move(pass));
  Work none_told;
  const std::uint64_t weight = first ? order.weight : 0;
  const auto outcome = co_await moshpit_.finish(values, weight, std::move(none_told), report);
  if (!outcome) co_return outcome.error();
  PassFigures figures;
  figures.rounds = order.radices.size();
  for (const averaging::RoundReport& round : report.rounds)
    figures.rounds_full += is_full(round, schedule->group(self_, round.round).size());
  co_return figures;
}

}  // namespace collab::bench
