#pragma once
// One peer's whole part in one search, pure: it leads or follows, and changes between the two as candidates come and
// go.

#include "matchmaking/candidates.hpp"
#include "matchmaking/follower.hpp"
#include "matchmaking/leader.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace collab::matchmaking {

/// What a search starts from.
struct Start {
  std::vector<Standing> last_group;  ///< who held its result, without self
  bool direct = false;               ///< this round follows directly: they count as joined to its first leader
  bool again = false;  ///< a search for this round has ended here, so all who counted on this peer were told to look on
  std::vector<Candidate> candidates;  ///< from the directory
  std::vector<PeerId> late;           ///< came too late for the round before: they will be here in a moment
  std::uint64_t own_samples = 0;
  std::uint64_t samples_elsewhere = 0;
};

/// What a peer has told that cannot be true, in all tries of a round. Its next chance comes later each time.
struct Distrust {
  unsigned lies = 0;
  TimePoint until{};
};

/// Frames and time in, frames and an outcome out.
///
/// Whoever has the smallest place among the candidates it knows leads; the others ask the smallest they know, and are
/// sent on to a smaller one if there is one. A peer is promised to one leader at a time: only that leader, its silence
/// or its refusal releases it. So the rosters of two leaders overlap only while one of them is taken for dead.
/// After the outcome it still answers: late askers hear at once that the group has begun, and those that are in it
/// unawares get its Begin.
/// Thread safety: none. Memory: bounded by Candidates::kCandidatesMax entries in each table.
class Gathering {
 public:
  using Outgoing = std::pair<PeerId, wire::Header>;
  /// What a failed try hands to the next: who asked for it already, and who is not to be trusted.
  struct Carried {
    std::map<PeerId, wire::Join> early;
    std::map<PeerId, Distrust> distrusted;
    std::set<PeerId> with_us;  ///< in the group that failed, or followed us
    std::set<GroupId> begun;   ///< with us: those that we were in, and those that we declined
  };

  Gathering(Terms terms, Links links, Start start, Carried carried, TimePoint now);
  Gathering(const Gathering&) = delete;  // its halves refer to its terms
  Gathering& operator=(const Gathering&) = delete;

  void on_message(const PeerId& from, const wire::Header&, TimePoint now);
  /// A frame to it could not be sent.
  void on_unreachable(const PeerId&, TimePoint now);
  /// It has closed the conversation: what we look for is behind it.
  void on_over(const PeerId&, TimePoint now);
  /// The directory changed: all it shows under the key.
  void on_candidates(const std::vector<Candidate>&, TimePoint now);
  void on_samples(std::uint64_t own_total, TimePoint now);
  void on_samples_elsewhere(std::uint64_t total, TimePoint now);
  void on_electorate(std::size_t count, TimePoint now);
  /// To be called every 100 ms or so: silence makes no noise of its own.
  void on_time(TimePoint now);
  /// The deadline passed, or the caller does not want a group any more.
  void expire(TimePoint now);
  /// After a group: who is in it with us will not presume us in the next round.
  void sit_out();
  /// The group's result is here and whole: there is no later try.
  void settled(TimePoint now);
  /// The peer leaves the run: whoever might wait for it is told.
  void leave();

  /// Once set it stays. A group: everybody in its roster has been sent it, or sent it to us.
  const std::optional<Result<Group>>& outcome() const noexcept { return outcome_; }
  bool lends() const { return terms_.lends(); }
  bool leading() const noexcept { return leading_; }
  const std::optional<PeerId>& following() const noexcept { return follower_.leader(); }
  /// It leads, or its leader has taken it.
  bool is_led() const noexcept { return leading_ || follower_.accepted(); }
  /// Peers that said they leave the run, or our group: nobody waits for them in the next round.
  const std::set<PeerId>& left() const noexcept { return left_; }

  /// Peers that asked when the group had begun: they catch up, and the next round is to wait for them.
  const std::set<PeerId>& late() const noexcept { return late_; }
  /// Whether somebody looks for a later try of the round than that of our group.
  bool asked_again() const;
  /// Who has joined this peer, or is presumed to; none when it does not lead.
  std::vector<PeerId> followers() const { return leader_.followers(); }

  /// The next try of the same round: one after that of the group, ours or one that began without us, and no less
  /// than anybody has tried. So peers whose tries differed agree after one failure.
  std::uint32_t next_attempt() const noexcept { return std::max(next_attempt_, leader_.attempt()); }

  std::vector<Outgoing> take_outgoing() { return std::exchange(outgoing_, {}); }
  /// Who was struck since the last call, and why: for the log.
  std::vector<std::pair<PeerId, std::string_view>> take_struck() { return std::exchange(struck_, {}); }
  /// Groups that began with us since the last call, and in which we take no part.
  std::vector<Group> take_declined() { return std::exchange(declined_, {}); }
  Carried take_carried() { return std::exchange(carried_, {}); }

