#pragma once
// collab-bench coordinator: what hosting a run costs the machine that does it.

#include "report.hpp"

#include <cstdint>
#include <string>

namespace collab::bench {

struct HostingOrder {
  std::size_t peers = 200;       ///< beside the coordinator
  double seconds = 60;           ///< that are measured, after all have joined
  double epoch_seconds = 60;     ///< the peers of a run of volunteers make a step in about so long
  std::uint64_t dashboards = 1;  ///< open in browsers: they follow the run
  Output output;
};

/// Prints the figures; progress goes to stderr. A coordinator, as a process of its own with its dashboard, hosts a run;
/// this process holds all its peers: real nodes with keys, connections over TLS on loopback, directory and progress
/// records, which say that samples are gathered, but nobody trains. Of the JSON line:
///   cpu_share: processor time of the coordinator per second of the measured time; 1 is a whole core
///   cpu_share_joining: the same from the first join until all are there
///   peak_memory_bytes: of the coordinator; descriptors: that it has open at the end
///   dashboard_bytes: that one dashboard received in the measured time
///   joined_seconds: until all peers were members
///   load_before, load_after: of the machine, over a minute
///
/// Returns the exit code. Throws `Failure`; `interrupted` after Ctrl+C.
int measure_hosting(const HostingOrder& order);

}  // namespace collab::bench
