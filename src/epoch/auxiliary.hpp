#pragma once
// A peer that computes nothing and lends its line and processor to the others' rounds.

#include "base/metrics.hpp"
#include "base/task_group.hpp"
#include "epoch/member_options.hpp"
#include "matchmaking/matchmaker.hpp"

#include <cstdint>
#include <functional>

namespace collab::epoch {

/// Owns segments in the rounds of everybody's epoch, brings no part and holds no parameters (DeDLOC's auxiliary peer).
/// It is not counted among those who take part: nobody waits for it. While a grid of groups is in force it rests, for a
/// group of the grid has no place for it.
/// Thread safety: none; belongs to the node's loop.
class Auxiliary {
 public:
  struct Context {
    net::Endpoint& net;
    Clock& clock;
    directory::Directory& directory;
    progress::Tracker& tracker;
    Log& log;
    Metrics& metrics;
    const Identity& identity;
    asio::any_io_executor loop;
    std::function<bool()> is_needed =
        {};  ///< asked each second, and when records change; false: it rests. Empty: always
  };
  /// A round that the auxiliary was in is over; `why` is empty when it committed.
  using OnRound = std::function<void(std::uint64_t epoch, boost::system::error_code why)>;

  /// `options.role` is set here.
  Auxiliary(Context context, MemberOptions options, OnRound on_round);

  /// Ends after `leave()`.
  Task<> run();
  /// Tells the others not to wait and ends `run()`.
  Task<> leave();
  /// After run(), however it ended and before the destructor: answers nobody any more.
  Task<> stop();

  /// Committed ones.
  std::uint64_t rounds() const noexcept { return rounds_; }

 private:
  bool rests() const;
  Task<Result<matchmaking::Group>> find_group();
  Task<boost::system::error_code> epoch_over();
  Task<> take_part(TaskGroup& tasks);
  Task<> pause();

  Context context_;
  MemberOptions options_;
  OnRound on_round_;
  averaging::ClaimedRates rates_;
  matchmaking::Matchmaker matchmaker_;
  SeatingKeeper seats_;
  std::uint64_t epoch_ = 0;
  std::uint64_t rounds_ = 0;
  unsigned failures_ = 0;  ///< in a row
  bool leaving_ = false;
};

}  // namespace collab::epoch
