#pragma once
// collab-bench matchmaking: how soon a group begins once all have declared.

#include "report.hpp"
#include "workload.hpp"

#include <string>

namespace collab::bench {

struct MeetingOrder {
  Workload workload;  ///< its `peers`: all are one group
  std::size_t rounds = 1;
  Output output;
};

/// Rounds under a new key each, so that nobody stands together from before: peers declare at moments of one second, as
/// their trainers would, through the production directory of one of them. Of the JSON line, over all rounds and peers:
///   seconds_median, _p99, _max: from the moment when the last of the group declared, which is when it told its samples
///     and the target batch was full, until this peer had its group; by the steady clock that all processes share
///   full_groups: rounds in which everybody was in one group with one id
/// Returns the exit code: not 0 when a group was not full.
int measure_meeting(const MeetingOrder& order);

}  // namespace collab::bench
