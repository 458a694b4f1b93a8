#pragma once
// collab-bench kill, freeze and any-moment: what a fault in the middle of a round does to the other peers of its group.

#include "report.hpp"
#include "workload.hpp"

#include <string>

namespace collab::bench {

struct FaultOrder {
  std::string name;        ///< of the sub-command
  Workload workload;       ///< any-moment: its `peers` are the most of a group, from 2 on
  std::size_t rounds = 1;  ///< with a fault, each in a group of new processes
  Output output;
};

/// kill: a peer, all of which own a segment, is killed (SIGKILL) when half of the time of a round has passed. Figures:
///   fault_free_seconds_: rounds of all before, as all-reduce measures them
///   seconds_: of the others' round, from "go" to the last "done"; limit_seconds: 2 x the fault-free median + 0.5 s
///   noticed_seconds_: from the signal until the last of the others had lost its connection, seen once a millisecond
///   next_seconds_: of the round that the others make next
///   committed: rounds in which all others committed; all_or_nothing: in which no two results, and no half of one, were
/// freeze: the same with SIGSTOP and, a second after the others are done, SIGCONT. thawed_: how the frozen one ended
/// its round; next_seconds_: of all, it among them; the limit is 5 s. any-moment: groups of 2, 3, ... peers in turn;
/// who is killed and when, within 1.1 of the round's time, is drawn. Returns the exit code: not 0 when a round was not
/// all or nothing, or a group of three or more did not commit.
int measure_faults(const FaultOrder& order);

}  // namespace collab::bench
