#pragma once
// What one epoch was: who averaged, behind how many samples, how long it took.

#include "averaging/report.hpp"
#include "base/duration.hpp"
#include "data/ledger.hpp"
#include "matchmaking/group.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace collab {
class Log;
class Metrics;
}  // namespace collab

namespace collab::averaging {
class CommittedRound;
}

namespace collab::epoch {

struct EpochReport {
  std::uint64_t epoch = 0;
  std::optional<matchmaking::Group>
      group;  ///< the last one; empty when this peer was the whole swarm, found none, or failed on a grid
  std::uint64_t weight = 0;      ///< samples behind the step
  std::uint64_t own_weight = 0;  ///< of it, this peer's
  std::uint64_t left_out = 0;    ///< own samples that were handed over, and the step was made without: in no epoch
  std::string left_out_why;      ///< in words
  std::uint64_t late = 0;        ///< own samples whose microbatch ended after the hand-over: dropped, and in no epoch
  std::uint64_t overflowed = 0;  ///< own samples of a failed round that are lost: their sum is not finite
  data::Ledger::Added work;      ///< what the step entered into the ledger
  bool finite = true;            ///< false: the step came to nothing, see Trainer::step
  Digest parameters{};           ///< hash of the parameters after the step
  Digest ledger{};               ///< and of the ledger
  double loss = 0;               ///< own training loss of the epoch; NaN: unknown
  averaging::RoundReport round;  ///< the last one
  std::shared_ptr<const averaging::CommittedRound> proof;  ///< of it; null when this peer was the whole swarm
  std::vector<std::shared_ptr<const averaging::CommittedRound>> pass;  ///< rounds on a grid; empty with one group
  Duration gathering{};                                                ///< until the group stood
  Duration handing_over{};  ///< until the trainer reached the border of its microbatch, or `cut_wait` was over
  Duration averaging{};
  Duration stepping{};
};

/// A committed epoch as metrics and as a line of the log.
void tell_epoch(const EpochReport& report, Metrics& metrics, Log& log);

}  // namespace collab::epoch
