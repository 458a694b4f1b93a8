#pragma once
// A pass over the grid as all of its peers foresee it, and what is looked for in each of its rounds.

#include "averaging/committed_round.hpp"
#include "base/clock.hpp"
#include "base/task.hpp"
#include "matchmaking/group_key.hpp"
#include "matchmaking/terms.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace collab::averaging {

/// What the peers of one cell commit in round 1, as one of them asks the others for it that was not there.
struct WantedFirst {
  std::uint64_t epoch = 0;
  Digest topic{};                                        ///< Group::topic
  std::function<std::vector<PeerId>()> cell;             ///< who may have it, as far as they are known by now
  std::function<bool(const matchmaking::Group&)> is_it;  ///< on any thread; owns what it needs
};

/// All but `deadline` is equal on all its peers.
struct Pass {
  matchmaking::Grid grid;
  std::shared_ptr<const matchmaking::Schedule> schedule;  ///< of that grid and `epoch`
  /// The whole id of a peer of which the schedule knows the seat only, when it is known by now, and its role: asked
  /// anew for each round, for who wrote the seats down may have known peers of whom nothing has come here yet. Empty:
  /// the schedule knows them, and all can be dialled.
  std::function<matchmaking::Expected(const PeerId&)> look_up;
  /// Who leads cells in which nobody can be dialled. Empty: nobody does.
  std::function<std::vector<PeerId>()> auxiliaries;
  /// Whether the schedule is the one in force. Empty: nobody knows, and each round is tried once.
  std::function<bool()> stands;
  /// Whether others have the result already. Empty: nobody knows.
  std::function<bool()> overtaken;
  /// Asks until somebody has it. Cancelled when it is of no use any more. Empty: nobody is asked.
  std::function<Task<std::shared_ptr<const CommittedRound>>(WantedFirst)> fetch_first;
  /// A first group's result is here: until the epoch is over others of its cell may ask for it. Empty: none do.
  std::function<void(std::shared_ptr<const CommittedRound>)> keep_first;
  std::uint64_t epoch = 0;
  std::uint64_t target_samples = 0;  ///< round 1 begins then; 0: as soon as everybody is there
  std::uint64_t weight_min = 0;      ///< the last round must not commit with fewer
  std::uint64_t weight_max = 0;  ///< nobody brings more to round 1; 0: kTargetsPerPeer x target_samples, or no bound
  TimePoint deadline{};          ///< of the search for the first group
};

/// What keys of groups begin with, run/name: at most 76 bytes for run ids of up to 64.
std::string bundle_of(const std::string& run_id);

/// Its rounds as searches are told of them.
std::string key_in(const Pass& pass, const std::string& bundle, std::uint32_t round, const matchmaking::Digits& digits);

/// What everybody in the cell `cell` of that round looks for: all of them are expected. Who is one of them leaves
/// itself out, and says what it brings; `deadline` is the caller's to set.
matchmaking::Wanted wanted_in(const Pass& pass, const std::string& bundle, std::uint32_t round,
                              const std::vector<PeerId>& cell);

/// For who is in the cell of `self` in round 1. A group of it is of its peers, and auxiliaries, and needs more than
/// half of them for a commit.
WantedFirst first_of(const Pass& pass, const std::string& bundle, const PeerId& self);

/// Whether the sums of `group` run in the grid's order, and whether who claims a common past has come from one cell,
/// and the other way round, and nobody sits there twice: else it ends with other bytes than its neighbours. Auxiliaries
/// bring nothing to a sum.
bool as_foreseen(const matchmaking::Group& group, const matchmaking::Schedule& schedule);

/// The options of searches in that round, from those of a search for the one group of everybody.
matchmaking::MatchmakerOptions search_options(matchmaking::MatchmakerOptions options, std::uint32_t round);

}  // namespace collab::averaging
