#pragma once
// collab-bench transport and relay: what one connection carries, or a circuit through a relay, and how long small
// questions take beside it.

#include "report.hpp"
#include "workload.hpp"

#include <string>

namespace collab::bench {

struct TransportOrder {
  Workload workload;  ///< of it the lines and the seed; two peers, or three with a relay
  double seconds = 5;
  bool both_ways = false;
  std::size_t frame_bytes = 256 * 1024;
  Output output;
};

/// One peer sends frames of class bulk to the other, as fast as these are taken, or each to the other; the first asks
/// the other a question of class control every 20 ms. The first second does not count. Of the JSON line:
///   bytes_per_s: received in frames; of both ways the slower one
///   line_share: of what the line carries in whole packets; 0 on loopback
///   ns_per_byte: processor time of both processes, for each byte that one of them has received
///   relay_ns_per_byte: the same of the relay alone; 0 without one
///   quota_share: bytes_per_s of what the relay allows; 0 without a quota
///   answer_median_s, answer_p99_s, answer_max_s: of the questions
/// Returns the exit code. Throws `Failure(machine)` when a peer fails.
int measure_transport(const TransportOrder& order);

}  // namespace collab::bench
