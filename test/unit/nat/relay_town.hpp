#pragma once
// Endpoints that relay, and those behind boxes who need it, for the tests of circuits.

#include "base/frame.hpp"
#include "nat/circuit_network.hpp"
#include "nat/relay_client.hpp"
#include "nat/relay_server.hpp"
#include "net/peer_endpoint.hpp"
#include "sim/network.hpp"
#include "support/sim_node.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace collab::nat {

using namespace std::chrono_literals;

inline constexpr std::uint16_t kPort = 4600;

struct NodeWishes {
  bool takes_circuits = true;  ///< by its endpoint; else a test takes them itself
  bool listens = true;
  RelayServer::Options relay = {};
  bool relays = true;  ///< else a test says what it does instead
  std::uint16_t port = kPort;
  std::uint16_t second_port = 0;
  net::OnwardRelays onward = {};
};

/// An endpoint that dials and takes circuits, and relays those of others.
class RelayNode {
 public:
  RelayNode(sim::Simulation& world, sim::SimNetwork& network, unsigned char number, NodeWishes wishes = {},
            sim::NatBox* box = nullptr)
      : port_(wishes.port),
        host_(network.add_host("198.51." + std::to_string(number) + ".7")),
        identity_(test::identity_of(number)),
        access_(Access::Options()),
        circuits({world.executor(), host_.clock(), Random(number), log_, host_}, {}),
        endpoint({world.executor(), host_.clock(), circuits, Random(number), log_, metrics, identity_, access_},
                 options_of(wishes, host_.address())),
        tasks_(world.executor(), rethrow) {
    if (box != nullptr) network.put_behind(host_, *box);
    circuits.use(endpoint, [](const PeerId&) { return true; });
    const auto host_of = [this](const PeerId& peer) -> std::optional<std::string> {
      const auto remote = endpoint.remote_of(peer);
      return remote ? std::optional(remote->host) : std::nullopt;
    };
    if (wishes.relays)
      relay = std::make_unique<RelayServer>(
          RelayServer::Needs{world.executor(), endpoint, host_.clock(), log_, metrics, circuits.topics(), host_of,
                             [this] { return can_be_dialled; }},
          wishes.relay);
    net::Method echo;
    echo.name = "test.echo";
    const auto answer = [this](PeerId, Frame request, TimePoint) -> Task<net::Answer> {
      ++echoes;
      co_return request;
    };
    endpoint.handle(echo, answer);
    echo.name = "test.bulk";
    echo.traffic = net::TrafficClass::bulk;
    endpoint.handle(echo, answer);
    echo.name = "test.bulk_talk";
    endpoint.allow_conversation(echo);
  }

  void start() {
    endpoint.listen();
    tasks_.spawn("endpoint", endpoint.run());
    tasks_.spawn("circuits", circuits.run());
    if (relay) tasks_.spawn("relay", relay->run());
  }
  Task<> stop() { return tasks_.stop(); }
  TaskGroup& tasks() { return tasks_; }
  const Access& access() const { return access_; }

  const PeerId& id() const { return identity_.id(); }
  Clock& clock() { return host_.clock(); }
  sim::Host& host() { return host_; }
  TimePoint in(Duration time) { return clock().now() + time; }
  net::Address address() const { return net::Address{host_.address(), port_}; }
  net::Address relay_address() const { return net::Address{host_.address(), port_, net::Leg::relay, id()}; }
  net::Address onward_address() const { return net::Address{host_.address(), port_, net::Leg::onward, id()}; }
  void knows(const RelayNode& other) { endpoint.introduce(other.id(), std::vector<net::Address>(1, other.address())); }
  void knows_by(const RelayNode& relay_node, const RelayNode& other) {
    knows(relay_node);
    endpoint.introduce_relays(other.id(), std::vector<net::Address>(1, relay_node.relay_address()));
  }

  Task<boost::system::result<void, Refusal>> reserves_at(RelayNode& other) {
    knows(other);
    const Frame ask = frame::encode(wire::RelayHeader(wire::Reserve()));
    const auto answer = co_await endpoint.call(other.id(), "relay.reserve", ask, in(5s));
    if (!answer) co_return answer.error();
    co_return boost::system::result<void, Refusal>();
  }
  Task<net::Answer> calls(const RelayNode& other, Duration time = 10s) {
    const Frame question = test::filled_frame(100);
    return endpoint.call(other.id(), "test.echo", question, in(time));
  }

 private:
  static net::EndpointOptions options_of(const NodeWishes& wishes, const std::string& host) {
    net::EndpointOptions options;
    options.run = "test";
    if (wishes.listens) options.listen.push_back(net::Address{host, wishes.port});
    if (wishes.second_port != 0) options.listen.push_back(net::Address{host, wishes.second_port});
    options.onward = wishes.onward;
    if (wishes.takes_circuits) options.listen.push_back(circuits_come_in());
    return options;
  }

  std::uint16_t port_;
  sim::Host& host_;
  Identity identity_;
  Access access_;
  Log log_;

 public:
  bool can_be_dialled = true;
  int echoes = 0;
  Metrics metrics;
  CircuitNetwork circuits;
  net::PeerEndpoint endpoint;
  std::unique_ptr<RelayServer> relay;

 private:
  TaskGroup tasks_;
};

/// Relays in public, and two behind boxes that nobody gets through.
struct Town {
  explicit Town(NodeWishes relays = {}, NodeWishes hidden = {})
      : network(world, 1),
        box_a(network.add_box(symmetric())),
        box_b(network.add_box(symmetric())),
        relay(world, network, 1, relays),
        second(world, network, 4, relays),
        a(world, network, 2, hidden, &box_a),
        b(world, network, 3, hidden, &box_b) {}

  static sim::NatOptions symmetric() {
    sim::NatOptions options;
    options.mapping = sim::NatMapping::symmetric;
    return options;
  }
  void run(std::function<Task<>()> scenario) {
    const auto all = [&]() -> Task<> {
      for (RelayNode* node : {&relay, &second, &a, &b}) node->start();
      co_await scenario();
      for (RelayNode* node : {&a, &b, &second, &relay}) co_await node->stop();
      network.stop();
    };
    world.run(all());
  }
  /// Three more behind its box, not started yet.
  std::vector<std::unique_ptr<RelayNode>> mates_of_a() {
    std::vector<std::unique_ptr<RelayNode>> mates;
    for (unsigned char i = 0; i < 3; ++i)
      mates.push_back(
          std::make_unique<RelayNode>(world, network, static_cast<unsigned char>(10 + i), NodeWishes{}, &box_a));
    return mates;
  }
  Task<> sleep(Duration time) { return world.clock().sleep_until(world.clock().now() + time); }
  /// How long it took until `condition` held; at most `time`.
  Task<Duration> until(std::function<bool()> condition, Duration time) {
    const TimePoint began = world.clock().now();
    while (!condition() && world.clock().now() < began + time) co_await sleep(10ms);
    co_return world.clock().now() - began;
  }

  sim::Simulation world;
  sim::SimNetwork network;
  sim::NatBox& box_a;
  sim::NatBox& box_b;
  RelayNode relay;
  RelayNode second;
  RelayNode a;
  RelayNode b;
};

}  // namespace collab::nat
