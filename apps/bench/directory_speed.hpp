#pragma once
// collab-bench directory: how soon a record is stored, found, and seen by everybody who watches.

#include "report.hpp"
#include "workload.hpp"

namespace collab::bench {

struct DirectoryOrder {
  Workload workload;        ///< of it the number of peers, the lines and the seed
  std::size_t rounds = 50;  ///< records that each peer writes
  double every_s = 0.25;    ///< seconds between two of one peer: a storer takes no more than 5 a second of one owner
  Output output;
};

/// All peers write under one key that all of them watch; the first peer is the server, as the coordinator of a young
/// run is. Of the JSON line:
///   stored_seconds_median, _p99, _max: until more than half of the servers had a record
///   found_seconds_: until all records of the key were read, right after
///   seen_seconds_: from the moment a record was written until another peer's watch had it, over all others; by the
///     steady clock that all processes share. A version that a newer one has overtaken there is not counted
///   missing: readings that did not have the reader's own last record
///   server_cpu_s, peer_cpu_s: processor time a second of the server's process, and of the others on average
/// Returns the exit code: not 0 when something was missing. Throws `Failure(machine)` when a peer fails.
int measure_directory(const DirectoryOrder& order);

}  // namespace collab::bench
