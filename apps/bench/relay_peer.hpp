#pragma once
// What the peers of `collab-bench relay` have beside others: circuits, and the middle one the relay.

#include "base/log.hpp"
#include "base/metrics.hpp"
#include "base/random.hpp"
#include "base/task_group.hpp"
#include "nat/circuit_network.hpp"
#include "nat/relay_server.hpp"

#include <memory>

namespace collab::bench {

/// Two peers and between them a relay that carries all that they say. Of the three, by index.
inline constexpr std::size_t kRelay = 2;

/// Thread safety: none; belongs to the node's loop. Outlives the endpoint.
class RelayPeer {
 public:
  RelayPeer(const nat::CircuitNetwork::Needs& needs, Metrics& metrics)
      : needs_(needs), metrics_(metrics), circuits_(needs, {}) {}

  net::Network& network() noexcept { return circuits_; }
  /// Before the endpoint runs. `bits_per_s` > 0: what a circuit may have as a relay; 0: whatever it takes.
  void use(net::Endpoint& endpoint, bool relays, double bits_per_s);
  void start(TaskGroup& tasks);

 private:
  nat::CircuitNetwork::Needs needs_;
  Metrics& metrics_;
  nat::CircuitNetwork circuits_;
  std::unique_ptr<nat::RelayServer> server_;
};

}  // namespace collab::bench
