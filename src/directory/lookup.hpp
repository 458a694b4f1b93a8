#pragma once
// The way to the nodes nearest to a place: whom to ask next, and when there is nobody nearer left. Pure; the coroutine
// that carries the questions is `Router::look_up`.

#include "directory/routing_table.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace collab::directory {

/// Nearest first, several at a time. Ends when the `width` nearest that are alive have all answered. Whoever has named
/// some that do not answer is believed last: a liar costs a few questions, not the look-up.
class Lookup {
 public:
  struct Options {
    std::size_t width = 20;
    std::size_t alpha = 3;        ///< questions on their way at once
    std::size_t asked_max = 100;  ///< in all; then it ends with what it has
    unsigned strikes_max = 3;     ///< nodes of one teacher that failed; the others that only he named come last
  };

  /// `start`: whom this node knows. `self` is never asked.
  Lookup(const Place& place, const PeerId& self, std::vector<RouteNode> start, Options options);

  /// Whom to ask now; each is given once, and `answered` or `failed` has to follow. Empty: wait for those who are
  /// asked, or `over`.
  std::optional<RouteNode> next();
  /// `serves`: else he is not one of those who are sought.
  void answered(const PeerId& from, bool serves, std::vector<RouteNode> named);
  void failed(const PeerId&);
  bool over() const;
  void stop() noexcept { stopped_ = true; }

  /// Who has answered and serves, nearest first.
  std::vector<PeerId> nearest(std::size_t count) const;
  /// How many of `ids` are among the `count` nearest that have not failed, asked or not.
  std::size_t among_nearest(const std::vector<PeerId>& ids, std::size_t count) const;
  std::size_t asked() const noexcept { return asked_; }
  std::size_t in_flight() const noexcept { return in_flight_; }
  /// The longest chain of who named whom up to the nearest that is known: 1 when it was at the start.
  unsigned hops() const;

 private:
  enum class State : std::uint8_t { known, asked, answered, failed };
  struct Candidate {
    RouteNode node;
    State state = State::known;
    bool serves = false;
    unsigned hops = 1;
    std::vector<PeerId> teachers;  ///< empty: known at the start
  };
  struct Nearer {
    Place place;
    bool operator()(const Place& a, const Place& b) const noexcept { return nearer(place, a, b); }
  };

  void learn(RouteNode, const PeerId* teacher, unsigned hops);
  bool believed(const Candidate&) const;
  const Candidate* choose() const;

  Place place_;
  PeerId self_;
  Options options_;
  std::map<Place, Candidate, Nearer> candidates_;
  std::map<PeerId, Candidate*> named_;  ///< the same, whose places are known by now
  std::map<PeerId, unsigned> strikes_;
  std::size_t asked_ = 0;
  std::size_t in_flight_ = 0;
  bool stopped_ = false;
};

}  // namespace collab::directory
