#pragma once
// Production endpoints on a simulated network: TLS, streams and the bytes that a death leaves on the way.

#include "base/metrics.hpp"
#include "base/task_group.hpp"
#include "crypto/identity.hpp"
#include "net/peer_endpoint.hpp"
#include "sim/network.hpp"

#include <cstdint>
#include <map>
#include <memory>

namespace collab::test {

class StreamNetwork {
 public:
  /// Lives inside `world`, which outlives it. `stop()` must have returned before it is destroyed.
  StreamNetwork(sim::Simulation& world, std::uint64_t seed, sim::LinkOptions options = {});
  ~StreamNetwork();

  /// Before `meet()`. `identity` outlives this. A peer that does not listen is a client.
  net::PeerEndpoint& add_peer(const Identity& identity, bool listens);
  /// Starts everybody; returns when all who can be connected are.
  Task<> meet();
  /// The process is gone: of each stream's bytes on the way a random prefix arrives.
  void kill(const PeerId& peer);
  /// What it sends, or is sent, waits.
  void block(const PeerId& peer, bool out, bool in);
  /// Frames to all others before TLS, since `meet()` began.
  std::uint64_t bytes_sent(const PeerId& peer) const;
  Task<> stop();

 private:
  struct Peer;
  Task<> connect(Peer& dialler);

  sim::Simulation& world_;
  std::uint64_t seed_;
  sim::SimNetwork network_;
  std::map<PeerId, std::unique_ptr<Peer>> peers_;
};

}  // namespace collab::test
