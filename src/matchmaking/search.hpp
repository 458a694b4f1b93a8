#pragma once
// The tasks of one (epoch, round): they move frames, directory records and time into a Gathering, and its answers out.

#include "base/signal.hpp"
#include "base/task_group.hpp"
#include "matchmaking/context.hpp"
#include "matchmaking/declarations.hpp"
#include "matchmaking/gathering.hpp"

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

namespace collab::matchmaking {

/// Lives from the first try of a round until the next round is searched for, so that tries share a conversation and
/// late askers are answered while the round runs. `stop()` must have returned before it is destroyed.
class Search {
 public:
  static constexpr Duration kTick = std::chrono::milliseconds(100);  ///< silence is noticed this much late
  static constexpr Duration kSendMax = std::chrono::seconds(5);      ///< then a peer counts as unreachable
  /// So early a refused conversation was closed, not just never opened (net/conversations waits for that longer).
  static constexpr Duration kUnopened = std::chrono::seconds(4);
  static constexpr std::size_t kOutboxMax = 64;  ///< frames that wait for one peer

  Search(Context context, std::shared_ptr<Declarations> declarations, asio::any_io_executor executor, Terms terms,
         Start start);

  std::uint64_t epoch() const noexcept { return wanted_.epoch; }
  std::uint32_t round() const noexcept { return wanted_.round; }
  /// The number of the next try of the same round.
  std::uint32_t next_attempt() const noexcept { return gathering_->next_attempt(); }
  void retry(Terms terms, Start start);
  /// Waits for the outcome until the deadline of the terms.
  Task<Result<Group>> outcome();
  void samples(std::uint64_t own_total);
  void samples_elsewhere(std::uint64_t total);
  void electorate(std::size_t count);
  void sit_out();
  void settled();
  bool is_led() const noexcept { return gathering_->is_led(); }
  /// After the outcome: until somebody looks for a later try.
  Task<> asked_again();
  bool left(const PeerId& peer) const { return gathering_->left().contains(peer); }
  const std::set<PeerId>& late() const noexcept { return gathering_->late(); }
  /// Nobody waits for the outcome any more.
  void abandon();
  /// Tells whom it concerns, and waits until it is on its way or `deadline` has passed.
  Task<> leave(TimePoint deadline);
  /// Ends a search that still waits, without a word to the others.
  Task<> stop();

 private:
  Task<> receive_frames();
  Task<> watch_directory();
  Task<> send_frames(PeerId to);
  void heed(const PeerId& peer);
  /// After anything that touched the gathering: what it wants sent, logged or known goes on its way.
  void flush();

  Context context_;
  std::shared_ptr<Declarations> declarations_;
  Wanted wanted_;
  std::function<void(const Group&)> declined_;  // may be empty
  Links links_;
  TimePoint opened_at_;
  std::unique_ptr<net::Conversation> conversation_;
  std::unique_ptr<Gathering> gathering_;
  Signal changed_;
  std::map<PeerId, std::deque<Frame>> outbox_;  // an entry lives while its send_frames() runs
  TaskGroup tasks_;
  std::set<PeerId> heeded_;  // pinged, so that their silence means something
  bool leaving_ = false;
  bool stopping_ = false;
};

}  // namespace collab::matchmaking
