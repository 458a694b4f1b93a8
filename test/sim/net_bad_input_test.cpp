// Strangers who do not keep to the protocol, against a real endpoint beside an honest peer.

#include "support/raw_peer.hpp"
#include "support/sim_node.hpp"

#include <cstdlib>

#include "support/doctest.hpp"

namespace collab::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::filled_frame;
using test::frame_bytes;
using test::prefix_of;
using test::RawPeer;
using test::SimNode;

/// A victim (10.0.0.1), an honest peer (10.0.0.2) and a host for the others.
struct World {
  World()
      : network(world, 1, links()),
        victim(world, network, 1),
        honest(world, network, 2),
        stranger(network.add_host("10.0.0.3")) {
    Method echo;
    echo.name = "test.echo";
    echo.claim = Claim::join;
    const auto answer = [this](PeerId from, Frame request, TimePoint) -> Task<Answer> {
      handled += from == honest.id() ? 0 : 1;
      co_return request;
    };
    victim.endpoint().handle(echo, answer);
    Method talk;
    talk.name = "test.talk";
    victim.endpoint().allow_conversation(talk);
    honest.knows(victim);
  }
  static sim::LinkOptions links() {
    sim::LinkOptions options;
    options.latency_min = options.latency_max = milliseconds(5);
    options.jitter = 0;
    return options;
  }

  /// Runs the scenario while the honest peer calls four times a second; all its calls must succeed, fast.
  void run(const std::function<Task<>()>& scenario) {
    const auto call_on = [&]() -> Task<> {
      for (;;) {
        const TimePoint asked = world.clock().now();
        const auto answer =
            co_await honest.endpoint().call(victim.id(), "test.echo", filled_frame(100), honest.in(seconds(5)));
        CHECK(answer);
        slowest = std::max(slowest, world.clock().now() - asked);
        co_await world.clock().sleep_until(world.clock().now() + milliseconds(250));
      }
    };
    const auto all = [&]() -> Task<> {
      victim.start();
      honest.start();
      TaskGroup tasks(world.executor(), rethrow);
      tasks.spawn("honest", call_on());
      co_await scenario();
      co_await tasks.stop();
      co_await honest.stop();
      co_await victim.stop();
      network.stop();
    };
    world.run(all());
    CHECK(slowest < milliseconds(200));
    CHECK(honest.events("net.disconnected") <= 1);  // at the end
  }
  TimePoint in(Duration time) { return world.clock().now() + time; }

  sim::Simulation world;
  sim::SimNetwork network;
  SimNode victim;
  SimNode honest;
  sim::Host& stranger;
  int handled = 0;
  Duration slowest{};
};

Bytes bytes_of(std::string_view text) {
  Bytes bytes;
  for (const char c : text) bytes.push_back(static_cast<std::byte>(c));
  return bytes;
}

/// Sends raw bytes and says how long it took until the other side closed.
Task<Duration> closed_after(World& in, Bytes bytes, Duration between) {
  auto stream = co_await in.stranger.dial(in.victim.address(), in.in(seconds(5)));
  REQUIRE(stream);
  const TimePoint began = in.world.clock().now();
  const auto drip = [&]() -> Task<> {
    for (const std::byte byte : bytes) {
      const Bytes one(1, byte);
      const auto written = co_await (*stream)->write(one);
      if (!written) co_return;
      co_await in.world.clock().sleep_until(in.world.clock().now() + between);
    }
  };
  TaskGroup tasks(in.world.executor(), rethrow);
  if (between > Duration::zero()) {
    tasks.spawn("drip", drip());
  } else if (!bytes.empty()) {
    (void)co_await (*stream)->write(bytes);
  }
  Bytes buffer(1000);
  for (;;) {
    const auto size = co_await with_deadline(in.world.clock(), in.in(seconds(30)), (*stream)->read(buffer));
    if (!size || *size == 0) break;
  }
  co_await tasks.stop();
  co_return in.world.clock().now() - began;
}

Bytes call_frame(StreamId stream, std::uint32_t left_ms, unsigned char id, std::size_t payload,
                 std::string_view method = "test.echo") {
  OpenCall head;
  head.method = method;
  head.id[0] = id;
  head.left_ms = left_ms;
  return frame_bytes(prefix_of(FrameType::open, stream, kLast), encode_open(head), Bytes(payload, std::byte(1)));
}