 private:
  void on(const PeerId&, const wire::Join&, TimePoint);
  void on(const PeerId&, const wire::Samples&, TimePoint);
  void on(const PeerId&, const wire::Accepted&, TimePoint);
  void on(const PeerId&, const wire::Redirect&, TimePoint);
  void on(const PeerId&, const wire::Refused&, TimePoint);
  void on(const PeerId&, const wire::Leave&, TimePoint);
  void on(const PeerId&, const wire::Begin&, TimePoint);

  /// From the directory: whoever has no place in a foreseen group is not asked.
  void add_record(const Candidate&);
  void choose(TimePoint now);
  std::optional<PeerId> choose_auxiliary(TimePoint now);
  void hint();
  void lead(TimePoint now);
  void notice_standstill(TimePoint now);
  void confirm_followers(TimePoint now);
  void invite(TimePoint now);
  void win_back(const PeerId& peer, TimePoint now);
  void resign(const PeerId& to);
  void ask(const PeerId& leader, TimePoint now);
  void follow_redirect(const PeerId& leader, const PeerId& to, TimePoint now);
  void answer_after_outcome(const PeerId& from, const wire::Join&);
  std::size_t strangers_in(const wire::Begin& begin) const;
  void take_group(const PeerId& from, Group group);
  void decline(const PeerId& from, const wire::Begin& begin);
  void begun(Group group);
  void open_next_line(const Group& group);
  void maybe_begin(TimePoint now);
  void check_follower(TimePoint now);
  /// A leader that does not begin may not know everybody: newcomers that we see are told of it.
  void spread_the_word(TimePoint now);
  void check_followers(TimePoint now);
  bool waiting_for_others(TimePoint now) const;
  bool waits_for_all_to_be_back(TimePoint now) const;
  void notice_cut(TimePoint now);
  bool may_speak_for(const PeerId& peer, const std::set<std::uint32_t>& digits) const;
  void forgive_connected(TimePoint now);
  /// Not asked and not waited for any more; if it was our leader, the next is chosen.
  void strike(const PeerId&, std::string_view why, TimePoint now);
  void distrust(const PeerId&, std::string_view why, TimePoint now);
  bool distrusts(const PeerId&, TimePoint now) const;
  /// A refusal, ours or theirs, may tell why there will be no group.
  void note(RefusalReason reason);
  /// A group of this try, ours or one without us.
  void has_begun(std::uint32_t attempt);
  /// It has begun without us.
  void missed(const PeerId& leader, TimePoint now);
  void give_up_if_hopeless();
  /// Who has not heard that we came too late hears it now, so that whoever leads next waits for us.
  void knock();
  wire::Join join() const;
  wire::Samples told() const;
  void fail(NoGroup reason);

  void send(const PeerId& to, wire::Header message) { outgoing_.emplace_back(to, std::move(message)); }
  void refuse(const PeerId& to, RefusalReason reason);
  void refuse_begun(const PeerId& to);
  bool in_our_group(const PeerId& peer, std::uint64_t incarnation) const;
  void redirect(const PeerId& to, const PeerId& leader);

  Terms terms_;
  Links links_;
  Start start_;
  Carried carried_;
  Candidates candidates_;
  Leader leader_;
  Follower follower_;
  std::uint64_t own_samples_ = 0;
  std::uint64_t elsewhere_told_ = 0;  ///< to whom this peer follows
  std::uint32_t next_attempt_ = 0;
  bool leading_ = false;
  bool may_presume_ = false;             // until the first leader is known
  std::map<PeerId, TimePoint> invited_;  // who has not joined yet, while we lead
  std::optional<PeerId> hinted_;
  bool spread_ = false;
  bool settled_ = false;
  std::map<PeerId, unsigned> hearsay_;  // redirects to third peers, by who sent them
  std::optional<NoGroup> refused_for_;  // what the last refusal that matters means for us
  std::set<PeerId> left_;
  std::set<PeerId> sits_out_;  // it said so before its leader's Begin was here
  std::set<PeerId> late_;
  bool cut_off_ = false;                 // of all who were with us, at once
  std::optional<TimePoint> first_back_;  // of them, since then
  TimePoint last_time_{};
  TimePoint lenient_until_{};
  TimePoint auxiliaries_asked_at_{};
  std::optional<Result<Group>> outcome_;
  std::vector<Outgoing> outgoing_;
  std::vector<std::pair<PeerId, std::string_view>> struck_;
  std::vector<Group> declined_;
};

}  // namespace collab::matchmaking
