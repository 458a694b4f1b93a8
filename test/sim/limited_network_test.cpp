#include "net/limited_network.hpp"

#include "support/sim_node.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "support/doctest.hpp"

namespace collab::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::filled_frame;
using test::SimNode;

constexpr double kCap = 250e3;  // 2 Mbit/s
constexpr std::size_t kMessage = 64 * 1024;

sim::LinkOptions ways() {
  sim::LinkOptions links;
  links.latency_min = links.latency_max = milliseconds(20);
  return links;
}

/// One peer whose owner allows it little, and four others on lines that are fifty times faster.
struct Capped {
  explicit Capped(const LimitedNetwork::Limits& limits) : network(world, 7, ways()) {
    for (unsigned char i = 0; i < 5; ++i) {
      auto node = i == 0 ? std::make_unique<SimNode>(world, network, 1, EndpointOptions(), sim::LineOptions(), limits)
                         : std::make_unique<SimNode>(world, network, i + 1);
      Method talk;
      talk.name = "test.talk";
      talk.request_bytes_max = kMessageBytesMax;
      node->endpoint().allow_conversation(talk);
      Method echo;
      echo.name = "test.echo";
      const auto answer = [](PeerId, Frame request, TimePoint) -> Task<Answer> { co_return request; };
      node->endpoint().handle(echo, answer);
      nodes.push_back(std::move(node));
    }
    for (auto& a : nodes)
      for (auto& b : nodes) a->knows(*b);
  }

  struct Talk {
    std::unique_ptr<Conversation> conversation;
    std::size_t received = 0;
  };

  Task<> send(Talk& talk, PeerId to) {
    while (world.clock().now() < over) {
      const auto sent = co_await talk.conversation->send(to, TrafficClass::bulk, filled_frame(kMessage), over);
      if (!sent) co_return;
    }
  }
  Task<> receive(Talk& talk) {
    for (;;) {
      const auto next = co_await talk.conversation->receive(over);
      if (!next) co_return;
      talk.received += next->frame->size();
    }
  }
  /// A small question every 200 ms, when windows have become small and lines are known.
  Task<> ask() {
    SimNode& asker = *nodes[0];
    co_await asker.clock().sleep_until(asker.clock().now() + seconds(4));
    while (world.clock().now() < over - seconds(1)) {
      const TimePoint asked = asker.clock().now();
      const auto answer = co_await asker.endpoint().call(nodes[1]->id(), "test.echo", filled_frame(50), over);
      REQUIRE(answer);
      slowest = std::max(slowest, asker.clock().now() - asked);
      co_await asker.clock().sleep_until(asker.clock().now() + milliseconds(200));
    }
  }

  /// Twelve seconds in which the four get tensors from the first one, or it gets them from these. What came by seconds.
  void run(bool from_first) {
    const auto all = [&]() -> Task<> {
      for (auto& node : nodes) node->start();
      for (std::size_t i = 1; i < 5; ++i)
        CHECK(co_await nodes[0]->endpoint().call(nodes[i]->id(), "test.echo", filled_frame(50),
                                                 nodes[0]->in(seconds(5))));
      over = world.clock().now() + seconds(13);
      std::vector<PeerId> ids;
      for (auto& node : nodes) ids.push_back(node->id());
      std::vector<Talk> talks(5);
      for (std::size_t i = 0; i < 5; ++i)
        talks[i].conversation = nodes[i]->endpoint().converse("test.talk", Digest{}, ids);
      TaskGroup tasks(world.executor(), rethrow);
      for (std::size_t i = 1; i < 5; ++i) {
        if (from_first) {
          tasks.spawn("send", send(talks[0], nodes[i]->id()));
          tasks.spawn("receive", receive(talks[i]));
        } else {
          tasks.spawn("send", send(talks[i], nodes[0]->id()));
        }
      }
      tasks.spawn("receive", receive(talks[0]));
      tasks.spawn("ask", ask());
      co_await world.clock().sleep_until(over - seconds(11));
      const auto before = bytes(from_first);
      co_await world.clock().sleep_until(over - seconds(1));
      const auto after = bytes(from_first);
      for (std::size_t i = 0; i < 4; ++i) moved[i] = static_cast<double>(after[i] - before[i]);
      caps = nodes[0]->endpoint().caps();
      co_await tasks.join();
      talks.clear();
      for (auto& node : nodes) co_await node->stop();
      network.stop();
    };
    world.run(all());
  }
  /// What has come from the first at each of the others, or from these at the first.
  std::array<std::uint64_t, 4> bytes(bool from_first) {
    std::array<std::uint64_t, 4> sums{};
    for (std::size_t i = 1; i < 5; ++i) {
      PeerEndpoint& reader = nodes[from_first ? i : 0]->endpoint();
      sums[i - 1] = reader.link(nodes[from_first ? 0 : i]->id()).line_bytes_received;
    }
    return sums;
  }
  double in_ten_seconds() const { return moved[0] + moved[1] + moved[2] + moved[3]; }

  sim::Simulation world;
  sim::SimNetwork network;
  std::vector<std::unique_ptr<SimNode>> nodes;
  TimePoint over{};
  Duration slowest{};
  std::array<double, 4> moved{};  ///< in ten seconds, by peer
  Caps caps;
};

}  // namespace

TEST_CASE("limits: a peer sends no faster than its owner allows, to all alike, and words wait for little") {
  LimitedNetwork::Limits limits;
  limits.up = kCap;
  Capped swarm(limits);
  swarm.run(true);
  CHECK(swarm.in_ten_seconds() <= 10 * kCap);
  CHECK(swarm.in_ten_seconds() >= 0.9 * 10 * kCap);  // headers of packets and records are 5 %
  for (const double moved : swarm.moved) CHECK(moved == doctest::Approx(swarm.in_ten_seconds() / 4).epsilon(0.1));
  CHECK(swarm.slowest <= milliseconds(300));
  CHECK(swarm.caps.up.reached);
  CHECK_FALSE(swarm.caps.down.reached);
}

TEST_CASE("limits: what comes is held back at its senders") {
  LimitedNetwork::Limits limits;
  limits.down = kCap;
  Capped swarm(limits);
  swarm.run(false);
  CHECK(swarm.in_ten_seconds() <= 1.01 * 10 * kCap);
  CHECK(swarm.in_ten_seconds() >= 0.9 * 10 * kCap);
  for (const double moved : swarm.moved) CHECK(moved == doctest::Approx(swarm.in_ten_seconds() / 4).epsilon(0.1));
  CHECK(swarm.slowest <= milliseconds(700));  // a window and 16 kB that its sender has sealed
  CHECK(swarm.caps.down.reached);
  CHECK_FALSE(swarm.caps.up.reached);
}

}  // namespace collab::net
