#pragma once
// Finds a group for each round of one key: the coroutine around a Gathering.

#include "matchmaking/context.hpp"
#include "matchmaking/no_group.hpp"
#include "matchmaking/terms.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

namespace collab::matchmaking {

/// The row that guards "matchmaking.group"; given to Endpoint::allow_conversation before the node starts.
net::Method row();

class Declarations;
class Search;

/// The searches of one round of every epoch, one key at a time. Between two searches under a key it remembers who
/// committed together: they begin the next epoch with one message, without the directory.
///
/// Thread safety: none; belongs to the node's loop; one find_group() at a time. `leave()` or `stop()` must have
/// returned before it is destroyed, unless find_group() was never called.
class Matchmaker {
 public:
  /// `options.plan` and `options.weight_max` are set; `key` is at most wire::kKeyBytesMax long.
  Matchmaker(Context context, MatchmakerOptions options);
  ~Matchmaker();
  Matchmaker(const Matchmaker&) = delete;
  Matchmaker& operator=(const Matchmaker&) = delete;

  /// Samples accumulated for `epoch` so far, after each microbatch and at any time; the leader of that epoch is told at
  /// once. An epoch of which nothing was said has none.
  void samples(std::uint64_t epoch, std::uint64_t own_total);
  /// Samples that peers outside this group have told the directory, on a grid of several groups.
  void samples_elsewhere(std::uint64_t total);
  /// `Wanted::electorate` changed while find_group() waits.
  void electorate(std::size_t count);
  /// Measured bytes per second of this peer; 0: unknown. Told with the next Join.
  void bandwidth(std::uint64_t up_bytes_per_s, std::uint64_t down_bytes_per_s);
  /// From the next search on, or from the one after it: while a standing group presumes the old role, it is kept once
  /// more, and the others are told not to presume it again.
  void role(Role role) noexcept { role_ = role; }

  /// Declares this peer, waits for a group, and returns it at the moment that is the signal to hand over. `wanted` is
  /// at least as new as in the calls before; a later try of the same round has at least the number next_attempt(). The
  /// group has one peer only when `wanted.alone` says so, else 2..64. Errors: a NoGroup; nothing has changed then, and
  /// the caller may try again after a pause. When cancelled, the others are told not to wait.
  Task<Result<Group>> find_group(Wanted wanted);
  /// The same by search_until().
  Task<Result<Group>> find_group(Wanted wanted, Task<boost::system::error_code> over);

  /// Whether a search for round 1 of `epoch` follows a group that stands: its members presume this peer, with its role.
  bool is_presumed(std::uint64_t epoch) const;

  /// Whether somebody leads the search that runs, this peer or one that has taken it: a group is on its way.
  bool is_led() const;

  /// The number of the try that comes next in the round searched for last: one after that of the group that failed, for
  /// everybody who was in it or heard of it. 0 before the first.
  std::uint32_t next_attempt(std::uint64_t epoch) const;

  /// `group` committed; bit i of `held`: roster[i] holds its result. They stand together for the round that follows.
  void committed(const Group& group, std::uint64_t held);

  /// The result of the group that was found last is here and whole: who looks for a later try of its round hears that
  /// there is none. For rounds that are tried again (averaging::Moshpit).
  void settled();

  /// Returns when somebody looks for a later try of the round whose group was found last, unless that is settled: for
  /// auxiliaries, who cannot tell whether its result is what the others need. Between two find_group().
  Task<> asked_again();

  /// This peer will not be free when the round of the group that it has just found is over: the others are not to
  /// presume that it begins the next one with them. Once free it searches as anybody.
  void sit_out();

  /// Between searches: none follows soon, so nobody is to ask this peer to lead, and wait for an answer. The next
  /// search declares it again.
  void rest();

  /// Tells leader, followers and standing group that this peer leaves the run, withdraws its record, stops. Takes at
  /// most a second. A search that waits ends with NoGroup::left.
  Task<> leave();
  /// Stops without a word, as when the node is torn down.
  Task<> stop();

 private:
  struct Last {
    std::uint64_t epoch = 0;
    std::uint32_t round = 0;
    Digest id{};
    Role role = Role::node;       ///< this peer's in it
    std::vector<Member> members;  ///< the others
  };

  std::vector<PeerId> to_await(const std::set<PeerId>& late, std::uint64_t epoch);
  std::shared_ptr<Declarations> look_for_others() const;
  void look_under(const std::string& key);
  void open(const Wanted& wanted, const asio::any_io_executor& executor);
  void take_role(const Wanted& wanted);
  Terms terms_for(const Wanted& wanted) const;
  bool follows_directly(const Wanted& wanted) const;
  Task<> close_retired();
  void declare(const Wanted& wanted);
  Task<> say_farewell(TimePoint deadline);
  void report(const Wanted& wanted, const Result<Group>& outcome);

  Context context_;
  MatchmakerOptions options_;
  Role role_;
  bool sits_out_ = false;  // the group that was found last knows that it is not to presume us
  std::uint64_t up_bytes_per_s_ = 0;
  std::uint64_t down_bytes_per_s_ = 0;
  std::uint64_t samples_ = 0;
  std::uint64_t samples_epoch_ = 0;
  std::uint64_t samples_elsewhere_ = 0;
  std::optional<Last> last_;
  std::map<PeerId, std::uint64_t> awaited_;  // who came late, and the epoch that waited for it
  std::optional<TimePoint> declared_at_;
  std::shared_ptr<Declarations> declarations_;
  std::shared_ptr<Search> search_;
  std::shared_ptr<Search> retired_;  // of the round before, until its tasks have unwound
  bool stopped_ = false;
};

}  // namespace collab::matchmaking
