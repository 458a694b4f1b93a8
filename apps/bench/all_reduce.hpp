#pragma once
// collab-bench all-reduce and small-tensors: rounds of averaging among processes of this machine.

#include "report.hpp"
#include "workload.hpp"

#include <string>

namespace collab::bench {

struct AllReduceOrder {
  std::string name;  ///< of the sub-command
  Workload workload;
  std::size_t rounds = 1;  ///< that count, after one that does not
  Output output;
};

/// Prints the figures. Of the JSON line, over the rounds that count:
///   seconds_min, _median, _max: from "go" to the last peer's "done", in the process that started them; inputs are made
///     before, lagging groupmates served after
///   seconds_median_of_peer: of all_reduce in each peer
///   exchange_, commit_, apply_seconds_median: of the slowest peer of each round, as its report has them
///   shape: of the lines, "" on loopback. split: best or equal. ideal_seconds: what the encoded values alone take on
///     them, by that split (averaging/load_balance.hpp; on equal lines 2(n-1)/n vectors each way). line_share: of
///     seconds_median; headers of TCP, IP and TLS leave 0.955 at best. Both 0 on loopback
///   predicted_seconds_median: what peers expected from the rates that they had measured, the longest of each round
///   cpu_seconds_per_peer: user and system time of a peer's process from "go" until nobody needs it any more; a mean
///   cpu_seconds_per_peer_per_100MB: the same for 100 MB of the float32 vector
///   bytes_sent_per_peer: frames to all others before TLS, in one round; a mean
///   counted_min, views_max: both 1 when nobody was taken for lost
///   digests, equal_bytes: BLAKE2b of each peer's result of the last round
///   max_relative_error: of that result; workload.hpp defines it
///   peak_memory_bytes, descriptors: of the largest process; its vector of 4 bytes a float is in it
///   load_before, load_after: of the machine, over a minute; load_before near `processors`: it was not idle
/// A vector of few units has fewer owners than peers (LoadOptions::segment_units_min): that of small-tensors has one.
///
/// Returns the exit code: not 0 when the peers did not end with the same bytes. Throws `Failure`.
int measure_all_reduce(const AllReduceOrder& order);

}  // namespace collab::bench
