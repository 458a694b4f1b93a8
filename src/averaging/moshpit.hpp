#pragma once
// A pass over the Moshpit grid: rounds in changing groups, after which everybody holds the mean of all (Moshpit SGD,
// arXiv 2103.03239; the grid is matchmaking/group_key.hpp's).
//
// After a round its members hold equal bytes, so in the next group one of them is the voice of all, with the sum of
// their weights. If nobody is lost, d rounds so give the exact weighted mean of everybody, in the same bytes
// everywhere, for any number of peers.

#include "averaging/all_reduce.hpp"
#include "averaging/first_groups.hpp"
#include "averaging/pass.hpp"
#include "matchmaking/matchmaker.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace collab::averaging {

struct MoshpitOptions {
  std::string bundle;  ///< run/name, at most 76 bytes: what keys of groups begin with
  /// As for a search of round 1; the key is the pass's to choose, and later rounds have a bound on weight of their own.
  matchmaking::MatchmakerOptions matchmaking;
  AllReduceOptions all_reduce;
  /// From round 2 on, for a group to be found: others come from groups that may have been slower. Of a pass that knows
  /// whether it `stands`: for a search of which nobody says that it is in vain.
  Duration patience = std::chrono::seconds(20);
  /// So long a group is looked for when others have the result of the pass already, or half of what the last round
  /// took if that is longer; then it is fetched.
  Duration overtaken_max = std::chrono::seconds(2);
  /// So long groupmates of a first round that failed here are asked, when the pass is over, whether they committed it.
  Duration inquiry_max = std::chrono::seconds(2);
};

struct PassReport {
  std::vector<RoundReport> rounds;  ///< those that found a group, failed ones too
  /// This peer's own values are part of what its first group holds, and no later group left that out for units that
  /// were counted already, as far as this peer's rounds, the units of the result and, of a whole pass whose first round
  /// failed here, the groupmates of that one show. After a pass that failed here they may so be part of what others
  /// apply.
  bool counted = false;
  bool overlapped = false;  ///< if not: for that reason
};

struct PassOutcome {
  std::vector<Outcome> rounds;  ///< committed ones, in order; the last one's bytes are the result, and its proof tells
  std::uint64_t weight = 0;     ///< samples behind it, the smallest of a value
  Work work;                    ///< units of work behind it, of the whole swarm: those of the last round
};

/// The passes of one peer, one after the other. A group search for each round lasts as long as this: whoever meets
/// again under the same key in the next epoch need not look for each other.
///
/// A pass is applied whole or not at all. Parameters must stay equal in the whole swarm, and the mean of a first group
/// is another one in every group: so nothing of a pass that is not complete *here* is used, and the caller keeps its
/// own samples. Complete is a last round that committed, with values of every cell that the grid sends to it, each of
/// them itself with values of every cell that the grid had sent to it. Whoever misses a round only receives (weight 0)
/// until it has the result of a whole group again. A cell makes a group only with more than half of its peers: there
/// are never two.
///
/// A round that came to nothing in its whole cell, or lacked a voice, is tried again with the same values, as long as
/// the pass stands; and from round 2 on no group begins without a voice of every cell, whose round before may be on
/// slower lines. But who was counted in a first group, or has signed for its result and does not know what came of it,
/// is in no other one of that grid and epoch: so whoever ends with a whole result of this grid has the same bytes, and
/// each sample once. Who has no result of its first group, for whatever reason, asks the others of its cell, and once
/// one of them hands it on speaks for the cell in round 2, unless that is over. What ends a pass in vain is another
/// grid (the own samples go on to that), or others' result, which is fetched; then the own samples are dropped if
/// `PassReport::counted`, like those of any round that was missed.
///
/// Thread safety: none; belongs to the node's loop. One pass at a time. Memory while it runs: one more vector than
/// all_reduce() needs. `leave()` or `stop()` must have returned before it is destroyed, unless begin() was never
/// called.
class Moshpit {
 public:
  /// `codecs` and what both contexts refer to outlive it.
  Moshpit(Context context, matchmaking::Context searches, const CodecMap& codecs, MoshpitOptions options);
  ~Moshpit();
  Moshpit(const Moshpit&) = delete;
  Moshpit& operator=(const Moshpit&) = delete;

  /// For the leader of the first group; see matchmaking::Matchmaker. What is told before the first begin() is lost.
  void samples(std::uint64_t epoch, std::uint64_t own_total);
  /// Of all peers that are not in `schedule->group(self, 1)`.
  void samples_elsewhere(std::uint64_t total);
  void bandwidth(std::uint64_t up_bytes_per_s, std::uint64_t down_bytes_per_s);
  void role(matchmaking::Role role);

  /// Finds the first group; its return is the signal to hand over. That is the only thing the caller is asked: then
  /// comes finish(), with at most the weight that the group's roster allows this peer.
  /// Errors: a NoGroup, with nothing changed; `begun` means that finish() with weight 0 can still get the result.
  /// `bad_request` when this peer has no place in the schedule, or is alone in one of its cells: as happens in a grid
  /// of more cells than peers.
  Task<Result<matchmaking::Group>> begin(Pass pass);

