#pragma once
// Where the records of a key are, for whoever writes and reads them: in a small swarm at the servers, in a large one at
// the nodes nearest to the key's place. Keeps the routing table alive.

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/signal.hpp"
#include "base/task_group.hpp"
#include "directory/client.hpp"
#include "directory/lookup.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace collab::directory {

struct RouterOptions {
  std::size_t alpha = 3;                                 ///< questions of one look-up on their way at once
  Duration ask_timeout = std::chrono::seconds(2);        ///< of one of them
  Duration ask_beside = std::chrono::milliseconds(500);  ///< without an answer: then another is asked at the same time
  Duration spot_period = std::chrono::seconds(30);       ///< after it a place in use is looked up again, +- 20 %
  unsigned calm_doublings = 2;                           ///< of it, while look-ups find the same nodes
  Duration spot_repair = std::chrono::seconds(2);        ///< the same when one of its nodes is silent, or all are full
  Duration spot_unused = std::chrono::seconds(60);       ///< then it is forgotten
  Duration refresh_period = std::chrono::seconds(30);    ///< of the own neighbourhood, and of one place farther away
  Duration guide_period = std::chrono::seconds(3);       ///< the same, for one who has just come to a large swarm
  Duration ping_after = std::chrono::seconds(20);        ///< a node near this one that is silent for so long is asked,
  Duration ping_far_after = std::chrono::seconds(90);    ///< one farther away, whom only look-ups need,
  std::size_t pings = 3;                                 ///< so many each second,
  std::size_t unasked_pings = 2;                         ///< so many who are new,
  std::size_t new_pings = 8;                             ///< and so many who were named where the table is short
  std::size_t strangers = 3;                             ///< of a refresh, who are asked for the own neighbourhood
  std::size_t spots_at_once = 8;                         ///< look-ups in background
  Duration misled_time = std::chrono::seconds(30);       ///< in which who names nodes that do not answer,
  std::size_t misled_max = 4;                            ///< more than so many, is believed no more
  std::size_t read_pages_max = 16;                       ///< of one key, from one node of a look-up
  std::size_t followers_max = 24;                        ///< remembered of one key
};

/// What is asked for is up to date as far as the routing table and the last look-up go; a key that is asked about is
/// looked up in background, and again for as long as it is asked about. Thread safety: none; belongs to the node's
/// loop.
class Router {
 public:
  Router(net::Endpoint& net, Clock& clock, Random random, Log& log, asio::any_io_executor executor, Server& server,
         Client& client, RouterOptions options);
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;

  /// Pings, refreshes, look-ups. Sends nothing while the swarm is small. Until cancelled.
  Task<> run();

  /// Whether records of `key` are to be put at `node`.
  bool keeps(const PeerId& node, const std::string& key);
  /// Where records of `key` are put, but for this node. Of servers that keep everything: those that can be reached.
  std::vector<PeerId> targets(const std::string& key);
  /// Whom to ask for them, in random order.
  std::vector<PeerId> sources(const std::string& key);
  /// Others who watch it and can be asked instead, when it is watched by many; in random order.
  std::vector<PeerId> followers(const std::string& key);
  /// A claim needs more than half of each. This node may be among them.
  std::vector<std::vector<PeerId>> quorums(const std::string& key);
  /// When the look-up of `key` last found other nodes than before.
  TimePoint moved_at(const std::string& key);
  /// Grows whenever `targets` of some key may be others than before because of a look-up.
  std::uint64_t moves() const noexcept { return moves_; }
  /// All who were named serve others: looks again soon, in background, where `key` is and who follows it.
  void look_again(const std::string& key);
  /// Looks now where `key` is; nothing in a small swarm.
  Task<> locate(std::string key, TimePoint deadline);

  /// Asks somebody who may know others, and those when they are news. False: no answer.
  Task<bool> meet(RouteNode node, TimePoint deadline);

  struct Report {
    std::vector<PeerId> nearest;  ///< those who answered and serve, at most `width`
    std::size_t asked = 0;
    unsigned hops = 0;
    std::size_t answered = 0;
    std::vector<PeerId> followers;
  };
  struct Question {
    Place place{};
    std::string key;              ///< of that place; empty: nodes only
    bool values = false;          ///< reads the records of `key` into this node's storage on the way
    std::size_t width = 20;       ///< how many nodes are sought
    std::size_t copies = 0;       ///< ends when so many of the `replicas` nearest gave records; 0: does not end before
    std::vector<RouteNode> also;  ///< to begin with, beside those in the table
  };
  Task<Report> look_up(Question question, TimePoint deadline);
  /// All look-ups so far.
  struct Totals {
    std::uint64_t look_ups = 0;
    std::uint64_t asked = 0;
    std::uint64_t hops = 0;
  };
  const Totals& totals() const noexcept { return totals_; }

 private:
  struct Spot {
    Place place{};
    std::vector<PeerId> nearest;  ///< of the last look-up, this node among them
    std::vector<PeerId> followers;
    bool looked = false;
    bool tried = false;  ///< the first look-up is over
    bool busy = false;
    unsigned doublings = 0;  ///< of the period until it is due
    TimePoint due{};
    TimePoint looked_at{};
    TimePoint moved_at{};
    TimePoint used_at{};
  };
  struct Running;

  Spot& use(const std::string& key);
  std::vector<PeerId> nearest_to(const Spot&) const;
  std::vector<PeerId> with_self(const Place&, std::vector<PeerId> nearest, std::size_t count) const;
  void shuffle(std::vector<PeerId>&);
  std::optional<RouteNode> next_to_ask(Running& running);
  Task<> ask(Running& running, RouteNode node);
  Task<> read_rest(PeerId node, std::string key, Cursor from, TimePoint deadline);
  Task<bool> ping(RouteNode node);
  Task<> ping_and_forget(RouteNode node);
  Task<> try_suggested(RoutingTable::Suggested suggested);
  void plan_pings(TaskGroup& tasks);
  void plan_suggested(TaskGroup& tasks);
  Question own_neighbourhood() const;
  Place far_place();
  Task<> refresh(Question question);
  Task<> locate_spot(std::string key, TimePoint deadline);
  Task<> locate_and_free(std::string key);
  void plan(TaskGroup& tasks);
  void plan_spots(TaskGroup& tasks);
  void hurry_for(const std::vector<Place>& newcomers);
  Duration about(Duration);

  net::Endpoint& net_;
  Clock& clock_;
  Random random_;
  Log& log_;
  asio::any_io_executor executor_;
  Server& server_;
  Client& client_;
  RouterOptions options_;
  std::map<std::string, Spot> spots_;
  std::size_t spots_busy_ = 0;
  std::uint64_t moves_ = 0;
  TimePoint refresh_at_{};
  TimePoint refreshed_at_{};
  bool refreshing_ = false;
  std::map<PeerId, std::size_t> misled_;  ///< by whom, how often, until:
  TimePoint misled_until_{};
  Signal wake_;
  Totals totals_;
};

}  // namespace collab::directory