Bytes spoilt(Bytes bytes, std::size_t at, unsigned char value) {
  bytes[at] = std::byte(value);
  return bytes;
}

Bytes joined(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

struct Violation {
  std::string rule;
  Bytes bytes;
};

std::vector<Violation> violations() {
  const Bytes none;
  std::vector<Violation> all;
  const auto add = [&](const char* rule, Bytes bytes) { all.push_back({rule, std::move(bytes)}); };
  const auto open = [](StreamId stream, std::uint8_t flags, std::size_t payload, std::uint32_t size) {
    OpenTopic head;
    head.protocol = "test.talk";
    head.size = size;
    return frame_bytes(prefix_of(FrameType::open, stream, flags), encode_open(head), Bytes(payload));
  };
  const auto data = [](StreamId stream, std::uint8_t flags, std::size_t payload) {
    return frame_bytes(prefix_of(FrameType::data, stream, flags), Bytes(), Bytes(payload));
  };
  Prefix long_frame = prefix_of(FrameType::data, 1);
  long_frame.body_bytes = 0xffffff;
  const auto twelve = encode(long_frame);
  add("frame_too_long", Bytes(twelve.begin(), twelve.end()));
  add("unknown_type", spoilt(frame_bytes(prefix_of(FrameType::data, 1), none), 3, 0x33));
  add("reserved_flags", spoilt(open(1, 0, 10, 10), 10, 0x80));
  add("unknown_class", spoilt(open(1, 0, 10, 10), 11, 3));
  add("hello_repeated", frame_bytes(prefix_of(FrameType::hello, 0), encode_head(Hello())));
  add("stream_id", open(2, 0, 10, 10));
  add("stream_reused", joined(open(3, 0, 10, 10), open(3, 0, 10, 10)));
  add("stream_unknown", data(9, 0, 10));
  add("overdrawn", open(1, 0, 300 * 1024, 300 * 1024));
  add("message_size", open(1, kMore, 100, 50));
  add("message_size", joined(open(1, kMore, 100, 200), data(1, 0, 150)));
  add("message_size", open(1, kMore, 100, 0x7fffffff));
  add("data_after_last", joined(open(1, kLast, 10, 10), data(1, 0, 10)));
  add("class_changed", joined(open(1, 0, 10, 10), spoilt(data(1, 0, 10), 11, 2)));
  add("unexpected_payload", frame_bytes(prefix_of(FrameType::end, 1), none, Bytes(10)));
  add("malformed_head", frame_bytes(prefix_of(FrameType::credit, 0), bytes_of("nonsense")));
  add("malformed_head", frame_bytes(prefix_of(FrameType::ping, 0), none));
  Bytes many;
  for (StreamId stream = 1; stream < 600; stream += 2) many = joined(std::move(many), open(stream, 0, 1, 1));
  add("too_many_streams", std::move(many));
  return all;
}

}  // namespace

