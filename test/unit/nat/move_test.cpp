// A connection that leaves its relay for a path of its own takes its streams along.

#include "relay_town.hpp"
#include "support/raw_peer.hpp"

#include <cstring>
#include <functional>
#include <memory>
#include <utility>

#include "support/doctest.hpp"

namespace collab::nat {
namespace {

using net::TrafficClass;

net::Method row(const char* name) {
  net::Method method;
  method.name = name;
  return method;
}

Frame numbered(std::uint32_t number) {
  Bytes bytes(1000, std::byte(0));
  std::memcpy(bytes.data(), &number, sizeof number);
  return std::make_shared<const Buffer>(bytes);
}

std::uint32_t number_of(const Frame& frame) {
  std::uint32_t number = 0;
  std::memcpy(&number, frame->data(), sizeof number);
  return number;
}

/// In the town one more, whom anybody can dial: b and it met through the relay.
struct Met {
  explicit Met(NodeWishes relays = {}) : town(relays), open(town.world, town.network, 5) {
    for (RelayNode* node : {&town.b, &open}) {
      net::Method talk = row("test.talk");
      talk.request_bytes_max = 512 * 1024;
      node->endpoint.allow_conversation(talk);
      const auto slow = [this, node](PeerId, Frame request, TimePoint) -> Task<net::Answer> {
        ++slow_runs;
        co_await node->clock().sleep_until(node->in(1s));
        co_return request;
      };
      node->endpoint.handle(row("test.slow"), slow);
    }
  }
  void run(std::function<Task<>()> scenario) {
    const auto all = [&]() -> Task<> {
      open.start();
      REQUIRE(co_await town.b.reserves_at(town.relay));
      open.knows_by(town.relay, town.b);
      REQUIRE(co_await open.calls(town.b));
      REQUIRE(open.endpoint.link(town.b.id()).circuit);
      co_await scenario();
      co_await open.stop();
    };
    town.run(all);
  }
  bool is_direct(const RelayNode& from, const RelayNode& to) const {
    const net::LinkState link = from.endpoint.link(to.id());
    return link.connected && !link.circuit;
  }
  bool both_direct() const { return is_direct(open, town.b) && is_direct(town.b, open); }

  Town town;
  RelayNode open;
  int slow_runs = 0;
};

/// One end of a talk: says numbers, one each 5 ms, and hears those of the other end.
struct Talker {
  Talker(RelayNode& at, RelayNode& other)
      : node(at), with(other), talk(at.endpoint.converse("test.talk", net::Topic(Digest{7}), {other.id()})) {}

  Task<> say(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto said = co_await talk->send(with.id(), TrafficClass::latency, numbered(i), node.in(5s));
      failed += said ? 0 : 1;
      co_await node.clock().sleep_until(node.in(5ms));
    }
  }
  Task<> hear(std::uint32_t count) {
    TimePoint last = node.clock().now();
    while (heard < count) {
      const auto envelope = co_await talk->receive(node.in(5s));
      if (!envelope) co_return;
      out_of_order += number_of(envelope->frame) == heard++ ? 0 : 1;
      longest_gap = std::max(longest_gap, node.clock().now() - last);
      last = node.clock().now();
    }
  }

  RelayNode& node;
  RelayNode& with;
  std::unique_ptr<net::Conversation> talk;
  std::uint32_t heard = 0;
  int failed = 0;
  int out_of_order = 0;
  Duration longest_gap{};
};

}  // namespace

TEST_CASE("move: a conversation goes on over the new path, in order, without a gap, and the circuit ends") {
  Met met;
  met.run([&]() -> Task<> {
    Town& town = met.town;
    Talker a(met.open, town.b);
    Talker b(town.b, met.open);
    const auto body = [&](TaskGroup& tasks) -> Task<> {
      for (Talker* one : {&a, &b}) {
        tasks.spawn("say", one->say(300));
        tasks.spawn("hear", one->hear(300));
      }
      co_await town.sleep(500ms);
      CHECK_FALSE(met.both_direct());
      CHECK(co_await town.b.endpoint.connect(met.open.address(), town.b.in(5s)));
      const auto direct = [&] { return met.both_direct(); };
      CHECK(co_await town.until(direct, 5s) < 300ms);
      const auto all_heard = [&] { return a.heard == 300 && b.heard == 300; };
      CHECK(co_await town.until(all_heard, 10s) < 8s);
    };
    auto scope = task_scope(rethrow, body);
    co_await std::move(scope);
    for (const Talker* one : {&a, &b}) {
      CHECK(one->failed == 0);
      CHECK(one->out_of_order == 0);
      CHECK(one->longest_gap < 500ms);
    }
    co_await town.sleep(6s);
    CHECK(town.relay.relay->circuits() == 0);
    CHECK(met.both_direct());
    const auto bulk =
        co_await met.open.endpoint.call(town.b.id(), "test.bulk", test::filled_frame(100), met.open.in(5s));
    CHECK(bulk);
  });
}

