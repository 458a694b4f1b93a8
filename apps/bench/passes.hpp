#pragma once
// collab-bench moshpit: passes over a grid of small groups, matchmaking included.

#include "report.hpp"
#include "workload.hpp"

namespace collab::bench {

struct PassesOrder {
  Workload workload;  ///< its `peers`: all of the grid
  std::size_t group_size = 4;
  std::size_t passes = 1;
  Output output;
};

/// Passes with inputs of their own, one after the other. Their groups are found by the production matchmakers, each
/// peer in a process of its own; who knows whom is clear from the start, as it is in a run once peers have been seen.
/// Of the JSON line, over all passes:
///   grid: its radices, as "4x4"; rounds: of all passes
///   seconds_first, _median, _max: of a pass, from "go" to the last peer's "done"
///   seconds_per_round_median: of the median pass, over the rounds of the grid
///   seconds: of all passes together
///   peer_rounds, peer_rounds_full: rounds of all peers; those of them that committed in a group of all who belonged to
///     it, with the values of each
///   digests, equal_bytes, max_relative_error: of the last pass; workload.hpp defines the latter, over all peers
/// Returns the exit code: not 0 when a round was not full, or peers ended with other bytes. Throws `Failure`.
int measure_passes(const PassesOrder& order);

}  // namespace collab::bench