TEST_CASE("bad input: what is no TLS is closed at once, silence and dripping at 10 s") {
  World in;
  const auto scenario = [&]() -> Task<> {
    Random random(5);
    for (int i = 0; i < 200; ++i) {
      Bytes noise(2 + random.below(3000));
      for (std::byte& byte : noise) byte = static_cast<std::byte>(random.next());
      noise[0] = std::byte(i % 2 == 0 ? 0x16 : random.next());  // half of them begin like TLS
      if (i % 4 == 0) noise[1] = std::byte(3);
      const Duration took = co_await closed_after(in, std::move(noise), Duration::zero());
      CHECK(took < seconds(11));
      co_await in.world.clock().sleep_until(in.in(milliseconds(250)));
    }
    const Duration http = co_await closed_after(in, bytes_of("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), Duration::zero());
    CHECK(http < seconds(1));
    const Duration silent = co_await closed_after(in, Bytes(), Duration::zero());
    CHECK(silent >= seconds(10));
    CHECK(silent < seconds(11));
    const Duration slow = co_await closed_after(in, Bytes(100, std::byte(0x16)), seconds(1));
    CHECK(slow < seconds(11));
  };
  in.run(scenario);
  CHECK(in.handled == 0);
  CHECK(in.victim.refused("handshake") > 100);
}

TEST_CASE("bad input: an address may not take all places") {
  World in;
  const auto scenario = [&]() -> Task<> {
    std::vector<std::unique_ptr<ByteStream>> silent;
    for (int i = 0; i < 100; ++i) {
      auto stream = co_await in.stranger.dial(in.victim.address(), in.in(seconds(5)));
      if (stream) silent.push_back(std::move(*stream));
    }
    co_await in.world.clock().sleep_until(in.in(seconds(1)));
    SimNode third(in.world, in.network, 4);
    third.start();
    const TimePoint began = in.world.clock().now();
    const auto found = co_await third.endpoint().connect(in.victim.address(), in.in(seconds(5)));
    CHECK(found);
    CHECK(in.world.clock().now() - began < seconds(1));
    co_await third.stop();
  };
  in.run(scenario);
  CHECK(in.victim.refused("handshakes_of_address") + in.victim.refused("connects_of_address") >= 90);
}

TEST_CASE("bad input: a hello of another version, run or time is refused with what to do") {
  World in;
  const auto scenario = [&]() -> Task<> {
    struct Case {
      Hello hello;
      std::int64_t skew_ms;
      std::string reason;
    };
    Hello good;
    good.run = "test";
    std::vector<Case> cases(6, Case{good, 0, ""});
    cases[0].hello.version_min = cases[0].hello.version_max = 2;
    cases[0].reason = "version: ";
    cases[1].hello.run = "another";
    cases[1].reason = "run: ";
    cases[2].skew_ms = 61'000;
    cases[2].reason = "clock: your clock is 61.0 s ahead";
    cases[3].skew_ms = -61'000;
    cases[3].reason = "clock: your clock is 61.0 s behind";
    cases[4].skew_ms = 59'000;
    cases[5].skew_ms = -59'000;
    for (Case& one : cases) {
      RawPeer peer(50, in.stranger, in.world.clock());
      peer.hello = one.hello;
      peer.skew_ms = one.skew_ms;
      const auto opened = co_await peer.open(in.victim.address());
      CAPTURE(one.reason);
      CHECK(opened.has_value() == one.reason.empty());
      if (!opened) CHECK(opened.error().reason.substr(0, one.reason.size()) == one.reason);
      co_await in.world.clock().sleep_until(in.in(seconds(1)));
    }
  };
  in.run(scenario);
}

TEST_CASE("bad input: a stranger's numeric address is kept to dial it, a name is not") {
  World in;
  const auto scenario = [&]() -> Task<> {
    RawPeer named(50, in.stranger, in.world.clock());
    named.hello.listen = {"a-name.example:4600"};
    RawPeer numeric(51, in.stranger, in.world.clock());
    numeric.hello.listen = {"a-name.example:4600", "10.0.0.3:4600"};
    for (RawPeer* peer : {&named, &numeric}) {
      auto opened = co_await peer->open(in.victim.address());
      REQUIRE(opened);
      (*opened)->stream->close();
      co_await in.world.clock().sleep_until(in.in(seconds(1)));
    }
    CHECK_FALSE(in.victim.endpoint().can_reach(named.id()));
    CHECK(in.victim.endpoint().can_reach(numeric.id()));
  };
  in.run(scenario);
}

TEST_CASE("bad input: each broken rule closes, counts and blocks") {
  for (const Violation& violation : violations()) {
    CAPTURE(violation.rule);
    World in;
    const auto scenario = [&]() -> Task<> {
      RawPeer peer(50, in.stranger, in.world.clock());
      auto opened = co_await peer.open(in.victim.address());
      REQUIRE(opened);
      (void)co_await RawPeer::say(**opened, violation.bytes);
      const bool closed = co_await peer.closed_before(**opened, in.in(seconds(3)));
      CHECK(closed);
      const auto again = co_await peer.open(in.victim.address());
      REQUIRE(!again);
      CHECK(again.error().reason.substr(0, 5) == "busy:");
      CHECK(again.error().number > 0);  // when the block ends
    };
    in.run(scenario);
    CHECK(in.victim.refused(violation.rule) == 1);
    CHECK(in.victim.events("net.violation") == 1);
    CHECK(in.handled == 0);
  }
}

TEST_CASE("bad input: who breaks a rule is told which, also when it says good-bye in the same breath") {
  World in;
  const Violation violation = violations().front();
  std::string heard;
  const auto scenario = [&]() -> Task<> {
    RawPeer peer(50, in.stranger, in.world.clock());
    auto opened = co_await peer.open(in.victim.address());
    REQUIRE(opened);
    net::SecureChannel& channel = (*opened)->channel;
    CHECK(channel.seal(violation.bytes));
    CHECK(channel.close());
    const Bytes both(channel.output().begin(), channel.output().end());
    (void)co_await (*opened)->stream->write(both);
    Bytes buffer(64 * 1024);
    for (bool more = true; more;) {
      const auto size = co_await with_deadline(in.world.clock(), in.in(seconds(3)), (*opened)->stream->read(buffer));
      more = size && *size > 0;
      if (more) CHECK(channel.receive(std::span(buffer).first(*size)));
    }
    for (const std::byte byte : channel.opened()) heard += static_cast<char>(byte);
  };
  in.run(scenario);
  CHECK(heard.find(violation.rule) != std::string::npos);
  CHECK(in.victim.refused(violation.rule) == 1);
}

TEST_CASE("bad input: a damaged TLS record ends the connection, and the peer may come back at once") {
  World in;
  const auto scenario = [&]() -> Task<> {
    RawPeer peer(50, in.stranger, in.world.clock());
    auto opened = co_await peer.open(in.victim.address());
    REQUIRE(opened);
    Bytes record(100, std::byte(1));  // what somebody on the way may put in
    record[0] = std::byte(0x17);
    record[1] = record[2] = std::byte(3);
    record[3] = std::byte(0);
    record[4] = std::byte(95);
    (void)co_await (*opened)->stream->write(record);
    const bool closed = co_await peer.closed_before(**opened, in.in(seconds(3)));
    CHECK(closed);
    const auto again = co_await peer.open(in.victim.address());
    CHECK(again);
  };
  in.run(scenario);
  CHECK(in.victim.refused("tls_record") == 1);
  CHECK(in.victim.events("net.violation") == 0);
}

TEST_CASE("bad input: a record whose length was damaged swallows nothing of what its peer says after it") {
  World in;
  const auto scenario = [&]() -> Task<> {
    RawPeer peer(50, in.stranger, in.world.clock());
    auto opened = co_await peer.open(in.victim.address());
    REQUIRE(opened);
    net::RecordHeader header = net::record_header(60);
    header[1] ^= std::byte(0xff);  // 65,340 bytes seem to come
    (void)co_await (*opened)->stream->write(header);
    const bool closed = co_await peer.closed_before(**opened, in.in(seconds(1)));
    CHECK(closed);
  };
  in.run(scenario);
  CHECK(in.victim.refused("tls_record") == 1);
  CHECK(in.victim.events("net.violation") == 0);
}

TEST_CASE("bad input: whose record comes slowly is not silent") {
  World in;
  const auto scenario = [&]() -> Task<> {
    RawPeer peer(50, in.stranger, in.world.clock());
    auto opened = co_await peer.open(in.victim.address());
    REQUIRE(opened);
    (void)co_await (*opened)->stream->write(net::record_header(net::kRecordBytes));
    const auto drip = [&]() -> Task<> {
      for (;;) {
        co_await in.world.clock().sleep_until(in.in(milliseconds(1500)));
        const auto written = co_await (*opened)->stream->write(Bytes(60));
        if (!written) co_return;
      }
    };
    TaskGroup tasks(in.world.executor(), rethrow);
    tasks.spawn("drip", drip());
    const bool closed = co_await peer.closed_before(**opened, in.in(seconds(60)));
    CHECK_FALSE(closed);
    co_await tasks.stop();
  };
  in.run(scenario);
  CHECK(in.victim.refused("tls_record") == 0);
}

TEST_CASE("bad input: a connection whose other end is gone does not win over one that is alive") {
  for (const Duration between : {Duration(seconds(4)), Duration(milliseconds(500))}) {
    World in;
    const auto scenario = [&]() -> Task<> {
      RawPeer peer(50, in.stranger, in.world.clock());
      auto dead = co_await peer.open(in.victim.address());  // never answers a ping
      REQUIRE(dead);
      co_await in.world.clock().sleep_until(in.in(between));
      auto fresh = co_await peer.open(in.victim.address());  // of no later attempt, so the rule prefers the first
      REQUIRE(fresh);
      const bool dead_closed = co_await peer.closed_before(**dead, in.in(seconds(8)));
      CHECK(dead_closed);
      const bool fresh_closed = co_await peer.closed_before(**fresh, in.in(seconds(8)));
      CHECK_FALSE(fresh_closed);
      CHECK(in.victim.endpoint().link(peer.id()).connected);
    };
    in.run(scenario);
  }
}

TEST_CASE("bad input: one stranger, on however many connections, does not move our outside address") {
  World in;
  const auto scenario = [&]() -> Task<> {
    co_await in.world.clock().sleep_until(in.in(seconds(1)));  // the honest peer is there
    RawPeer another(40, in.network.add_host("10.0.0.4"), in.world.clock());
    auto confirms = co_await another.open(in.victim.address());
    REQUIRE(confirms);
    const auto& host = in.victim.endpoint().observed_host();
    CHECK(host == in.victim.address().host);
    std::vector<std::unique_ptr<RawPeer>> liars;
    std::vector<std::unique_ptr<Opened>> open;
    for (unsigned char i = 0; i < 3; ++i) {
      liars.push_back(std::make_unique<RawPeer>(static_cast<unsigned char>(50 + i), in.stranger, in.world.clock()));
      liars.back()->sees = parse_address(i == 0 ? "a-name.example:1" : "192.0.2.66:4600").value();
      auto opened = co_await liars.back()->open(in.victim.address());
      REQUIRE(opened);
      open.push_back(std::move(*opened));
      co_await in.world.clock().sleep_until(in.in(milliseconds(100)));
      CHECK(host == in.victim.address().host);
    }
    (*confirms)->stream->close();
    co_await in.world.clock().sleep_until(in.in(seconds(1)));
    CHECK(host == in.victim.address().host);  // one against one decides nothing
  };
  in.run(scenario);
}

TEST_CASE("bad input: optional frames of the future are skipped") {
  World in;
  const auto scenario = [&]() -> Task<> {
    RawPeer peer(50, in.stranger, in.world.clock());
    auto opened = co_await peer.open(in.victim.address());
    REQUIRE(opened);
    const Bytes future = spoilt(frame_bytes(prefix_of(FrameType::data, 77), Bytes(5), Bytes(1000)), 3, 0x80);
    (void)co_await RawPeer::say(**opened, joined(future, call_frame(1, 1000, 1, 10)));
    co_await in.world.clock().sleep_until(in.in(seconds(1)));
  };
  in.run(scenario);
  CHECK(in.handled == 1);
  CHECK(in.victim.events("net.violation") == 0);
}

TEST_CASE("bad input: a call over its size, without time, of no method or repeated has no effect") {
  World in;
  const auto scenario = [&]() -> Task<> {
    RawPeer peer(50, in.stranger, in.world.clock());
    auto opened = co_await peer.open(in.victim.address());
    REQUIRE(opened);
    Bytes all = call_frame(1, 1000, 1, 65 * 1024);
    all = joined(std::move(all), call_frame(3, 0, 2, 10));
    all = joined(std::move(all), call_frame(5, 3'600'001, 3, 10));
    all = joined(std::move(all), call_frame(7, 1000, 4, 10, "test.nothing"));
    all = joined(std::move(all), call_frame(9, 1000, 5, 10, "test.talk"));
    all = joined(std::move(all), call_frame(11, 1000, 6, 0));
    (void)co_await RawPeer::say(**opened, std::move(all));
    co_await in.world.clock().sleep_until(in.in(seconds(1)));
    CHECK(in.handled == 0);
    for (StreamId stream = 21; stream < 41; stream += 2)
      (void)co_await RawPeer::say(**opened, call_frame(stream, 1000, 9, 10));
    co_await in.world.clock().sleep_until(in.in(seconds(1)));
    CHECK(in.handled == 1);
    (void)in.victim.access().block(peer.id());
    (void)co_await RawPeer::say(**opened, call_frame(51, 1000, 10, 10));
    co_await in.world.clock().sleep_until(in.in(seconds(2)));
    CHECK(in.handled == 1);  // denied, and closed
  };
  in.run(scenario);
  CHECK(in.victim.events("net.violation") == 0);
}

TEST_CASE("bad input: a flood of calls is answered busy, then closed") {
  World in;
  const auto scenario = [&]() -> Task<> {
    RawPeer peer(50, in.stranger, in.world.clock());
    auto opened = co_await peer.open(in.victim.address());
    REQUIRE(opened);
    const auto flood = [&]() -> Task<> {
      for (StreamId stream = 1; stream < 4000; stream += 2) {
        const auto said =
            co_await RawPeer::say(**opened, call_frame(stream, 1000, static_cast<unsigned char>(stream), 10));
        if (!said) co_return;
      }
    };
    TaskGroup tasks(in.world.executor(), rethrow);
    tasks.spawn("flood", flood());
    const bool closed = co_await peer.closed_before(**opened, in.in(seconds(10)));
    CHECK(closed);
    co_await tasks.stop();
  };
  in.run(scenario);
  CHECK(in.handled <= 210);
  CHECK(in.victim.refused("call_flood") == 1);
}

TEST_CASE("bad input: whoever is refused all the time floods, whatever it asks for, and is closed once") {
  const auto nothing = [](StreamId stream) { return call_frame(stream, 1000, 1, 10, "test.nothing"); };
  const auto no_topic = [](StreamId stream) {
    OpenTopic head;
    head.protocol = "test.nothing";
    return frame_bytes(prefix_of(FrameType::open, stream), encode_open(head), Bytes(1));
  };
  const auto in_turns = [](StreamId stream) {  // refused for one reason, then for another
    return stream % 4 == 1 ? call_frame(stream, 0, 1, 10) : call_frame(stream, 1000, 1, 10, "test.nothing");
  };
  for (const std::function<Bytes(StreamId)>& frame :
       {std::function<Bytes(StreamId)>(nothing), std::function<Bytes(StreamId)>(no_topic),
        std::function<Bytes(StreamId)>(in_turns)}) {
    World in;
    const auto scenario = [&]() -> Task<> {
      RawPeer peer(50, in.stranger, in.world.clock());
      auto opened = co_await peer.open(in.victim.address());
      REQUIRE(opened);
      const auto flood = [&]() -> Task<> {
        for (StreamId stream = 1; stream < 4000; stream += 2) {
          const auto said = co_await RawPeer::say(**opened, frame(stream));
          if (!said) co_return;
        }
      };
      TaskGroup tasks(in.world.executor(), rethrow);
      tasks.spawn("flood", flood());
      const bool closed = co_await peer.closed_before(**opened, in.in(seconds(10)));
      CHECK(closed);
      co_await tasks.stop();
      co_await in.world.clock().sleep_until(in.in(seconds(2)));
    };
    in.run(scenario);
    CHECK(in.victim.refused("call_flood") == 1);
    CHECK(in.victim.events("net.violation") == 1);
  }
}

TEST_CASE("bad input: a message that hardly moves is given up after 10 s, and nobody is blocked for a bad line") {
  World in;
  const auto scenario = [&]() -> Task<> {
    RawPeer peer(50, in.stranger, in.world.clock());
    auto opened = co_await peer.open(in.victim.address());
    REQUIRE(opened);
    OpenCall head;
    head.method = "test.echo";
    head.left_ms = 3'000'000;
    head.size = 10'000;
    Bytes begin = frame_bytes(prefix_of(FrameType::open, 1, kMore), encode_open(head), Bytes(100));
    (void)co_await RawPeer::say(**opened, std::move(begin));
    const auto drip = [&]() -> Task<> {
      for (;;) {
        const auto said =
            co_await RawPeer::say(**opened, frame_bytes(prefix_of(FrameType::data, 1, kMore), Bytes(), Bytes(1)));
        if (!said) co_return;
        co_await in.world.clock().sleep_until(in.in(seconds(1)));
      }
    };
    TaskGroup tasks(in.world.executor(), rethrow);
    tasks.spawn("drip", drip());
    const bool closed = co_await peer.closed_before(**opened, in.in(seconds(25)));
    CHECK_FALSE(closed);
    co_await tasks.stop();
    (void)co_await RawPeer::say(**opened, call_frame(3, 1000, 1, 10));
    co_await in.world.clock().sleep_until(in.in(seconds(1)));
    CHECK(in.handled == 1);  // another stream of the same connection
  };
  in.run(scenario);
  CHECK(in.victim.refused("slow_message") == 1);
  CHECK(in.victim.events("net.violation") == 0);
}

}  // namespace collab::net