TEST_CASE("move: a message that is half sent when the connection moves arrives whole") {
  Met met;
  met.run([&]() -> Task<> {
    Town& town = met.town;
    town.network.slow(town.b.host(), 312);  // 40 kB/s
    Talker a(met.open, town.b);
    Talker b(town.b, met.open);
    const Frame early = numbered(0);
    CHECK(co_await a.talk->send(town.b.id(), TrafficClass::latency, early, town.b.in(5s)));
    CHECK(co_await b.talk->receive(town.b.in(5s)));
    const Frame message = test::filled_frame(400'000);
    CHECK(co_await b.talk->send(met.open.id(), TrafficClass::latency, message, town.b.in(5s)));
    const TimePoint began = town.b.clock().now();
    co_await town.sleep(1s);
    CHECK(co_await town.b.endpoint.connect(met.open.address(), town.b.in(5s)));
    CHECK(town.b.clock().now() - began < 6s);  // they are connected all along: who asks does not wait for the move
    const auto envelope = co_await a.talk->receive(town.b.in(20s));
    REQUIRE(envelope);
    CHECK(*envelope->frame == *message);
    CHECK(town.b.clock().now() - began > 9s);
    CHECK(town.b.clock().now() - began < 12s);
    CHECK(met.both_direct());
  });
}

TEST_CASE("move: what a circuit carries when its time is over goes on over the next one") {
  NodeWishes relays;
  relays.relay.signal.life = 30s;  // which it tells when 20 are over
  Met met(relays);
  met.run([&]() -> Task<> {
    Town& town = met.town;
    town.network.slow(town.b.host(), 312);
    Talker a(met.open, town.b);
    Talker b(town.b, met.open);
    const Frame early = numbered(0);
    CHECK(co_await a.talk->send(town.b.id(), TrafficClass::latency, early, town.b.in(5s)));
    CHECK(co_await b.talk->receive(town.b.in(5s)));
    co_await town.sleep(19s);
    const Frame message = test::filled_frame(500'000);
    CHECK(co_await b.talk->send(met.open.id(), TrafficClass::latency, message, town.b.in(5s)));
    const TimePoint began = town.b.clock().now();
    const auto envelope = co_await a.talk->receive(town.b.in(30s));
    REQUIRE(envelope);
    CHECK(*envelope->frame == *message);
    CHECK(town.b.clock().now() - began > 12s);  // so the first circuit was over before all was said
    CHECK(town.b.clock().now() - began < 16s);
    CHECK_FALSE(met.both_direct());
    CHECK(met.open.endpoint.link(town.b.id()).circuit);
    const auto one_left = [&] { return town.relay.relay->circuits() == 1; };
    CHECK(co_await town.until(one_left, 5s) < 2s);
  });
}

TEST_CASE("move: a question that was asked over the circuit is answered over the new path, and asked once") {
  Met met;
  met.run([&]() -> Task<> {
    Town& town = met.town;
    bool answered = false;
    const auto ask = [&]() -> Task<> {
      const Frame question = test::filled_frame(100);
      const auto answer = co_await met.open.endpoint.call(town.b.id(), "test.slow", question, met.open.in(5s));
      answered = answer.has_value();
    };
    const auto body = [&](TaskGroup& tasks) -> Task<> {
      tasks.spawn("ask", ask());
      co_await town.sleep(300ms);
      CHECK(co_await town.b.endpoint.connect(met.open.address(), town.b.in(5s)));
      co_await town.sleep(300ms);
      CHECK(met.both_direct());
      town.network.kill(town.relay.host());  // nobody needs it any more
      const auto done = [&] { return answered; };
      CHECK(co_await town.until(done, 5s) < 1s);
    };
    auto scope = task_scope(rethrow, body);
    co_await std::move(scope);
    CHECK(met.slow_runs == 1);
  });
}

/// b dials while it owes open an answer; `fault` strikes so long after. Whoever gets no answer asks again.
void strike_in_a_move(Duration after, const std::function<void(Met&)>& fault, int& moved) {
  Met met;
  met.run([&]() -> Task<> {
    Town& town = met.town;
    int asked = 0;
    bool answered = false;
    const auto ask = [&]() -> Task<> {
      const TimePoint deadline = met.open.in(20s);
      while (!answered && met.open.clock().now() < deadline) {
        ++asked;
        const Frame question = test::filled_frame(100);
        const auto answer = co_await met.open.endpoint.call(town.b.id(), "test.slow", question, deadline);
        answered = answer.has_value();
        if (!answered) co_await town.sleep(100ms);
      }
    };
    const auto dial = [&]() -> Task<> { (void)co_await town.b.endpoint.connect(met.open.address(), town.b.in(5s)); };
    const auto body = [&](TaskGroup& tasks) -> Task<> {
      tasks.spawn("ask", ask());
      co_await town.sleep(300ms);
      tasks.spawn("dial", dial());
      co_await town.sleep(after);
      fault(met);
      const auto done = [&] { return answered; };
      CHECK(co_await town.until(done, 20s) < 8s);
      moved += asked == 1 && met.both_direct() ? 1 : 0;
    };
    auto scope = task_scope(rethrow, body);
    co_await std::move(scope);
    CHECK(met.slow_runs <= asked);
  });
}

TEST_CASE("move: whenever the relay dies meanwhile, the two meet without it") {
  int moved = 0;
  for (int late = 0; late < 40; ++late) {
    CAPTURE(late);
    const auto kill_relay = [](Met& met) { met.town.network.kill(met.town.relay.host()); };
    strike_in_a_move(late * 10ms, kill_relay, moved);
  }
  CHECK(moved >= 20);  // the answer came by the new path
}

TEST_CASE("move: whenever the new path breaks, the connection stays on its relay, or begins anew") {
  int moved = 0;
  for (int late = 0; late < 40; ++late) {
    CAPTURE(late);
    const auto cut = [](Met& met) { met.town.network.cut(met.town.b.host(), met.open.host()); };
    strike_in_a_move(late * 10ms, cut, moved);
  }
}

TEST_CASE("move: of two that dial each other at once one moves it, and both agree which") {
  for (unsigned char seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    sim::Simulation world;
    sim::SimNetwork network(world, seed);
    RelayNode relay(world, network, 1);
    RelayNode a(world, network, 2);
    RelayNode b(world, network, 3);
    for (RelayNode* node : {&a, &b}) node->endpoint.allow_conversation(row("test.talk"));
    const auto scenario = [&]() -> Task<> {
      for (RelayNode* node : {&relay, &a, &b}) node->start();
      REQUIRE(co_await b.reserves_at(relay));
      a.knows_by(relay, b);
      REQUIRE(co_await a.calls(b));
      REQUIRE(a.endpoint.link(b.id()).circuit);
      Talker one(a, b);
      Talker other(b, a);
      const auto dial = [&](RelayNode& from, RelayNode& to) -> Task<> {
        (void)co_await from.endpoint.connect(to.address(), from.in(5s));
      };
      const auto body = [&](TaskGroup& tasks) -> Task<> {
        for (Talker* talker : {&one, &other}) {
          tasks.spawn("say", talker->say(100));
          tasks.spawn("hear", talker->hear(100));
        }
        co_await world.clock().sleep_until(world.clock().now() + 100ms);
        tasks.spawn("dial", dial(a, b));
        tasks.spawn("dial", dial(b, a));
        co_await world.clock().sleep_until(world.clock().now() + 5s);
      };
      auto scope = task_scope(rethrow, body);
      co_await std::move(scope);
      for (const Talker* talker : {&one, &other}) {
        CHECK(talker->heard == 100);
        CHECK(talker->failed + talker->out_of_order == 0);
      }
      CHECK_FALSE(a.endpoint.link(b.id()).circuit);
      CHECK_FALSE(b.endpoint.link(a.id()).circuit);
      CHECK(a.endpoint.link(b.id()).dialled != b.endpoint.link(a.id()).dialled);
      for (RelayNode* node : {&b, &a, &relay}) co_await node->stop();
      network.stop();
    };
    world.run(scenario());
  }
}

TEST_CASE("move: a name that is none is not taken, and who says that it moved where nobody followed is let go") {
  sim::Simulation world;
  sim::SimNetwork network(world, 1);
  RelayNode node(world, network, 1);
  const auto scenario = [&]() -> Task<> {
    node.start();
    sim::Host& host = network.add_host("198.51.9.9");
    test::RawPeer raw(77, host, host.clock());
    raw.hello.moves.assign(32, 'x');
    auto opened = co_await raw.open(node.address());
    REQUIRE(opened);
    CHECK((*opened)->theirs.moves.empty());
    CHECK((*opened)->moves.empty());
    net::Prefix moved;
    moved.type = static_cast<std::uint8_t>(net::FrameType::moved);
    const auto bytes = net::encode(moved);
    CHECK(co_await test::RawPeer::say(**opened, Bytes(bytes.begin(), bytes.end())));
    CHECK(co_await raw.closed_before(**opened, host.clock().now() + 2s));
    CHECK(node.access().may(raw.id(), Claim::join));  // it may have come too late, which is no crime
    co_await node.stop();
    network.stop();
  };
  world.run(scenario());
}

}  // namespace collab::nat
