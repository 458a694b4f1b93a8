#include "net/rpc.hpp"

#include "sim/simulation.hpp"
#include "support/peers.hpp"
#include "support/raw_peer.hpp"
#include "support/stream_pair.hpp"

#include "support/doctest.hpp"

namespace collab::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A server with one method of each claim, on streams that a test fills by hand.
struct Server final : Paths, MultiplexerOwner {
  explicit Server(const CallOptions& options = {})
      : access(Access::Options()),
        server({world.executor(), world.clock(), *this, access, log, metrics, methods}, options),
        streams(1, test::peer(9), false, *this, Multiplexer::Options()) {
    for (const Claim claim :
         {Claim::join, Claim::contribute, Claim::reduce, Claim::directory, Claim::relay, Claim::coordinate}) {
      Method method;
      method.name = "test." + std::string(name(claim));
      method.claim = claim;
      method.request_bytes_max = 1000;
      method.requests_burst = 20;
      const auto answer = [this](PeerId, Frame request, TimePoint) -> Task<Answer> {
        ++handled;
        if (slow) co_await world.clock().sleep_until(world.clock().now() + seconds(2));
        co_return request;
      };
      methods.add(method, answer);
      method.name += ".idempotent";
      method.idempotent = true;
      methods.add(method, answer);
    }
    access.refresh(TimePoint(), 0);
  }

  Task<Reached> reach(PeerId, TimePoint) override { co_return Refusal(Errc::gone); }
  Multiplexer* find(std::uint64_t serial) override { return serial == streams.serial() ? &streams : nullptr; }
  void waits(const PeerId&, int) override {}
  void converses(const PeerId&, int) override {}
  Accepted on_open(Multiplexer& from, StreamHandle stream, TrafficClass traffic, OpenHead head,
                   std::size_t bytes) override {
    return server.on_open(from, stream, traffic, std::get<OpenCall>(head), bytes, Duration::zero());
  }
  std::string_view on_connection_frame(FrameType, std::span<const std::byte>) override { return {}; }
  void on_output() override {}

  /// Sends a question; what comes back is in `asker`.
  StreamHandle ask(const std::string& method, std::uint32_t left_ms, unsigned char id, std::size_t bytes) {
    OpenCall head;
    head.method = method;
    head.id[0] = id;
    head.left_ms = left_ms;
    const Frame request = std::make_shared<const Buffer>(Bytes(bytes, std::byte(1)));
    const StreamHandle stream =
        asker.streams.open(TrafficClass::latency, asker, OpenHead(head), bytes > 0 ? request : nullptr, true).value();
    return stream;
  }

  /// Frames to and fro.
  void move() {
    for (int i = 0; i < 10; ++i) {
      pump(asker.streams, streams);
      pump(streams, asker.streams);
    }
  }
  static void pump(Multiplexer& from, Multiplexer& to) {
    Piece piece;
    Bytes wire;
    while (from.next(piece, 64 * 1024)) {
      const auto prefix = encode(piece.prefix);
      const auto payload = piece.payload();
      wire.insert(wire.end(), prefix.begin(), prefix.end());
      wire.insert(wire.end(), piece.head.begin(), piece.head.end());
      wire.insert(wire.end(), payload.begin(), payload.end());
    }
    REQUIRE(to.receive(wire));
  }

  /// Runs `body(tasks)` with the server serving.
  void run(const std::function<Task<>()>& body) {
    const auto all = [&]() -> Task<> {
      TaskGroup tasks(world.executor(), rethrow);
      server.use(&tasks);
      co_await body();
      server.use(nullptr);
      co_await tasks.stop();
    };
    world.run(all());
    streams.lose();
  }
  Task<> pause(Duration time) { return world.clock().sleep_until(world.clock().now() + time); }

  sim::Simulation world;
  Access access;
  Log log;
  Metrics metrics;
  MethodTable methods;
  bool slow = false;
  int handled = 0;
  test::StreamEndpoint asker{true};
  CallServer server;
  Multiplexer streams;
};

}  // namespace

