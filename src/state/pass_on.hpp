#pragma once
// For two who cannot reach each other: the questions of one, and the answers of the other, by way of a third.

#include "base/clock.hpp"
#include "net/endpoint.hpp"
#include "state/wire.hpp"

#include <cstddef>
#include <map>

namespace collab::state {

struct PassOnOptions {
  bool offered = false;        ///< by the owner of the line
  double bytes_per_s = 2.5e6;  ///< of answers, for each who asks; 0: as many as the lines carry
  double bytes_per_s_of_all = 25e6;
  std::size_t of_peer_max = 4;                           ///< questions of one peer at a time,
  std::size_t of_node_max = 16;                          ///< and of all: each may hold a chunk
  Duration busy_pause = std::chrono::milliseconds(200);  ///< that `busy` advises
};
/// For all ten times as much as for each.
PassOnOptions pass_on_options(bool offered, double bytes_per_s);

/// Where nobody who has the state of a run can be dialled, a joiner asks one to whom both are connected (`state.pass`).
/// It is believed as little as any donor: what comes is checked against what most of the swarm has signed. It asks only
/// who is connected to it already, and dials nobody; on whose behalf it asks the donor does not learn.
/// Thread safety: none; belongs to the node's loop.
class PassOn {
 public:
  /// Both outlive it.
  PassOn(net::Endpoint& net, Clock& clock, PassOnOptions options);

  Task<net::Answer> pass(PeerId from, Frame request, TimePoint deadline);

 private:
  /// Of one who asks.
  struct Asker {
    std::size_t asks = 0;  ///< now
    TimePoint free_at{};   ///< then its share of the line is used up no more
  };
  class Asking;

  TimePoint turn_of(const PeerId& from) const;
  void count(const PeerId& from, std::size_t bytes);

  net::Endpoint& net_;
  Clock& clock_;
  PassOnOptions options_;
  std::map<PeerId, Asker> askers_;  // who ask, or have used up their share for now
  std::size_t asks_ = 0;
  TimePoint free_at_{};
};

}  // namespace collab::state
