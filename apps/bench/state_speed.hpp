#pragma once
// collab-bench state: how soon joiners have the state of a run.

#include "report.hpp"
#include "workload.hpp"

namespace collab::bench {

struct StateOrder {
  Workload workload;        ///< the state is its vector as float32; of its `peers` the first are
  std::size_t joiners = 1;  ///< fewer than all: the others hold it
  std::size_t rounds = 5;   ///< that count, after one to warm up, in which donors hash the state
  Output output;
};

/// All joiners begin at once, and fetch the whole state from all donors and from each other, each chunk checked. Of the
/// JSON line, over the rounds that count:
///   seconds_median, _max: from "go" until the last joiner had it; one_joiner_seconds_median: over all of them
///   bytes: of the state; bytes_per_s: of a joiner, by seconds_median
///   line_share: of what the joiner's line down, or its share of all lines up, can carry in whole packets; headers of
///     TCP, IP and TLS leave 0.955 at best; 0 on loopback
///   cpu_ns_per_byte: processor time of all processes, for each byte that a joiner has received
///   donors_mean: that gave a joiner some of it, other joiners among them
///   whole: every byte was the donors' each time
/// Returns the exit code: not 0 when something was not whole. Throws `Failure(machine)` when a peer fails.
int measure_state(const StateOrder& order);

}  // namespace collab::bench