TEST_CASE("calls: no method runs for a question with any defect") {
  Server example;
  for (const auto& entry : example.methods.rows()) {
    const std::string& method = entry.first;
    CAPTURE(method);
    Server server;
    const auto scenario = [&]() -> Task<> {
      const auto refused = [&](StreamHandle stream) {
        server.move();
        const auto found = server.asker.refusals.find(stream);
        return found == server.asker.refusals.end() ? Errc(0) : found->second.code;
      };
      CHECK(refused(server.ask(method, 1000, 1, 1001)) == Errc::bad_request);
      CHECK(refused(server.ask(method, 1000, 2, 0)) == Errc::bad_request);
      const Errc without_time = refused(server.ask(method, 0, 3, 10));
      const bool may = entry.second.method.claim != Claim::coordinate;  // an open run grants all but this one
      CHECK(without_time == (may ? Errc::bad_request : Errc::denied));
      (void)server.access.block(test::peer(9));
      CHECK(refused(server.ask(method, 1000, 4, 10)) == Errc::denied);
      co_await server.pause(seconds(1));
      CHECK(server.handled == 0);
      server.access.refresh(TimePoint(seconds(100)), 0);
      CHECK(refused(server.ask(method, 1000, 5, 10)) == (may ? Errc(0) : Errc::denied));
      co_await server.pause(seconds(1));
      CHECK(server.handled == (may ? 1 : 0));
    };
    server.run(scenario);
  }
}

