#pragma once
// A peer that computes nothing and lends its line and processor to the others' rounds.

#include "averaging/first_groups.hpp"
#include "base/metrics.hpp"
#include "base/task_group.hpp"
#include "epoch/grid_auxiliary.hpp"
#include "epoch/member_options.hpp"
#include "matchmaking/matchmaker.hpp"

#include <cstdint>
#include <functional>
#include <memory>

namespace collab::epoch {

/// Owns segments in the rounds of everybody's epoch, brings no part and holds no parameters (DeDLOC's auxiliary peer).
/// It is not counted among those who take part: nobody waits for it. On a grid it takes part where a cell has nobody
/// who can be dialled, in several cells at a time when there are several.
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
    /// Asked while everybody is in one group, each second, and when records change; false: it rests. Empty: always.
    std::function<bool()> is_needed = {};
    /// Asked each second: false, others are not told to come. Empty: it can be dialled.
    std::function<bool()> can_be_dialled = {};
    /// Told how many cells of a grid have nobody else who leads them, of one round, whenever that changes; may be
    /// empty.
    std::function<void(std::size_t)> on_cells = {};
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

  /// What `averaging.counted` asks: members of a cell that only dial can ask nobody else.
  net::Answer was_counted(const PeerId& from, const Frame& request) const {
    return first_groups_.answer(from, request);
  }

  /// Committed ones.
  std::uint64_t rounds() const noexcept { return rounds_; }
  /// Cells of a grid that have nobody else who leads them; 0 while everybody is in one group.
  std::size_t cells() const noexcept { return cells_ ? cells_->cells() : 0; }

 private:
  bool rests() const;
  Task<Result<matchmaking::Group>> find_group();
  Task<boost::system::error_code> epoch_over(std::size_t group_size_max);
  void look_at_seats();
  const matchmaking::Seating* grid() const;
  void make_cells();
  void offer();
  Task<> serve_cells();
  void tell_cells();
  Task<> take_part(TaskGroup& tasks);
  Task<Result<>> lend(TaskGroup& tasks, const matchmaking::Group& group, std::uint64_t& held);
  Task<> pause();

  Context context_;
  MemberOptions options_;
  OnRound on_round_;
  averaging::ClaimedRates rates_;
  averaging::FirstGroups first_groups_{GridAuxiliary::kCellsMax};
  matchmaking::Matchmaker matchmaker_;
  SeatingKeeper seats_;
  std::unique_ptr<GridAuxiliary> cells_;  // from run() on
  std::size_t cells_told_ = 0;
  bool offers_ = false;
  TimePoint began_{};
  TimePoint looked_at_seats_ = TimePoint::min();
  std::uint64_t epoch_ = 0;
  std::uint64_t rounds_ = 0;
  unsigned failures_ = 0;  ///< in a row
  bool leaving_ = false;
};

}  // namespace collab::epoch
