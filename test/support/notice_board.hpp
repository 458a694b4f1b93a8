#pragma once
// A directory without servers: one board in memory, which each peer sees with a delay. For tests of the rooms above.

#include "base/signal.hpp"
#include "directory/directory.hpp"
#include "sim/simulation.hpp"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

namespace collab::test {

class NoticeBoard {
 public:
  /// A record is seen `delay` after it was published, by everybody alike.
  NoticeBoard(sim::Simulation& world, Duration delay);
  ~NoticeBoard();

  /// One peer's view; lives as long as the board.
  directory::Directory& view_of(const PeerId&);
  /// Nothing that is published from now on reaches this peer's view, until `cut_off(peer, false)`.
  void cut_off(const PeerId&, bool cut = true);
  /// Its claims find no majority and wait for their deadline, as when servers have died.
  void stall(const PeerId& peer) { stalled_.insert(peer); }
  /// How often a peer has asked for the records of `key`, watching aside.
  unsigned asked(const PeerId& peer, const std::string& key) const;

 private:
  class View;
  class Watch;
  struct Post {
    directory::Record record;
    TimePoint seen_from{};
    TimePoint expires{};
  };
  using Place = std::pair<PeerId, std::string>;  // owner, subkey

  Task<> announce(TimePoint when);

  sim::Simulation& world_;
  Duration delay_;
  std::uint64_t sequence_ = 0;
  std::map<std::string, std::map<Place, std::vector<Post>>>
      posts_;  // by key; of each place the newest and the one before, all while somebody is cut off
  std::map<PeerId, std::unique_ptr<View>> views_;
  std::map<PeerId, TimePoint> cut_;
  std::map<PeerId, TimePoint> back_;
  std::set<PeerId> stalled_;
  std::map<std::pair<PeerId, std::string>, unsigned> asked_;
  Signal changed_;
  TaskGroup tasks_;
};

}  // namespace collab::test
