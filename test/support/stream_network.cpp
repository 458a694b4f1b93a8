#include "support/stream_network.hpp"

#include <string>
#include <utility>
#include <vector>

namespace collab::test {
namespace {

constexpr std::uint16_t kStreamPort = 4600;
constexpr Duration kMeetTime = std::chrono::seconds(20);
constexpr Duration kLookAgain = std::chrono::milliseconds(5);

}  // namespace

struct StreamNetwork::Peer {
  Peer(sim::Host& on, const Identity& of, bool can_be_dialled, const asio::any_io_executor& executor)
      : host(on), identity(of), listens(can_be_dialled), access(Access::Options()), tasks(executor, rethrow) {}
  net::Address address() const {
    net::Address at;
    at.host = host.address();
    at.port = kStreamPort;
    return at;
  }

  sim::Host& host;
  const Identity& identity;
  bool listens;
  Access access;
  Log log;
  Metrics metrics;
  std::unique_ptr<net::PeerEndpoint> endpoint;
  TaskGroup tasks;
};

StreamNetwork::StreamNetwork(sim::Simulation& world, std::uint64_t seed, sim::LinkOptions options)
    : world_(world), seed_(seed), network_(world, seed, options) {}

StreamNetwork::~StreamNetwork() = default;

net::PeerEndpoint& StreamNetwork::add_peer(const Identity& identity, bool listens) {
  sim::Host& host = network_.add_host("peer" + std::to_string(peers_.size()));
  auto peer = std::make_unique<Peer>(host, identity, listens, world_.executor());
  net::EndpointOptions options;
  options.run = "rounds";
  if (listens) options.listen.push_back(peer->address());
  const net::PeerEndpoint::Needs needs{world_.executor(), host.clock(),  host,     Random(seed_ + peers_.size()),
                                       peer->log,         peer->metrics, identity, peer->access};
  peer->endpoint = std::make_unique<net::PeerEndpoint>(needs, std::move(options));
  net::PeerEndpoint& endpoint = *peer->endpoint;
  peers_.emplace(identity.id(), std::move(peer));
  return endpoint;
}

/// Two clients never meet; of two others who comes first dials.
Task<> StreamNetwork::connect(Peer& dialler) {
  for (const auto& [id, other] : peers_) {
    const bool mine = other->listens && (!dialler.listens || dialler.identity.id() < id);
    if (!mine || id == dialler.identity.id()) continue;
    auto reached = co_await dialler.endpoint->connect(other->address(), world_.clock().now() + kMeetTime);
    if (!reached) throw std::logic_error("peers cannot meet: " + reached.error().reason);
  }
}

Task<> StreamNetwork::meet() {
  for (const auto& [id, peer] : peers_) {
    if (peer->listens) peer->endpoint->listen();
    for (const auto& [other_id, other] : peers_)
      if (other->listens && other_id != id) peer->endpoint->introduce(other_id, {other->address()});
    peer->tasks.spawn("endpoint", peer->endpoint->run());
  }
  for (const auto& [id, peer] : peers_) co_await connect(*peer);
  // who was dialled counts its connection when it has heard something on it
  std::size_t listening = 0;
  for (const auto& [id, peer] : peers_) listening += peer->listens ? 1 : 0;
  for (const auto& [id, peer] : peers_)
    while (peer->endpoint->connected().size() < (peer->listens ? peers_.size() - 1 : listening))
      co_await world_.clock().sleep_until(world_.clock().now() + kLookAgain);
}

void StreamNetwork::kill(const PeerId& peer) {
  network_.kill(peers_.at(peer)->host);
}

void StreamNetwork::block(const PeerId& peer, bool out, bool in) {
  network_.block(peers_.at(peer)->host, out, in);
}

std::uint64_t StreamNetwork::bytes_sent(const PeerId& peer) const {
  std::uint64_t sum = 0;
  for (const auto& [id, other] : peers_)
    if (id != peer) sum += peers_.at(peer)->endpoint->link(id).bytes_sent;
  return sum;
}

Task<> StreamNetwork::stop() {
  for (const auto& [id, peer] : peers_) co_await peer->tasks.stop();
  network_.stop();
}

}  // namespace collab::test
