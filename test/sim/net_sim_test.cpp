#include "support/raw_peer.hpp"
#include "support/sim_node.hpp"

#include <algorithm>
#include <cstdlib>
#include <list>
#include <string>

#include "support/doctest.hpp"

namespace collab::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::filled_frame;
using test::SimNode;

constexpr Duration kLong = seconds(30);

/// A world of nodes that know each other. Every node answers `test.echo`, `test.slow` (3 s) and talks `test.talk`.
struct Swarm {
  explicit Swarm(unsigned char count, std::uint64_t seed = 1, sim::LinkOptions links = {}, EndpointOptions options = {})
      : network(world, seed, links) {
    for (unsigned char i = 1; i <= count; ++i) {
      nodes.push_back(std::make_unique<SimNode>(world, network, i, options));
      add_methods(*nodes.back());
    }
    for (auto& a : nodes)
      for (auto& b : nodes) a->knows(*b);
  }

  void add_methods(SimNode& node) {
    Method echo;
    echo.name = "test.echo";
    echo.request_bytes_max = echo.answer_bytes_max = kMessageBytesMax;
    const auto answer = [this](PeerId, Frame request, TimePoint) -> Task<Answer> {
      ++handled;
      co_return request;
    };
    node.endpoint().handle(echo, answer);
    Method slow;
    slow.name = "test.slow";
    Clock& clock = node.clock();
    const auto later = [this, &clock](PeerId, Frame request, TimePoint) -> Task<Answer> {
      ++started;
      co_await clock.sleep_until(clock.now() + seconds(3));
      ++handled;
      co_return request;
    };
    node.endpoint().handle(slow, later);
    Method talk;
    talk.name = "test.talk";
    talk.request_bytes_max = kMessageBytesMax;
    node.endpoint().allow_conversation(talk);
  }

  /// Starts all, runs the scenario, stops all.
  void run(const std::function<Task<>()>& scenario) {
    const auto all = [&]() -> Task<> {
      for (auto& node : nodes) node->start();
      co_await scenario();
      for (auto& node : nodes) co_await node->stop();
      network.stop();
    };
    world.run(all());
  }

  SimNode& operator[](std::size_t i) { return *nodes[i]; }
  Task<> pause(Duration time) { return world.clock().sleep_until(world.clock().now() + time); }
  TimePoint now() { return world.clock().now(); }

  sim::Simulation world;
  sim::SimNetwork network;
  std::vector<std::unique_ptr<SimNode>> nodes;
  int started = 0;
  int handled = 0;
};

sim::LinkOptions near() {
  sim::LinkOptions links;
  links.latency_min = links.latency_max = milliseconds(10);
  links.queue_bytes = 128 * 1024;
  links.jitter = 0;
  return links;
}

std::vector<PeerId> only(SimNode& node) {
  return std::vector<PeerId>(1, node.id());
}

/// Where connections are taken, and nothing is ever said.
struct Silent {
  explicit Silent(Swarm& swarm, const std::string& where = "10.0.0.90") {
    sim::Host& host = swarm.network.add_host(where);
    at.host = host.address();
    at.port = 4600;
    auto listening = host.listen(at);
    REQUIRE(listening);
    listener = std::move(*listening);
  }
  Address at;
  std::unique_ptr<Listener> listener;
};

}  // namespace

TEST_CASE("sim net: everybody calls everybody at once, and one connection for each pair stays") {
  for (const std::uint64_t seed : test::seeds(8)) {
    CAPTURE(seed);
    Swarm swarm(8, seed);
    int ok = 0;
    const auto ask = [&](SimNode& from, SimNode& to) -> Task<> {
      const auto answer = co_await from.endpoint().call(to.id(), "test.echo", filled_frame(100), from.in(kLong));
      ok += answer ? 1 : 0;
    };
    const auto scenario = [&]() -> Task<> {
      TaskGroup asking(swarm.world.executor(), rethrow);
      for (auto& a : swarm.nodes)
        for (auto& b : swarm.nodes)
          if (a != b) asking.spawn("ask", ask(*a, *b));
      co_await asking.join();
      co_await swarm.pause(seconds(8));
      for (auto& node : swarm.nodes) {
        CHECK(node->endpoint().connected().size() == 7);
        CHECK(node->events("net.connected") - node->events("net.disconnected") == 7);
        CHECK(node->events("net.violation") == 0);
      }
    };
    swarm.run(scenario);
    CHECK(ok == 56);
    CHECK(swarm.handled == 56);
  }
}

TEST_CASE("sim net: everybody dials everybody again and again, and each pair keeps the connection it has") {
  for (const std::uint64_t seed : test::seeds(8)) {
    CAPTURE(seed);
    Swarm swarm(6, seed);
    Random random(seed);
    const auto made = [&] {
      int count = 0;
      for (auto& node : swarm.nodes) count += node->events("net.connected");
      return count;
    };
    const auto touch = [&](SimNode& from, SimNode& to, Duration patience) -> Task<> {
      (void)co_await from.endpoint().connect(to.address(), from.in(patience));  // perhaps given up on the way
    };
    const auto all_touch = [&]() -> Task<> {
      TaskGroup touching(swarm.world.executor(), rethrow);
      for (auto& a : swarm.nodes)
        for (auto& b : swarm.nodes)
          if (a != b) touching.spawn("touch", touch(*a, *b, milliseconds(random.below(400))));
      co_await touching.join();
    };
    const auto scenario = [&]() -> Task<> {
      TaskGroup touching(swarm.world.executor(), rethrow);
      for (auto& a : swarm.nodes)
        for (auto& b : swarm.nodes)
          if (a != b) touching.spawn("touch", touch(*a, *b, kLong));
      co_await swarm.pause(seconds(5));
      const int settled = made();
      for (int again = 0; again < 6; ++again) {
        for (auto& node : swarm.nodes) {
          CHECK(node->endpoint().connected().size() == 5);
          CHECK(node->events("net.connected") - node->events("net.disconnected") == 5);
        }
        co_await all_touch();
        co_await swarm.pause(seconds(9));
      }
      CHECK(made() == settled);
    };
    swarm.run(scenario);
  }
}

