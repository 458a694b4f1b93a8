#pragma once
// What a committed round counted, read from its results: the same wherever they are held.

#include "averaging/committed_round.hpp"
#include "averaging/report.hpp"

#include <span>

namespace collab::averaging {

/// Fills in `result`, `weight`, `weight_runs`, `segments`, and of each of `report.peers`, which are there, what of it
/// was counted. `results`, of the manifest in its order, null where they are not held here; `owners`: who served them.
void describe_results(const Shape& shape, const wire::Manifest& manifest, std::span<const SegmentResult* const> results,
                      std::span<const Rank> owners, RoundReport& report);

/// Of a round that this peer was told of: nothing is known of its views, lines and times.
RoundReport report_of(const CommittedRound& round);

}  // namespace collab::averaging
