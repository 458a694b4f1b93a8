#include "averaging/describe.hpp"

#include <algorithm>
#include <vector>

namespace collab::averaging {
namespace {

/// The weights behind the values of `range`, joined with the last run where they are equal.
void append(std::vector<WeightRun>& runs, Range range, const SegmentResult::Chunk& chunk) {
  for (std::size_t unit = 0; unit < units_in(range); ++unit) {
    const std::uint64_t end = std::min<std::uint64_t>(range.begin + (unit + 1) * kUnitValues, range.end());
    const std::uint64_t weight = weight_of_unit(chunk.weight, chunk.weights, unit);
    if (!runs.empty() && runs.back().weight == weight) {
      runs.back().end = end;
    } else {
      runs.push_back({end, weight});
    }
  }
}

/// Everybody whose values these parts are: members of one previous group hold the same.
Ranks spoken_for(Ranks senders, const Members& members) {
  Ranks ranks = 0;
  for (; senders != 0; senders &= senders - 1) ranks |= members.previous[first(senders)];
  return ranks;
}

}  // namespace

void describe_results(const Shape& shape, const wire::Manifest& manifest, std::span<const SegmentResult* const> results,
                      std::span<const Rank> owners, RoundReport& report) {
  report.result = manifest_digest(manifest);
  report.weight = ~std::uint64_t(0);
  std::vector<WorkOfSenders> named;
  for (std::size_t index = 0; index < results.size(); ++index) {
    const SegmentResult* result = results[index];
    if (result == nullptr) continue;
    named.push_back(result->work());
    const Rank name = shape.members.segments[index];
    Ranks senders = ~Ranks(0);
    Ranks covered = ~Ranks(0);
    for (std::size_t i = 0; i < result->chunks().size(); ++i) {
      const auto& chunk = result->chunks()[i];
      const Range range = shape.partition.chunk(name, i);
      senders &= chunk.senders;
      covered &= spoken_for(chunk.senders, shape.members);
      for (Ranks rest = chunk.senders; rest != 0; rest &= rest - 1)
        report.peers[first(rest)].counted +=
            static_cast<double>(range.size) / static_cast<double>(shape.partition.length());
      append(report.weight_runs, range, chunk);
    }
    const Ranks overlapping = result->overlapping();
    for (Ranks rest = overlapping; rest != 0; rest &= rest - 1) report.peers[first(rest)].fault = Fault::overlap;
    report.segments.push_back({owners[index], senders, covered, overlapping, result->weight()});
    report.weight = std::min(report.weight, result->weight());
  }
  if (report.segments.empty()) report.weight = 0;
  const RoundWork work = attribute(shape.members, named);
  for (std::size_t rank = 0; rank < report.peers.size(); ++rank) report.peers[rank].work = work.by_rank[rank].count();
}

RoundReport report_of(const CommittedRound& round) {
  RoundReport report;
  report.group = round.group().id;
  report.epoch = round.group().epoch;
  report.round = round.group().round;
  report.outcome = RoundReport::Outcome::committed;
  for (const auto& member : round.group().roster) {
    PeerReport& peer = report.peers.emplace_back();
    peer.id = member.id;
    peer.role = member.role;
  }
  std::vector<const SegmentResult*> results;
  for (const SegmentResult& result : round.results()) results.push_back(&result);
  describe_results(round.shape(), round.proof().manifest, results, round.shape().members.segments, report);
  return report;
}

}  // namespace collab::averaging