TEST_CASE("sim net: a dial that its dialler gives up ends no connection that works") {
  Swarm swarm(1, 1, near());
  test::RawPeer peer(50, swarm.network.add_host("10.0.0.50"), swarm.world.clock());
  const auto scenario = [&]() -> Task<> {
    const auto works = co_await peer.open(swarm[0].address());
    REQUIRE(works);
    peer.attempt = 2;  // the later of two that one end dialled is the better one
    {
      const auto given_up = co_await peer.open(swarm[0].address());
      REQUIRE(given_up);
      (*given_up)->stream->close();
    }
    co_await swarm.pause(seconds(10));
    CHECK(swarm[0].events("net.connected") == 2);
    CHECK(swarm[0].events("net.disconnected") == 1);
    CHECK(swarm[0].endpoint().connected().size() == 1);
  };
  swarm.run(scenario);
}

TEST_CASE("sim net: everybody begins to talk to everybody at once, and nothing is lost or out of order") {
  for (const std::uint64_t seed : test::seeds(8)) {
    CAPTURE(seed);
    Swarm swarm(5, seed);
    constexpr unsigned char kMessages = 30;
    int right = 0;
    const auto talk = [&](SimNode& self) -> Task<> {
      std::vector<PeerId> members;
      for (auto& node : swarm.nodes) members.push_back(node->id());
      const auto with = self.endpoint().converse("test.talk", Digest{}, members);
      const auto send = [&](PeerId to) -> Task<> {
        for (unsigned char i = 0; i < kMessages; ++i) {
          const auto sent = co_await with->send(to, TrafficClass::bulk, filled_frame(30'000, i), self.in(kLong));
          CHECK(sent);
        }
      };
      TaskGroup tasks(swarm.world.executor(), rethrow);
      for (auto& node : swarm.nodes)
        if (node->id() != self.id()) tasks.spawn("send", send(node->id()));
      std::map<PeerId, unsigned char> next;
      for (int i = 0; i < 4 * kMessages; ++i) {
        const auto envelope = co_await with->receive(self.in(kLong));
        if (!envelope) break;
        right += envelope->frame->begin()[0] == std::byte(next[envelope->from]++) ? 1 : 0;
      }
      co_await tasks.join();
      co_await swarm.pause(seconds(10));
    };
    const auto scenario = [&]() -> Task<> {
      TaskGroup tasks(swarm.world.executor(), rethrow);
      for (auto& node : swarm.nodes) tasks.spawn("talk", talk(*node));
      co_await tasks.join();
    };
    swarm.run(scenario);
    CHECK(right == 5 * 4 * kMessages);
  }
}

TEST_CASE("sim net: who waits for a frozen peer hears `gone` after 5 s, for a killed one at once") {
  Swarm swarm(3, 1, near());
  const auto scenario = [&]() -> Task<> {
    SimNode& a = swarm[0];
    for (int i : {1, 2}) {
      const auto warm = co_await a.endpoint().call(swarm[static_cast<std::size_t>(i)].id(), "test.echo",
                                                   filled_frame(10), a.in(kLong));
      REQUIRE(warm);
    }
    swarm.network.freeze(swarm[1].host());
    TimePoint asked = swarm.now();
    const auto frozen = co_await a.endpoint().call(swarm[1].id(), "test.echo", filled_frame(10), a.in(kLong));
    CHECK(frozen.error().code == Errc::gone);
    CHECK(swarm.now() - asked > seconds(4));
    CHECK(swarm.now() - asked < seconds(6));

    const auto kill_soon = [&]() -> Task<> {
      co_await swarm.pause(seconds(1));
      swarm.network.kill(swarm[2].host());
    };
    TaskGroup tasks(swarm.world.executor(), rethrow);
    tasks.spawn("kill", kill_soon());
    asked = swarm.now();
    const auto killed = co_await a.endpoint().call(swarm[2].id(), "test.slow", filled_frame(10), a.in(kLong));
    CHECK(killed.error().code == Errc::gone);
    CHECK(swarm.now() - asked < seconds(1) + milliseconds(100));
    co_await tasks.join();
    swarm.network.thaw(swarm[1].host());
  };
  swarm.run(scenario);
}

TEST_CASE("sim net: a conversation notices a silent member by its link within a second") {
  Swarm swarm(2, 1, near());
  const auto scenario = [&]() -> Task<> {
    SimNode& a = swarm[0];
    const auto talk = a.endpoint().converse("test.talk", Digest{}, only(swarm[1]));
    const auto sent = co_await talk->send(swarm[1].id(), TrafficClass::control, filled_frame(10), a.in(kLong));
    REQUIRE(sent);
    co_await swarm.pause(seconds(3));
    CHECK(a.clock().now() - a.endpoint().link(swarm[1].id()).last_received < seconds(1));
    CHECK(a.endpoint().link(swarm[1].id()).rtt >= milliseconds(20));
    swarm.network.freeze(swarm[1].host());
    co_await swarm.pause(seconds(2));
    CHECK(a.clock().now() - a.endpoint().link(swarm[1].id()).last_received >= milliseconds(1500));
    co_await swarm.pause(seconds(4));
    CHECK_FALSE(a.endpoint().link(swarm[1].id()).connected);
    swarm.network.thaw(swarm[1].host());
  };
  swarm.run(scenario);
}

TEST_CASE("sim net: a call that broke with its connection is asked again, and the handler runs once") {
  Swarm swarm(2, 1, near());
  const auto scenario = [&]() -> Task<> {
    const auto cut_soon = [&]() -> Task<> {
      co_await swarm.pause(seconds(1));
      swarm.network.cut(swarm[0].host(), swarm[1].host());
    };
    TaskGroup tasks(swarm.world.executor(), rethrow);
    tasks.spawn("cut", cut_soon());
    const auto answer =
        co_await swarm[0].endpoint().call(swarm[1].id(), "test.slow", filled_frame(10), swarm[0].in(kLong));
    CHECK(answer);
    co_await tasks.join();
  };
  swarm.run(scenario);
  CHECK(swarm.started == 1);
  CHECK(swarm.handled == 1);
}

TEST_CASE("sim net: a deadline ends the caller exactly then, and the handler with it") {
  Swarm swarm(2, 1, near());
  const auto scenario = [&]() -> Task<> {
    SimNode& a = swarm[0];
    const auto warm = co_await a.endpoint().call(swarm[1].id(), "test.echo", filled_frame(10), a.in(kLong));
    REQUIRE(warm);
    swarm.handled = 0;
    const TimePoint deadline = a.in(seconds(1));
    const auto late = co_await a.endpoint().call(swarm[1].id(), "test.slow", filled_frame(10), deadline);
    CHECK(late.error().code == Errc::late);
    CHECK(a.clock().now() == deadline);
    // a caller that is cancelled takes its question back
    TaskGroup tasks(swarm.world.executor(), rethrow);
    const auto ask = [&]() -> Task<> {
      (void)co_await a.endpoint().call(swarm[1].id(), "test.slow", filled_frame(10), a.in(kLong));
    };
    tasks.spawn("ask", ask());
    co_await swarm.pause(seconds(1));
    co_await tasks.stop();
    co_await swarm.pause(seconds(5));
  };
  swarm.run(scenario);
  CHECK(swarm.started == 2);
  CHECK(swarm.handled == 0);
}

TEST_CASE("sim net: who never reads holds back its senders, and nobody else") {
  Swarm swarm(3, 1, near());
  const auto scenario = [&]() -> Task<> {
    SimNode& a = swarm[0];
    SimNode& deaf = swarm[1];
    const auto mine = a.endpoint().converse("test.talk", Digest{}, only(deaf));
    const auto theirs = deaf.endpoint().converse("test.talk", Digest{}, only(a));
    std::size_t accepted = 0;
    const auto flood = [&]() -> Task<> {
      for (;;) {
        const auto sent =
            co_await mine->send(deaf.id(), TrafficClass::bulk, filled_frame(256 * 1024), a.in(seconds(20)));
        if (!sent) co_return;
        accepted += 256 * 1024;
      }
    };
    TaskGroup tasks(swarm.world.executor(), rethrow);
    tasks.spawn("flood", flood());
    co_await swarm.pause(seconds(10));
    CHECK(accepted <= std::size_t(4) << 20U);  // the other end's window, and our own queue
    for (SimNode* other : {&deaf, &swarm[2]}) {
      const TimePoint asked = swarm.now();
      const auto answer = co_await a.endpoint().call(other->id(), "test.echo", filled_frame(1000), a.in(kLong));
      CHECK(answer);
      CHECK(swarm.now() - asked < milliseconds(100));
    }
    co_await tasks.stop();
    std::size_t read = 0;
    for (bool more = true; more; read += more ? 256 * 1024 : 0) {
      const auto frame = co_await theirs->receive(deaf.in(seconds(5)));
      more = frame.has_value();
    }
    CHECK(read == accepted);  // nothing was lost either
  };
  swarm.run(scenario);
}

TEST_CASE("sim net: a control message passes the tensors before it") {
  Swarm swarm(2, 1, near());
  const auto scenario = [&]() -> Task<> {
    SimNode& a = swarm[0];
    SimNode& b = swarm[1];
    const auto mine = a.endpoint().converse("test.talk", Digest{}, only(b));
    const auto theirs = b.endpoint().converse("test.talk", Digest{}, only(a));
    std::size_t received = 0;
    const auto send = [&]() -> Task<> {
      for (;;) {
        const auto sent = co_await mine->send(b.id(), TrafficClass::bulk, filled_frame(256 * 1024), a.in(kLong));
        if (!sent) co_return;
      }
    };
    const auto read = [&]() -> Task<> {
      for (;;) {
        const auto envelope = co_await theirs->receive(TimePoint::max());
        if (envelope) received += (*envelope).frame->size();
      }
    };
    TaskGroup tasks(swarm.world.executor(), rethrow);
    tasks.spawn("send", send());
    tasks.spawn("read", read());
    co_await swarm.pause(seconds(2));
    const std::size_t before = received;
    Duration worst{};
    for (int i = 0; i < 40; ++i) {
      const TimePoint asked = swarm.now();
      const auto answer = co_await a.endpoint().call(b.id(), "test.echo", filled_frame(100), a.in(kLong));
      REQUIRE(answer);
      worst = std::max(worst, swarm.now() - asked);
      co_await swarm.pause(milliseconds(200));
    }
    CHECK(worst < milliseconds(100));
    const double rate = static_cast<double>(received - before) / to_seconds(milliseconds(200) * 40);
    CHECK(rate > 0.92 * 12.5e6);  // and the line is full all the while
    CHECK(a.endpoint().link(b.id()).up_bytes_per_s > 0.8 * 12.5e6);
    co_await tasks.stop();
  };
  swarm.run(scenario);
}

TEST_CASE("sim net: one conversation fills a line of 100 Mbit/s whose answers take 80 ms") {
  // the window of one stream decides it: with 1 MiB the line stands still between credits
  const auto rate_with = [](std::size_t window) {
    sim::LinkOptions far = near();
    far.latency_min = far.latency_max = milliseconds(40);
    far.queue_bytes = std::size_t(4) << 20U;
    EndpointOptions options;
    options.links.connection.streams.stream_window = window;
    Swarm swarm(2, 1, far, options);
    double rate = 0;
    const auto scenario = [&]() -> Task<> {
      SimNode& a = swarm[0];
      SimNode& b = swarm[1];
      const auto mine = a.endpoint().converse("test.talk", Digest{}, only(b));
      const auto theirs = b.endpoint().converse("test.talk", Digest{}, only(a));
      std::size_t received = 0;
      const auto send = [&]() -> Task<> {
        for (;;) {
          const auto sent = co_await mine->send(b.id(), TrafficClass::bulk, filled_frame(256 * 1024), a.in(kLong));
          if (!sent) co_return;
        }
      };
      const auto read = [&]() -> Task<> {
        for (;;) {
          const auto envelope = co_await theirs->receive(TimePoint::max());
          if (envelope) received += (*envelope).frame->size();
        }
      };
      TaskGroup tasks(swarm.world.executor(), rethrow);
      tasks.spawn("send", send());
      tasks.spawn("read", read());
      co_await swarm.pause(seconds(2));
      const std::size_t before = received;
      co_await swarm.pause(seconds(5));
      rate = static_cast<double>(received - before) / 5;
      co_await tasks.stop();
    };
    swarm.run(scenario);
    return rate;
  };
  CHECK(rate_with(EndpointOptions().links.connection.streams.stream_window) > 0.9 * 12.5e6);
  CHECK(rate_with(std::size_t(1) << 20U) < 0.9 * 12.5e6);
}

TEST_CASE("sim net: the last of 31 who send tensors has as much of the reader's memory as the first") {
  sim::LinkOptions far = near();
  far.latency_min = far.latency_max = milliseconds(40);
  far.queue_bytes = std::size_t(4) << 20U;
  Swarm swarm(32, 1, far);
  const auto scenario = [&]() -> Task<> {
    SimNode& reader = swarm[0];
    std::vector<PeerId> senders;
    std::vector<std::unique_ptr<Conversation>> talks;
    for (std::size_t i = 1; i < 32; ++i) {
      senders.push_back(swarm[i].id());
      talks.push_back(swarm[i].endpoint().converse("test.talk", Digest{}, only(reader)));
    }
    const auto theirs = reader.endpoint().converse("test.talk", Digest{}, senders);
    std::size_t received = 0;
    const auto read = [&]() -> Task<> {
      for (;;) {
        const auto envelope = co_await theirs->receive(TimePoint::max());
        if (envelope) received += (*envelope).frame->size();
      }
    };
    const auto send = [&](std::size_t who, Duration length) -> Task<> {
      const TimePoint end = swarm.now() + length;
      while (swarm.now() < end) {
        const auto sent = co_await talks[who]->send(reader.id(), TrafficClass::bulk, filled_frame(256 * 1024),
                                                    swarm[who + 1].in(kLong));
        if (!sent) co_return;
      }
    };
    TaskGroup tasks(swarm.world.executor(), rethrow);
    tasks.spawn("read", read());
    for (std::size_t i = 0; i < 31; ++i) tasks.spawn("send", send(i, seconds(i < 30 ? 20 : 60)));
    co_await swarm.pause(seconds(35));
    co_await swarm.pause(seconds(2));
    const std::size_t before = received;
    co_await swarm.pause(seconds(5));
    CHECK(static_cast<double>(received - before) / 5 > 0.75 * 12.5e6);  // half a megabyte would carry 0.4
    co_await tasks.stop();
  };
  swarm.run(scenario);
}

TEST_CASE("sim net: frames that come before their topic is open wait 5 s, then they are stale") {
  Swarm swarm(2, 1, near());
  const auto scenario = [&]() -> Task<> {
    SimNode& a = swarm[0];
    SimNode& b = swarm[1];
    Digest late{};
    late[0] = 1;
    const auto in_time = a.endpoint().converse("test.talk", Digest{}, only(b));
    const auto too_late = a.endpoint().converse("test.talk", late, only(b));
    for (int i = 0; i < 4; ++i) {
      const auto sent = co_await in_time->send(b.id(), TrafficClass::bulk, filled_frame(200'000), a.in(kLong));
      CHECK(sent);
    }
    const auto sent = co_await too_late->send(b.id(), TrafficClass::bulk, filled_frame(1'000'000), a.in(kLong));
    CHECK(sent);
    co_await swarm.pause(seconds(4));
    const auto theirs = b.endpoint().converse("test.talk", Digest{}, only(a));
    for (int i = 0; i < 4; ++i) {
      const auto envelope = co_await theirs->receive(b.in(seconds(5)));
      CHECK(envelope);
    }
    co_await swarm.pause(seconds(2));
    const auto refused = co_await too_late->send(b.id(), TrafficClass::bulk, filled_frame(10), a.in(kLong));
    CHECK(refused.error() == Errc::stale);
  };
  swarm.run(scenario);
}

TEST_CASE("sim net: who was refused as stale is heard again once the other side has opened the topic") {
  Swarm swarm(2, 1, near());
  const auto scenario = [&]() -> Task<> {
    SimNode& a = swarm[0];
    SimNode& b = swarm[1];
    const auto early = a.endpoint().converse("test.talk", Digest{}, only(b));
    for (const TrafficClass traffic : {TrafficClass::control, TrafficClass::bulk}) {
      const auto sent = co_await early->send(b.id(), traffic, filled_frame(10), a.in(kLong));
      CHECK(sent);
    }
    co_await swarm.pause(seconds(6));
    for (const TrafficClass traffic : {TrafficClass::control, TrafficClass::bulk}) {
      const auto refused = co_await early->send(b.id(), traffic, filled_frame(10), a.in(kLong));
      CHECK(refused.error() == Errc::stale);
    }
    const auto late = b.endpoint().converse("test.talk", Digest{}, only(a));
    const auto said = co_await late->send(a.id(), TrafficClass::control, filled_frame(10), b.in(kLong));
    CHECK(said);
    const auto heard = co_await early->receive(a.in(kLong));
    CHECK(heard);
    for (const TrafficClass traffic : {TrafficClass::control, TrafficClass::bulk}) {
      const auto sent = co_await early->send(b.id(), traffic, filled_frame(20), a.in(kLong));
      CHECK(sent);
      const auto arrived = co_await late->receive(b.in(seconds(2)));
      REQUIRE(arrived);
      CHECK(arrived->frame->size() == 20);
    }
  };
  swarm.run(scenario);
}

TEST_CASE(
    "sim net: who has said all it has to say learns that the other side has closed, but not that it never opened") {
  Swarm swarm(3, 1, near());
  const auto scenario = [&]() -> Task<> {
    SimNode& a = swarm[0];
    SimNode& b = swarm[1];
    SimNode& c = swarm[2];
    Digest other{};
    other[0] = 1;
    auto theirs = b.endpoint().converse("test.talk", Digest{}, only(a));
    const auto ours = a.endpoint().converse("test.talk", Digest{}, only(b));
    for (SimNode* to : {&b, &c}) {
      const auto sent = co_await ours->send(to->id(), TrafficClass::bulk, filled_frame(10), a.in(kLong));
      CHECK(sent);
    }
    co_await swarm.pause(seconds(1));
    CHECK(!ours->closed_by(b.id()));
    theirs.reset();
    const auto unread = co_await ours->send(b.id(), TrafficClass::bulk, filled_frame(10), a.in(kLong));
    CHECK((unread || unread.error() == Errc::stale));
    co_await swarm.pause(seconds(6));
    CHECK(ours->closed_by(b.id()));
    CHECK(!ours->closed_by(c.id()));
    const auto refused = co_await ours->send(c.id(), TrafficClass::bulk, filled_frame(10), a.in(kLong));
    CHECK(refused.error() == Errc::stale);
    const auto late = a.endpoint().converse("test.talk", other, only(b));
    auto brief = b.endpoint().converse("test.talk", other, only(a));
    brief.reset();
    const auto sent = co_await late->send(b.id(), TrafficClass::control, filled_frame(10), a.in(kLong));
    CHECK(sent);
    co_await swarm.pause(milliseconds(500));
    CHECK(late->closed_by(b.id()));
  };
  swarm.run(scenario);
}

TEST_CASE("sim net: who is in another conversation of an occasion says so within a round trip, whoever spoke first") {
  Swarm swarm(2, 1, near());
  const auto scenario = [&]() -> Task<> {
    SimNode& a = swarm[0];
    SimNode& b = swarm[1];
    const auto about = [](unsigned char topic, unsigned char occasion) {
      return Topic(Digest{topic}, Digest{occasion});
    };
    const auto met = co_await a.endpoint().call(b.id(), "test.echo", filled_frame(10), a.in(kLong));
    REQUIRE(met);
    const auto early = a.endpoint().converse("test.talk", about(1, 1), only(b));
    for (const TrafficClass traffic : {TrafficClass::control, TrafficClass::bulk}) {
      const auto sent = co_await early->send(b.id(), traffic, filled_frame(10), a.in(kLong));
      CHECK(sent);
    }
    co_await swarm.pause(seconds(1));
    CHECK(!early->closed_by(b.id()));
    const auto theirs = b.endpoint().converse("test.talk", about(2, 1), only(a));
    co_await swarm.pause(milliseconds(100));
    CHECK(early->closed_by(b.id()));
    for (const TrafficClass traffic : {TrafficClass::control, TrafficClass::bulk}) {
      const auto refused = co_await early->send(b.id(), traffic, filled_frame(10), a.in(kLong));
      CHECK(refused.error() == Errc::stale);
    }
    const auto late = a.endpoint().converse("test.talk", about(3, 1), only(b));
    const auto next = a.endpoint().converse("test.talk", about(4, 2), only(b));
    for (const auto* talk : {&late, &next}) {
      const auto sent = co_await (*talk)->send(b.id(), TrafficClass::bulk, filled_frame(10), a.in(kLong));
      CHECK(sent);
    }
    co_await swarm.pause(milliseconds(100));
    CHECK(late->closed_by(b.id()));
    CHECK(!next->closed_by(b.id()));  // it may come yet
    const auto theirs_next = b.endpoint().converse("test.talk", about(4, 2), only(a));
    const auto heard = co_await theirs_next->receive(b.in(kLong));
    CHECK(heard);
  };
  swarm.run(scenario);
}

TEST_CASE("sim net: a peer of another run, or with a clock that is off, is told so") {
  Swarm swarm(1, 1, near());
  EndpointOptions elsewhere;
  elsewhere.run = "another";
  swarm.nodes.push_back(
      std::make_unique<SimNode>(swarm.world, swarm.network, static_cast<unsigned char>(2), elsewhere));
  const auto scenario = [&]() -> Task<> {
    const auto refused = co_await swarm[1].endpoint().connect(swarm[0].address(), swarm[1].in(kLong));
    REQUIRE(!refused);
    CHECK(refused.error().code == Errc::denied);
    CHECK(refused.error().reason == "run: this peer takes part in run \"test\", yours in \"another\"");
  };
  swarm.run(scenario);
}

TEST_CASE("sim net: who leaves says so, finishes what it was asked, and is gone") {
  Swarm swarm(2, 1, near());
  const auto scenario = [&]() -> Task<> {
    SimNode& a = swarm[0];
    SimNode& b = swarm[1];
    bool answered = false;
    const auto ask = [&]() -> Task<> {
      const auto answer = co_await a.endpoint().call(b.id(), "test.slow", filled_frame(10), a.in(kLong));
      answered = answer.has_value();
    };
    TaskGroup tasks(swarm.world.executor(), rethrow);
    tasks.spawn("ask", ask());
    co_await swarm.pause(seconds(1));
    const TimePoint began = swarm.now();
    co_await b.endpoint().leave();
    CHECK(swarm.now() - began < seconds(4));
    co_await tasks.join();
    CHECK(answered);
    CHECK(a.endpoint().connected().empty());
  };
  swarm.run(scenario);
}

TEST_CASE("sim net: a calendar that jumps counts once nobody is connected, so a machine that slept joins again") {
  Swarm swarm(2, 1, near());
  const auto scenario = [&]() -> Task<> {
    SimNode& a = swarm[0];
    SimNode& b = swarm[1];
    const auto before = co_await a.endpoint().call(b.id(), "test.echo", filled_frame(10), a.in(kLong));
    REQUIRE(before);
    const std::int64_t time = a.endpoint().swarm_ms();
    a.clock().ahead_ms = b.clock().ahead_ms = 3'600'000;
    co_await swarm.pause(seconds(1));
    CHECK(a.endpoint().swarm_ms() - time < 2000);  // steady while somebody is there
    swarm.network.cut(a.host(), b.host());
    co_await swarm.pause(seconds(1));
    CHECK(a.endpoint().connected().empty());
    CHECK(a.endpoint().swarm_ms() - time > 3'600'000);
    SimNode third(swarm.world, swarm.network, 3);  // its calendar was right all the time, and theirs was not
    third.clock().ahead_ms = 3'600'000;
    third.start();
    third.knows(a);
    const auto joined = co_await third.endpoint().connect(a.address(), third.in(kLong));
    CHECK(joined);
    const auto again = co_await a.endpoint().call(b.id(), "test.echo", filled_frame(10), a.in(kLong));
    CHECK(again);
    co_await third.stop();
  };
  swarm.run(scenario);
}

TEST_CASE("sim net: a calendar that jumps while the first connection opens leaves nobody with a time of its own") {
  for (int steps = 1; steps <= 15; ++steps) {
    CAPTURE(steps);
    sim::LinkOptions links = near();
    links.latency_min = links.latency_max = milliseconds(200);  // the handshake takes some looks at the calendar
    Swarm swarm(2, 1, links);
    const auto scenario = [&]() -> Task<> {
      SimNode& a = swarm[0];
      SimNode& b = swarm[1];
      const auto dial = [&]() -> Task<> { (void)co_await a.endpoint().connect(b.address(), a.in(kLong)); };
      TaskGroup tasks(swarm.world.executor(), rethrow);
      tasks.spawn("dial", dial());
      co_await swarm.pause(milliseconds(100 * steps));
      a.clock().ahead_ms = 87'000;
      co_await swarm.pause(seconds(10));
      a.clock().ahead_ms = 0;
      co_await swarm.pause(seconds(10));
      const auto again = co_await a.endpoint().call(b.id(), "test.echo", filled_frame(10), a.in(kLong));
      CHECK(again);
      CHECK(std::abs(a.endpoint().swarm_ms() - b.endpoint().swarm_ms()) < 1000);
      co_await tasks.join();
    };
    swarm.run(scenario);
  }
}

TEST_CASE("sim net: an address that accepts and says nothing holds up no other") {
  Swarm swarm(2, 1, near());
  const auto scenario = [&]() -> Task<> {
    const Silent silent(swarm);
    const auto accept = [&]() -> Task<> {
      std::vector<std::unique_ptr<ByteStream>> streams;
      for (;;) {
        auto stream = co_await silent.listener->accept();
        if (!stream) co_return;
        streams.push_back(std::move(*stream));
      }
    };
    TaskGroup tasks(swarm.world.executor(), rethrow);
    tasks.spawn("silent", accept());
    swarm[0].endpoint().introduce(swarm[1].id(), {silent.at, swarm[1].address()});
    const TimePoint asked = swarm.now();
    const auto answer =
        co_await swarm[0].endpoint().call(swarm[1].id(), "test.echo", filled_frame(10), swarm[0].in(kLong));
    CHECK(answer);
    CHECK(swarm.now() - asked < seconds(1));
    co_await tasks.stop();
  };
  swarm.run(scenario);
}

TEST_CASE("sim net: who is dialled where it is no more is dialled elsewhere as soon as somebody tells of it") {
  Swarm swarm(2, 1, near());
  const auto scenario = [&]() -> Task<> {
    const Silent silent(swarm);
    swarm[0].endpoint().introduce(swarm[1].id(), {silent.at});
    const TimePoint asked = swarm.now();
    const auto tell = [&]() -> Task<> {
      co_await swarm.pause(seconds(1));
      swarm[0].endpoint().introduce(swarm[1].id(), {swarm[1].address()});
    };
    TaskGroup tasks(swarm.world.executor(), rethrow);
    tasks.spawn("tell", tell());
    const auto answer =
        co_await swarm[0].endpoint().call(swarm[1].id(), "test.echo", filled_frame(10), swarm[0].in(kLong));
    CHECK(answer);
    CHECK(swarm.now() - asked < seconds(2));
    co_await swarm.pause(seconds(10));  // the first dial has failed meanwhile, which says nothing of the peer
    CHECK(swarm[0].endpoint().link(swarm[1].id()).connected);
    const auto again =
        co_await swarm[0].endpoint().call(swarm[1].id(), "test.echo", filled_frame(10), swarm[0].in(kLong));
    CHECK(again);
    co_await tasks.stop();
  };
  swarm.run(scenario);
}

TEST_CASE("sim net: a dial that still runs to where a peer was does not hold up the next one, however often it moves") {
  Swarm swarm(2, 1, near());
  const auto scenario = [&]() -> Task<> {
    Endpoint& endpoint = swarm[0].endpoint();
    std::list<Silent> left;
    for (int moves = 0; moves < 3; ++moves) {  // within the ten seconds that a dial takes
      CAPTURE(moves);
      endpoint.introduce(swarm[1].id(), {left.emplace_back(swarm, "10.0.0.9" + std::to_string(moves)).at});
      const auto tell = [&]() -> Task<> {
        co_await swarm.pause(milliseconds(100));
        endpoint.introduce(swarm[1].id(), {swarm[1].address()});
      };
      TaskGroup tasks(swarm.world.executor(), rethrow);
      tasks.spawn("tell", tell());
      const TimePoint moved = swarm.now();
      const auto first = co_await endpoint.call(swarm[1].id(), "test.echo", filled_frame(10), swarm[0].in(kLong));
      CHECK(first);
      CHECK(swarm.now() - moved < seconds(1));
      swarm.network.cut(swarm[0].host(), swarm[1].host());
      co_await swarm.pause(milliseconds(100));
      CHECK(!endpoint.link(swarm[1].id()).connected);
      const TimePoint asked = swarm.now();
      const auto again = co_await endpoint.call(swarm[1].id(), "test.echo", filled_frame(10), swarm[0].in(kLong));
      CHECK(again);
      CHECK(swarm.now() - asked < seconds(1));
      swarm.network.cut(swarm[0].host(), swarm[1].host());
      co_await swarm.pause(milliseconds(100));
      co_await tasks.stop();
    }
  };
  swarm.run(scenario);
}

TEST_CASE("sim net: who fell silent is dialled anew at once, however often it did") {
  Swarm swarm(2, 1, near());
  const auto scenario = [&]() -> Task<> {
    SimNode& a = swarm[0];
    SimNode& b = swarm[1];
    const auto clog = [&](bool clogged) {
      swarm.network.clog(a.host(), b.host(), clogged);
      swarm.network.clog(b.host(), a.host(), clogged);
    };
    for (int i = 0; i < 6; ++i) {
      CAPTURE(i);
      const auto before = co_await a.endpoint().call(b.id(), "test.echo", filled_frame(10), a.in(kLong));
      REQUIRE(before);
      clog(true);
      const auto meanwhile = co_await a.endpoint().call(b.id(), "test.echo", filled_frame(10), a.in(seconds(6)));
      CHECK(!meanwhile);
      while (a.endpoint().link(b.id()).connected) co_await swarm.pause(milliseconds(100));
      swarm.network.cut(a.host(), b.host());  // of what was on its way nothing comes any more
      clog(false);
      const TimePoint heals = swarm.now();
      for (bool there = false; !there;) {
        const auto again = co_await a.endpoint().call(b.id(), "test.echo", filled_frame(10), a.in(kLong));
        there = again.has_value();
        if (!there) co_await swarm.pause(milliseconds(100));
      }
      CHECK(swarm.now() - heals < seconds(1));
    }
  };
  swarm.run(scenario);
}

TEST_CASE("sim net: swarm time follows the pongs, not only what the hello said") {
  Swarm swarm(1, 1, near());
  const auto scenario = [&]() -> Task<> {
    // the others are 40 s ahead; one of their clocks is set right later, which it tells in pongs
    std::vector<std::unique_ptr<test::RawPeer>> peers;
    std::vector<std::unique_ptr<Opened>> open;
    TaskGroup tasks(swarm.world.executor(), rethrow);
    std::int64_t ahead_ms = 40'000;
    const auto answer_pings = [&](Opened& opened) -> Task<> {
      Bytes buffer(16 * 1024);
      for (;;) {
        const auto size = co_await opened.stream->read(buffer);
        if (!size || *size == 0) co_return;
        if (!opened.channel.receive(std::span(buffer).first(*size))) co_return;
        for (auto bytes = opened.channel.opened(); bytes.size() >= kPrefixBytes; bytes = opened.channel.opened()) {
          const Prefix prefix = decode_prefix(bytes.first<kPrefixBytes>());
          if (bytes.size() < kPrefixBytes + prefix.body_bytes) break;
          const auto ping = decode_head<PingHead>(bytes.subspan(kPrefixBytes, prefix.head_bytes));
          opened.channel.consume(kPrefixBytes + prefix.body_bytes);
          if (prefix.type != static_cast<std::uint8_t>(FrameType::ping) || !ping) continue;
          PingHead pong = *ping;
          pong.time_ms = swarm[0].clock().unix_ms() + ahead_ms;
          Bytes frame = test::frame_bytes(test::prefix_of(FrameType::pong, 0), encode_head(pong));
          (void)co_await test::RawPeer::say(opened, std::move(frame));
        }
      }
    };
    sim::Host& host = swarm.network.add_host("10.0.0.91");
    for (unsigned char i = 0; i < 3; ++i) {
      peers.push_back(std::make_unique<test::RawPeer>(60 + i, host, swarm.world.clock()));
      peers.back()->skew_ms = ahead_ms;
      auto opened = co_await peers.back()->open(swarm[0].address());
      REQUIRE(opened);
      open.push_back(std::move(*opened));
      tasks.spawn("peer", answer_pings(*open.back()));
    }
    co_await swarm.pause(seconds(1));
    const auto ahead = [&] { return swarm[0].endpoint().swarm_ms() - swarm[0].clock().unix_ms(); };
    CHECK(std::abs(ahead() - 40'000) < 100);
    CHECK(std::abs(swarm[0].endpoint().skew_ms(peers.front()->id()).value_or(0) - 40'000) < 100);
    CHECK_FALSE(swarm[0].endpoint().skew_ms(swarm[0].id()));
    ahead_ms = 5'000;
    co_await swarm.pause(seconds(31));
    CHECK(std::abs(ahead() - 5'000) < 100);
    co_await tasks.stop();
  };
  swarm.run(scenario);
}

TEST_CASE("sim net: while a dial is not tried again its refusal stays the answer") {
  Swarm swarm(1, 1, near());
  EndpointOptions elsewhere;
  elsewhere.run = "another";
  swarm.nodes.push_back(
      std::make_unique<SimNode>(swarm.world, swarm.network, static_cast<unsigned char>(2), elsewhere));
  swarm[1].knows(swarm[0]);
  const auto scenario = [&]() -> Task<> {
    for (int i = 0; i < 3; ++i) {
      const auto answer =
          co_await swarm[1].endpoint().call(swarm[0].id(), "test.echo", filled_frame(10), swarm[1].in(kLong));
      REQUIRE(!answer);
      CHECK(answer.error().code == Errc::denied);
      CHECK(answer.error().reason.substr(0, 4) == "run:");
      if (i == 0) co_await swarm.pause(milliseconds(50));
    }
  };
  swarm.run(scenario);
}

TEST_CASE("sim net: a dial that succeeds while the node leaves makes no connection") {
  Swarm swarm(2, 1, near());
  const auto scenario = [&]() -> Task<> {
    SimNode& a = swarm[0];
    bool refused = false;
    const auto connect = [&]() -> Task<> {
      const auto found = co_await a.endpoint().connect(swarm[1].address(), a.in(kLong));
      refused = !found.has_value();
    };
    TaskGroup tasks(swarm.world.executor(), rethrow);
    tasks.spawn("connect", connect());
    co_await swarm.pause(milliseconds(30));  // in the middle of the handshake
    co_await a.endpoint().leave();
    co_await swarm.pause(seconds(2));
    CHECK(refused);
    CHECK(a.events("net.connected") == 0);
    co_await tasks.join();
  };
  swarm.run(scenario);
}

TEST_CASE("sim net: the same seed gives the same traffic") {
  const auto fingerprint = [](std::uint64_t seed) {
    Swarm swarm(4, seed);
    const auto scenario = [&]() -> Task<> {
      for (auto& a : swarm.nodes)
        for (auto& b : swarm.nodes)
          if (a != b) (void)co_await a->endpoint().call(b->id(), "test.echo", filled_frame(10'000), a->in(kLong));
    };
    swarm.run(scenario);
    return swarm.network.fingerprint();
  };
  CHECK(fingerprint(3) == fingerprint(3));
  CHECK(fingerprint(3) != fingerprint(4));
}

TEST_CASE("sim net: of many connections those that nobody uses are closed, and nothing is lost by it") {
  EndpointOptions options;
  options.connections_kept = 4;
  options.unused_after = seconds(5);
  Swarm swarm(12, 1, near(), options);
  swarm.run([&]() -> Task<> {
    SimNode& busy = swarm[0];
    const auto asks_all = [&](bool& all) -> Task<> {
      all = true;
      for (std::size_t i = 1; i < 12; ++i) {
        const auto answer =
            co_await busy.endpoint().call(swarm[i].id(), "test.echo", filled_frame(100), busy.in(kLong));
        all = all && answer.has_value();
      }
    };
    bool all = false;
    co_await asks_all(all);
    CHECK(all);
    CHECK(busy.endpoint().connected().size() == 11);
    std::vector<PeerId> members;
    for (std::size_t i = 1; i < 4; ++i) members.push_back(swarm[i].id());
    const auto talk = busy.endpoint().converse("test.talk", Digest{1}, members);
    const auto other = swarm[5].endpoint().converse("test.talk", Digest{1}, only(busy));  // the other end uses it
    co_await swarm.pause(seconds(10));
    CHECK(busy.endpoint().connected().size() == 4);
    for (const std::size_t used : {1, 2, 3, 5}) CHECK(busy.endpoint().link(swarm[used].id()).connected);
    co_await asks_all(all);  // they are dialled anew
    CHECK(all);
    for (int i = 0; i < 200; ++i) {  // also while connections are being closed
      co_await asks_all(all);
      CHECK(all);
      co_await swarm.pause(milliseconds(50 * (i % 20)));
    }
  });
}

}  // namespace collab::net