  /// A former life of this peer may be counted in a first group of that grid and epoch: this one is in none of them,
  /// and only receives.
  void may_be_counted(const Digest& grid, std::uint64_t epoch) { forgotten_ = std::pair(grid, epoch); }

  /// Units that earlier epochs have counted (AllReduceOptions::done). Before finish().
  void counted_before(std::shared_ptr<const Work> done) { options_.all_reduce.done = std::move(done); }

  /// The rounds of the pass that was begun. Replaces `values` by the mean of the swarm, all of them or none, at the
  /// end. `work`: the units behind them, as in all_reduce(); each voice carries on what its group counted, so that
  /// the last round proves the work of all. More ranges than voices can name: the smallest gaps count as done. If
  /// begin() found no group, or a round is missed, goes on with the next and receives. Errors, all with `values`
  /// unchanged: NoGroup::late when the schedule does not stand any more: all others have left it; NoGroup::begun when
  /// others have the result; `stale` the last group lacked a part of the swarm, or committed without this peer: others
  /// may hold the whole result; `late`, `gone` or a NoGroup of the last round; `bad_request` for values of another
  /// length or a weight above the bound, before anything was sent. `report` is filled in either case.
  Task<Result<PassOutcome>> finish(std::span<float> values, std::uint64_t weight, Work work, PassReport& report);

  /// What `averaging.counted` asks.
  net::Answer answer(const PeerId& from, const Frame& request) const { return first_groups_.answer(from, request); }

  /// Whether this pass has waited for groupmates, or its end, longer than `least`, and than the longest of its rounds
  /// needed so many times; or has come to fewer samples than it must have.
  bool stuck(Duration least, unsigned rounds) const;

  /// Looks for the first group: what the others have handed over waits for it.
  bool seeks_first_group() const noexcept { return seeks_since_.has_value(); }
  /// Nothing: it does not.
  const std::optional<TimePoint>& seeks_first_group_since() const noexcept { return seeks_since_; }
  /// What its values needed, without waiting in vain. Of the pass that runs, and of committed rounds
  /// of the last one before it that had some.
  Duration longest_round() const noexcept { return std::max(longest_round_, longest_before_); }
  /// A round runs now.
  bool averaging() const noexcept { return averaging_; }

  /// The weight that finish() was given, while it runs.
  std::uint64_t handed_over() const noexcept { return handed_over_; }

  /// Of the first group, as the matchmakers' own.
  std::uint32_t next_attempt(std::uint64_t epoch) const;
  void sit_out();

  /// As the matchmakers': tells whoever counts on this peer, and ends a search that waits with NoGroup::left.
  Task<> leave();
  Task<> stop();

 private:
  struct Progress;
  using InPass = std::pair<Digest, std::uint64_t>;  // a grid's id, and the epoch

  InPass here() const { return {pass_->grid.id, pass_->epoch}; }
  bool fits(const Pass& pass) const;
  void make_matchmakers();
  matchmaking::Wanted wanted(std::uint32_t round, const Progress& progress) const;
  Task<Result<matchmaking::Group>> find(std::uint32_t round, const Progress& progress);
  Task<Result<matchmaking::Group>> find_while_it_stands(Progress& progress);
  Task<boost::system::error_code> in_vain(const Progress& progress) const;
  bool over() const;
  Task<Result<>> run_rounds(Progress& progress);
  Task<Result<>> run_round(Progress& progress);
  Task<Result<>> try_round(Progress& progress);
  Result<> carry_on(Outcome outcome, Progress& progress);
  void first_committed(const Outcome& outcome, PassReport& report);
  Task<> learn(Progress& progress);
  void start_learning(Progress& progress);
  static void stop_learning(Progress& progress);
  void speak_after_all(Progress& progress);
  Duration needed(const RoundReport& report, Duration took) const;
  static void restore(Progress& progress);
  Task<> ask_whether_counted(PassReport& report);
  static void look_whether_counted(const Work& own, Progress& progress);
  bool whole(const matchmaking::Group& group, const RoundReport& report) const;
  Work for_next_round(Work work) const;

  Context context_;
  matchmaking::Context searches_;
  const CodecMap& codecs_;
  MoshpitOptions options_;
  std::uint64_t up_bytes_per_s_ = 0;
  std::uint64_t down_bytes_per_s_ = 0;
  std::vector<std::unique_ptr<matchmaking::Matchmaker>> matchmakers_;  // by round
  std::optional<Pass> pass_;
  std::optional<matchmaking::Group> first_;
  std::unique_ptr<net::Conversation> first_talk_;  // from begin() to the first round
  std::optional<TimePoint> waits_since_;           // for a group, or for the end of the pass
  std::optional<TimePoint> seeks_since_;           // for the first group, before anything is handed over
  std::uint64_t handed_over_ = 0;
  Duration longest_round_{};
  Duration longest_committed_{};  // of this pass
  Duration longest_before_{};     // and of the last one in which a round committed
  bool averaging_ = false;
  bool too_light_ = false;            // the last round gave up: fewer samples than Pass::weight_min
  std::optional<InPass> counted_in_;  // a first group there has our values, or will when others commit what we signed;
  std::optional<InPass> forgotten_;   // or it may have those of a former life
  FirstGroups first_groups_;
};

}  // namespace collab::averaging
