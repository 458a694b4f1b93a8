#pragma once
// Lends a machine to the cells of a grid in which nobody can be dialled.

#include "averaging/pass.hpp"
#include "base/signal.hpp"
#include "base/task_group.hpp"
#include "epoch/member_options.hpp"
#include "epoch/seating_keeper.hpp"
#include "matchmaking/matchmaker.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace collab::epoch {

/// A cell needs somebody whom the others can dial, to lead it and to own segments. Where all of its peers only dial, or
/// the one whom they can dial is gone, an auxiliary takes that place in each round that the cell has: it waits to be
/// asked. All cells that need one are served at the same time, those of later rounds too, and in each epoch that
/// somebody is in: when their peers come to a round only they know.
///
/// Thread safety: none; belongs to the node's loop. Memory: what a round needs, for each cell that averages.
/// `stop()` must have returned before it is destroyed.
class GridAuxiliary {
 public:
  static constexpr std::size_t kCellsMax = 256;  ///< of one round; a list of seats may be anybody's

  struct Needs {
    matchmaking::Context searches;
    progress::Tracker& tracker;
    const SeatingKeeper& seats;
    const Identity& identity;
    asio::any_io_executor loop;
    const MemberOptions& options;                ///< of an auxiliary
    matchmaking::MatchmakerOptions matchmaking;  ///< of a search for the one group of everybody
    /// Takes part in the round of a group. Those who lag are served by the tasks.
    std::function<Task<Result<>>(TaskGroup&, const matchmaking::Group&)> lend;
  };
  explicit GridAuxiliary(Needs needs);
  ~GridAuxiliary();
  GridAuxiliary(const GridAuxiliary&) = delete;
  GridAuxiliary& operator=(const GridAuxiliary&) = delete;

  /// Serves the epochs that those are in who take part, as far as they are on a grid. To be called every 100 ms or so:
  /// peers come and go, gather samples, and write other lists of seats.
  void serve();
  /// Cells of one round that need it, at most: of the swarm's epoch.
  std::size_t cells() const noexcept { return needed_; }

  /// Tells whoever counts on it that it leaves.
  Task<> leave();
  /// After leave(): until no round runs any more.
  Task<> finish(TimePoint until);
  Task<> stop();

 private:
  struct Cell;
  /// One epoch that is served.
  struct Served {
    std::shared_ptr<const averaging::Pass> pass;
    std::vector<std::vector<std::vector<PeerId>>> groups;                        // by round
    std::map<std::pair<std::size_t, std::size_t>, std::shared_ptr<Cell>> cells;  // by place in `groups`
  };

  std::set<std::uint64_t> epochs() const;
  void open(std::uint64_t epoch, const matchmaking::Seating& seating);
  void close(Served& served);
  void look_who_leads();
  bool needs_us(const std::vector<PeerId>& members) const;
  std::size_t serve(Served& served);
  std::shared_ptr<Cell> make_cell(const Served& served, std::size_t round, std::size_t group) const;
  bool still_runs(const Cell& cell) const;
  void tell_samples(const Served& served);
  Task<boost::system::error_code> over(std::shared_ptr<Cell> cell);
  Task<Result<matchmaking::Group>> find_group(std::shared_ptr<Cell> cell, bool again);
  Task<> serve_rounds(std::shared_ptr<Cell> cell);

  Needs needs_;
  std::map<std::uint64_t, Served> served_;  // by epoch
  std::set<std::shared_ptr<Cell>> cells_;   // all that live
  std::set<matchmaking::Seat> leaders_;     // who takes part and can be dialled
  std::size_t needed_ = 0;
  TimePoint looked_at_ = TimePoint::min();
  std::size_t lending_ = 0;  // rounds that run
  bool told_full_ = false;
  bool leaving_ = false;
  Signal moved_;
  TaskGroup tasks_;
};

}  // namespace collab::epoch
