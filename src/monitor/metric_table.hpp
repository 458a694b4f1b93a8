#pragma once
// What this node tells Prometheus: the names, and those values that follow from the view of the swarm.

#include "base/metrics.hpp"
#include "monitor/swarm_view.hpp"

namespace collab::monitor {

/// Gives every name a line of help. Names that nobody counts stay invisible.
void describe_metrics(Metrics& metrics);

/// Sets the gauges of epoch, batch, loss, peers, checkpoint and clock. An unknown value is not a number. Roles and
/// reachabilities that we do not know count as "other": strangers choose them, and must not make series.
void set_swarm_gauges(Metrics& metrics, const SwarmView& view);

/// Counts a round and the duration of its phases: once for each.
void count_round(Metrics& metrics, const RoundView& round);

/// Sets `process_*`: CPU seconds, memory and descriptors of this process.
void set_process_gauges(Metrics& metrics);

}  // namespace collab::monitor
