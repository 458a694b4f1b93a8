#pragma once
// A leader's half of a search, pure: who has joined, and whether the group may begin.

#include "matchmaking/no_group.hpp"
#include "matchmaking/terms.hpp"

#include <map>
#include <optional>
#include <set>
#include <vector>

namespace collab::matchmaking {

/// Why who sent it can have no place in a group on these terms, whoever leads.
std::optional<RefusalReason> unfit(const Terms&, const wire::Join&);

/// Frames and time go in, answers come out; the owner sends them. Memory: one Applicant per member of the group.
class Leader {
 public:
  explicit Leader(const Terms& terms);

  /// A member of the standing group: joined without a word. `now`: silence counts from here.
  void presume(const Standing&, TimePoint now);
  /// Nothing: it is in. A second Join of a member replaces what the first told.
  std::optional<RefusalReason> on_join(const PeerId& from, const wire::Join&, TimePoint now);
  /// Ignored from who is no member.
  void on_samples(const PeerId& from, const wire::Samples&);
  /// Somebody is in a later try of this round: the group is of the highest that anybody here has tried.
  void learn(std::uint32_t attempt);
  std::uint32_t attempt() const noexcept { return attempt_; }
  /// Samples that the other groups of this round have told in the directory, as far as this peer has read it.
  void on_samples_elsewhere(std::uint64_t total) noexcept { elsewhere_ = total; }
  std::uint64_t read_elsewhere() const noexcept { return elsewhere_; }
  /// On a grid the same, or what more than half of the cell have read, if that is more: a large swarm's records are
  /// read one after the other, and groups that know least would hold up all.
  std::uint64_t elsewhere() const;
  void drop(const PeerId& peer) { members_.erase(peer); }
  /// Nobody counts on us any more, and nobody is presumed again.
  void resign() { members_.clear(); }

  bool has(const PeerId& peer) const { return members_.contains(peer); }
  std::vector<PeerId> followers() const;
  /// Whether somebody asked to be led; presumed members did not.
  bool has_joined_followers() const;
  /// Whether one of them brings values.
  bool has_senders() const { return senders({}) > (terms_.options.role == Role::auxiliary ? 0 : 1); }
  /// Members whose connection broke or is silent.
  std::vector<PeerId> lost(const Links&, TimePoint now) const;
  /// Presumed members that have not asked for longer than anybody should need. Each once.
  std::vector<PeerId> take_unheard(TimePoint now);
  /// Members for whom the group would not be more than half of the peers that they count. They would refuse it, and the
  /// others wait for them; so it is made without them, or not at all.
  std::set<PeerId> refusing() const;
  /// Without them, more than half of the current peers, self included.
  bool has_quorum() const { return 2 * senders(refusing()) > terms_.wanted.electorate; }
  /// Of which of the terms' digits nobody here speaks for the group of the round before. None unless terms ask for it.
  std::set<std::uint32_t> unvoiced() const;
  bool full() const { return members_.size() + 1 >= terms_.wanted.group_size_max; }
  /// Own and told samples of who would not refuse; of nobody more than is believed of it.
  std::uint64_t samples(std::uint64_t own) const;

  /// The sealed group, when it may begin: the batch is full; nobody else is waited for, or there is no room, or no time
  /// left; it has more than half of the current peers; and it has company, or its peer is alone.
  std::optional<Group> begin(std::uint64_t own_samples, bool waiting_for_others, TimePoint now) const;
  /// What a search that ends now lacked.
  NoGroup lacking() const;
  /// From here on the group begins without those who are still waited for.
  TimePoint gather_deadline() const { return terms_.wanted.deadline - terms_.options.patience.silence_min; }

 private:
  struct Follower {
    Applicant applicant;
    bool joined = false;         ///< by a Join; else presumed
    bool unheard = false;        ///< has been told of
    std::size_t electorate = 0;  ///< as it counts; 0: not told
    std::uint64_t elsewhere = 0;
    TimePoint since{};
  };

  std::uint64_t bound_of(const PeerId&) const;
  std::uint64_t believed_of(const PeerId&) const;
  std::size_t senders(const std::set<PeerId>& without) const;
  std::size_t auxiliaries() const;
  bool may_have_batch(std::uint64_t own) const;

  const Terms& terms_;
  std::map<PeerId, Follower> members_;  // without self
  std::uint64_t elsewhere_ = 0;
  std::uint32_t attempt_;
};

}  // namespace collab::matchmaking