TEST_CASE("calls: the same question again gets the same answer, while the handler runs and after") {
  Server server;
  server.slow = true;
  const auto scenario = [&]() -> Task<> {
    for (int i = 0; i < 3; ++i) (void)server.ask("test.join", 10'000, 1, 10);
    server.move();
    co_await server.pause(seconds(3));
    server.move();
    CHECK(server.asker.received.size() == 3);
    (void)server.ask("test.join", 10'000, 1, 10);
    server.move();
    CHECK(server.asker.received.size() == 4);
    CHECK(server.handled == 1);
    co_await server.pause(seconds(130));
    server.server.tick(server.world.clock().now());
    (void)server.ask("test.join", 10'000, 1, 10);  // forgotten
    server.move();
    co_await server.pause(seconds(3));
    CHECK(server.handled == 2);
  };
  server.run(scenario);
}

TEST_CASE("calls: more than the rate, or than may be in flight, is busy with a time to come back") {
  Server server;
  server.slow = true;
  const auto scenario = [&]() -> Task<> {
    std::vector<StreamHandle> asked;
    for (unsigned char i = 0; i < 25; ++i) asked.push_back(server.ask("test.join", 10'000, i, 10));
    server.move();
    for (std::size_t i = 0; i < asked.size(); ++i) CHECK(server.asker.refusals.contains(asked[i]) == (i >= 20));
    CHECK(server.asker.refusals[asked[24]].code == Errc::busy);
    CHECK(server.asker.refusals[asked[24]].number == 20);  // 50 per s
    for (unsigned char i = 100; i < 120; ++i) {
      (void)server.ask("test.reduce", 10'000, i, 10);
      (void)server.ask("test.relay", 10'000, static_cast<unsigned char>(i + 50), 10);
    }
    const StreamHandle more_than_64 = server.ask("test.directory", 10'000, 200, 10);
    (void)server.ask("test.directory", 10'000, 201, 10);
    for (unsigned char i = 202; i < 210; ++i) asked.push_back(server.ask("test.directory", 10'000, i, 10));
    server.move();
    CHECK_FALSE(server.asker.refusals.contains(more_than_64));
    CHECK(server.asker.refusals[asked.back()].code == Errc::busy);
    co_await server.pause(seconds(3));
    CHECK(server.handled == 64);
  };
  server.run(scenario);
}

TEST_CASE("calls: a handler is ended at its deadline, and when its asker gives up") {
  Server server;
  server.slow = true;
  const auto scenario = [&]() -> Task<> {
    const StreamHandle late = server.ask("test.join", 500, 1, 10);
    const StreamHandle given_up = server.ask("test.join", 10'000, 2, 10);
    server.move();
    co_await server.pause(milliseconds(100));
    CHECK(server.handled == 2);  // both have begun
    server.asker.streams.reset(given_up, Refusal(Errc::late));
    server.move();
    co_await server.pause(milliseconds(600));
    server.server.tick(server.world.clock().now());
    co_await server.pause(milliseconds(1));
    server.move();
    CHECK(server.asker.refusals[late].code == Errc::late);
    CHECK(server.metrics.value("collab_calls_total", {{"method", "test.join"}, {"status", "late"}}) == 2);
  };
  server.run(scenario);
}

TEST_CASE("calls: an answer that nobody takes gives its place up after its deadline, and after 30 s without movement") {
  for (const std::uint32_t left_ms : {2000U, 3'600'000U}) {
    CAPTURE(left_ms);
    Server server;
    const auto scenario = [&]() -> Task<> {
      unsigned char id = 0;
      for (const char* method : {"test.join", "test.reduce", "test.relay", "test.directory"})
        for (int i = 0; i < 16; ++i) (void)server.ask(method, left_ms, id++, 10);
      Server::pump(server.asker.streams, server.streams);  // and never anything back: the asker does not read
      co_await server.pause(milliseconds(1));
      CHECK(server.handled == 64);
      const StreamHandle one_more = server.ask("test.contribute", 1000, 200, 10);
      Server::pump(server.asker.streams, server.streams);
      const milliseconds over = left_ms == 2000 ? milliseconds(3100) : milliseconds(30'000);
      co_await server.pause(over);
      server.server.tick(server.world.clock().now());
      (void)server.ask("test.contribute", 1000, 201, 10);
      Server::pump(server.asker.streams, server.streams);
      co_await server.pause(milliseconds(1));
      CHECK(server.handled == 65);
      server.move();
      CHECK(server.asker.refusals[one_more].code == Errc::busy);
      CHECK(server.metrics.value("collab_refused_total", {{"reason", "call_overdue"}}) == 64);
    };
    server.run(scenario);
  }
}

TEST_CASE("calls: an answer over its bound is refused and logged with its method, and the server goes on") {
  Server server;
  Method method;
  method.name = "test.brief";
  method.answer_bytes_max = 10;
  const auto answer = [](PeerId, Frame request, TimePoint) -> Task<Answer> { co_return request; };
  server.methods.add(method, answer);
  std::vector<std::string> told;
  server.log.observe([&](LogLevel level, std::string_view event, Log::Fields fields) {
    if (level == LogLevel::error)
      told.push_back(std::string(event) + " " + std::get<std::string>(fields.begin()->value));
  });
  const auto scenario = [&]() -> Task<> {
    const StreamHandle longer = server.ask("test.brief", 1000, 1, 11);
    const StreamHandle fits = server.ask("test.brief", 1000, 2, 10);
    server.move();
    co_await server.pause(milliseconds(1));
    server.move();
    CHECK(server.asker.refusals[longer].code == Errc::bad_request);
    CHECK_FALSE(server.asker.refusals.contains(fits));
    CHECK(server.asker.received.size() == 1);
  };
  server.run(scenario);
  CHECK(told == std::vector<std::string>(1, "net.answer_over_bound test.brief"));
  CHECK(server.metrics.value("collab_calls_total", {{"method", "test.brief"}, {"status", "bad_request"}}) == 1);
}

TEST_CASE("calls: a question that never arrives whole gives its place up") {
  Server server;
  const auto scenario = [&]() -> Task<> {
    OpenCall head;
    head.method = "test.join";
    head.left_ms = 3'600'000;
    head.size = 1000;
    const Bytes begun =
        test::frame_bytes(test::prefix_of(FrameType::open, 1, kMore), encode_open(head), Bytes(100, std::byte(1)));
    REQUIRE(server.streams.receive(begun));
    server.server.tick(server.world.clock().now());
    CHECK(server.streams.open_streams() == 1);
    co_await server.pause(seconds(60));
    server.server.tick(server.world.clock().now());
    CHECK(server.streams.open_streams() == 0);
    CHECK(server.handled == 0);
  };
  server.run(scenario);
}

TEST_CASE("calls: answers that wait unsent have one bound for the node") {
  CallOptions options;
  options.answer_bytes_of_node_max = 5000;
  Server server(options);
  server.slow = true;
  const auto scenario = [&]() -> Task<> {
    std::vector<StreamHandle> asked;
    for (unsigned char i = 0; i < 10; ++i) asked.push_back(server.ask("test.join", 10'000, i, 1000));
    Server::pump(server.asker.streams, server.streams);
    co_await server.pause(milliseconds(2100));
    const StreamHandle refused_before_it_runs = server.ask("test.join", 10'000, 50, 10);
    Server::pump(server.asker.streams, server.streams);
    co_await server.pause(milliseconds(1));
    CHECK(server.handled == 10);
    server.move();
    CHECK(server.asker.refusals.size() == 6);
    CHECK(server.asker.refusals[refused_before_it_runs].code == Errc::busy);
    CHECK(server.asker.refusals[asked[9]].code == Errc::busy);
    CHECK(server.asker.received.size() == 5);
    (void)server.ask("test.join", 10'000, 51, 10);  // all were taken, so there is room again
    server.move();
    co_await server.pause(milliseconds(1));
    CHECK(server.handled == 11);
  };
  server.run(scenario);
}

TEST_CASE("calls: remembered answers have one bound for the node, and the oldest are then stale") {
  CallOptions options;
  options.remembered_bytes_of_node_max = 3000;
  Server server(options);
  const auto scenario = [&]() -> Task<> {
    for (unsigned char i = 0; i < 5; ++i) (void)server.ask("test.join", 10'000, i, 1000);
    server.move();
    co_await server.pause(milliseconds(1));
    server.move();
    CHECK(server.asker.received.size() == 5);
    std::vector<StreamHandle> again;
    for (unsigned char i = 0; i < 5; ++i) again.push_back(server.ask("test.join", 10'000, i, 1000));
    server.move();
    co_await server.pause(milliseconds(1));
    server.move();
    CHECK(server.handled == 5);
    CHECK(server.asker.received.size() == 8);
    CHECK(server.asker.refusals.size() == 2);
    for (std::size_t i = 0; i < 2; ++i) CHECK(server.asker.refusals[again[i]].code == Errc::stale);
  };
  server.run(scenario);
}

TEST_CASE("calls: an idempotent method is answered again by its handler, but runs once for those who ask meanwhile") {
  Server server;
  server.slow = true;
  const auto scenario = [&]() -> Task<> {
    for (int i = 0; i < 3; ++i) (void)server.ask("test.join.idempotent", 10'000, 1, 10);
    server.move();
    co_await server.pause(seconds(3));
    server.move();
    CHECK(server.asker.received.size() == 3);
    CHECK(server.handled == 1);
    (void)server.ask("test.join.idempotent", 10'000, 1, 10);
    server.move();
    co_await server.pause(seconds(3));
    server.move();
    CHECK(server.asker.received.size() == 4);
    CHECK(server.handled == 2);
  };
  server.run(scenario);
}

TEST_CASE("calls: an idempotent handler that answers before it waits leaves nothing behind") {  // seen by sanitizers
  Server server;
  const auto scenario = [&]() -> Task<> {
    for (std::size_t i = 1; i <= 3; ++i) {
      (void)server.ask("test.join.idempotent", 10'000, 1, 10);
      server.move();
      CHECK(server.asker.received.size() == i);
      CHECK(server.handled == i);
    }
    co_return;
  };
  server.run(scenario);
}

TEST_CASE("calls: one that runs long does not keep the answers after it from being forgotten") {
  CallOptions options;
  options.remembered_max = 4;
  Server server(options);
  const auto scenario = [&]() -> Task<> {
    server.slow = true;
    (void)server.ask("test.join", 10'000, 100, 10);
    server.move();
    co_await server.pause(milliseconds(1));
    server.slow = false;
    for (unsigned char i = 0; i < 10; ++i) (void)server.ask("test.join", 10'000, i, 10);
    server.move();
    co_await server.pause(milliseconds(1));
    CHECK(server.handled == 11);
    (void)server.ask("test.join", 10'000, 0, 10);    // forgotten, so it runs again
    (void)server.ask("test.join", 10'000, 100, 10);  // still runs, so it does not
    server.move();
    co_await server.pause(milliseconds(1));
    CHECK(server.handled == 12);
  };
  server.run(scenario);
}

}  // namespace collab::net
