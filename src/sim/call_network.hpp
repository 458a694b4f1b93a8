#pragma once
// Endpoints that call each other and nothing else: no connections, no TLS, no conversations. For protocols of calls
// among so many nodes that connections would be all that is measured.

#include "base/random.hpp"
#include "net/endpoint.hpp"
#include "sim/simulation.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <set>

namespace collab::sim {

/// Every call arrives after a latency drawn anew, and so does its answer. Thread safety: none.
class CallNetwork {
 public:
  /// Lives inside `world`, which outlives it.
  CallNetwork(Simulation& world, std::uint64_t seed, Duration latency_min, Duration latency_max);
  ~CallNetwork();

  net::Endpoint& add_peer(const PeerId&);
  /// From now on its callers get `gone`, after a latency.
  void kill(const PeerId& id) { dead_.insert(id); }
  /// Calls so far, answered or not, and the bytes of questions and answers.
  std::uint64_t calls() const noexcept { return calls_; }
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  class Peer;
  TimePoint arrival();

  Simulation& world_;
  Random random_;
  Duration latency_min_;
  Duration latency_max_;
  std::map<PeerId, std::unique_ptr<Peer>> peers_;
  std::set<PeerId> dead_;
  std::uint64_t calls_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace collab::sim
