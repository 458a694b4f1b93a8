#pragma once
// One epoch: from samples to a step, all peers together. The way of an epoch in one function.

#include "averaging/all_reduce.hpp"
#include "averaging/moshpit.hpp"
#include "data/leases.hpp"
#include "epoch/bridge.hpp"
#include "epoch/delay.hpp"
#include "epoch/legacy.hpp"
#include "epoch/owed_keeper.hpp"
#include "epoch/report.hpp"
#include "epoch/seating_keeper.hpp"
#include "matchmaking/matchmaker.hpp"
#include "progress/tracker.hpp"

#include <cstdint>
#include <functional>
#include <span>

namespace collab::epoch {

struct EpochContext {
  averaging::Context averaging;
  matchmaking::Matchmaker& matchmaker;  ///< of the one group of everybody
  averaging::Moshpit& moshpit;          ///< in its place as soon as there are more peers than one group holds
  const SeatingKeeper& seats;
  Legacy& legacy;  ///< knows from here when what is gathered is in a round
  progress::Tracker& tracker;
  Bridge& bridge;
  const CodecMap& codecs;
  OwedKeeper& owed;
  asio::any_io_executor workers;   ///< of steps that the trainer does not wait for
  data::Leases* leases = nullptr;  ///< null: this peer's samples are no units
};

struct EpochOptions {
  std::uint64_t epoch = 0;
  /// Over the grid in force, on which this peer has a place; empty: one group of everybody. Samples, weights and
  /// deadline are filled in here.
  std::optional<averaging::Pass> pass;
  /// Of the one group. From twice so many peers on, none holds more than half of them: nobody looks for it, but waits
  /// for a grid.
  std::size_t group_size_max = matchmaking::kGroupSizeMax;
  std::uint64_t target_batch = 0;
  std::uint64_t weight_min = 0;                  ///< samples below which a round does not commit
  std::size_t values = 0;                        ///< length of the flat gradient
  Duration patience = std::chrono::minutes(10);  ///< for a group; then the search starts anew
  /// For the microbatch in hand when the group stands; then the sum is handed over without it. Groupmates know it as
  /// SuspicionOptions::hand_over.
  Duration cut_wait = std::chrono::seconds(2);
  /// An epoch at which the majority holds another state, when that is known and could not be fetched; else the search
  /// ends as soon as it shows: what is computed on other parameters than everybody's harms their average.
  std::optional<std::uint64_t> diverged;
  Delay delay = Delay::none;
  averaging::AllReduceOptions all_reduce;
  /// Whether the role that the search began with is this peer's still: who only dials must not lead, nor may a group
  /// lack its owners because they searched as clients. Empty: it is.
  std::function<bool()> role_stands;
  /// Whether somebody has the result of this epoch though most are not past it: CatchUp::is_over. Empty: nobody asks.
  std::function<Task<bool>()> is_over;
  /// Whether somebody fetches the state of this epoch to take part: who is alone then takes no step without it, for a
  /// step that is taken alone leaves no result that could be fetched. Empty: nobody does.
  std::function<bool()> is_joined = {};
  std::function<void(std::span<const float>, std::uint64_t)> on_parts = {};  ///< as MemberOptions::on_parts
};

/// Waits until the swarm has its target batch, averages with the group or over the grid, and has the trainer take the
/// step. However it ends, the caller releases the bridge: the trainer goes on when its user can know what has happened.
///
/// A trainer that does not reach its border within `cut_wait` hands over what it has, be it nothing (it listens then),
/// and commits in time with its group. The step waits for the border, as parameters stand still during a microbatch;
/// that microbatch belongs to the epoch before and is dropped. A peer that is the whole swarm waits for it.
///
/// With a delay the trainer goes on from the border of its hand-over (`gradients`) or of the commit (`step`), and the
/// step is taken beside it. What it computes meanwhile counts in the next epoch. It goes over to the new parameters at
/// a border: once the step is taken (`step`), or at the next hand-over (`gradients`), so that every gradient is of the
/// parameters one step before. One that misses the border of its hand-over waits as without a delay.
///
/// Errors, all with parameters unchanged and the samples back in the accumulator: a matchmaking::NoGroup; `late` when
/// the round failed; `stale` when the others committed without this peer; `gone` when the trainer has left. A step that
/// came to nothing is none: `report.finite` tells it. `report` is filled in either case.
Task<Result<>> run_epoch(EpochContext node, EpochOptions options, EpochReport& report);

}  // namespace collab::epoch
