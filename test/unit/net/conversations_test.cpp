#include "net/conversations.hpp"

#include "sim/simulation.hpp"
#include "support/peers.hpp"
#include "support/stream_pair.hpp"

#include "support/doctest.hpp"

namespace collab::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Digest topic_of(std::size_t number) {
  Digest topic{};
  topic[0] = static_cast<unsigned char>(number);
  topic[1] = static_cast<unsigned char>(number >> 8U);
  return topic;
}

Frame frame_of(std::size_t bytes) {
  return std::make_shared<const Bytes>(bytes, std::byte(1));
}

/// A node's conversations, and a stranger whose frames a test sends by hand.
struct Node final : Paths, MultiplexerOwner {
  explicit Node(const Conversations::Options& options = {})
      : access(Access::Options()),
        streams(1, test::peer(9), false, *this, Multiplexer::Options()),
        conversations({world.executor(), world.clock(), *this, access, metrics, methods, test::peer(1)}, options) {
    Method talk;
    talk.name = "test.talk";
    methods.add(talk, Handler());
    access.refresh(TimePoint(), 0);
  }
  ~Node() override { streams.lose(); }

  Task<Reached> reach(PeerId, TimePoint) override { co_return Refusal(Errc::gone); }
  Multiplexer* find(std::uint64_t serial) override { return serial == streams.serial() ? &streams : nullptr; }
  void waits(const PeerId&, int) override {}
  void converses(const PeerId&, int) override {}
  Accepted on_open(Multiplexer& from, StreamHandle stream, TrafficClass traffic, OpenHead head,
                   std::size_t message_bytes) override {
    return conversations.on_open(from, stream, traffic, std::get<OpenTopic>(head), message_bytes);
  }
  std::string_view on_connection_frame(FrameType, std::span<const std::byte>) override { return {}; }
  void on_output() override {}

  /// The stranger opens a stream about a topic, with a first message.
  StreamHandle say(std::size_t topic, std::size_t bytes, bool last = false) {
    OpenTopic head;
    head.protocol = "test.talk";
    head.topic = topic_of(topic);
    const auto stream = stranger.streams.open(TrafficClass::latency, stranger, OpenHead(head), frame_of(bytes), last);
    move();
    return stream.value();
  }
  void move() {
    for (int i = 0; i < 10; ++i) {
      pump(stranger.streams, streams);
      pump(streams, stranger.streams);
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
  void run(const std::function<Task<>()>& scenario) { world.run(scenario()); }
  Task<> pause(Duration time) { return world.clock().sleep_until(world.clock().now() + time); }
  void tick() { conversations.tick(world.clock().now()); }

  sim::Simulation world;
  Access access;
  Metrics metrics;
  MethodTable methods;
  test::StreamEndpoint stranger{true};
  Multiplexer streams;
  Conversations conversations;
};

}  // namespace

TEST_CASE("conversations: a stream of one-byte messages about a topic that nobody opens is refused at 1024") {
  Node node;
  const StreamHandle stream = node.say(1, 1);
  for (int i = 0; i < 3000; ++i) node.stranger.streams.send(stream, frame_of(1), false);
  std::size_t most = 0;
  for (int i = 0; i < 100; ++i) {
    node.move();
    most = std::max(most, node.conversations.unread());
  }
  CHECK(most <= 1024);
  CHECK(node.stranger.refusals[stream].code == Errc::busy);
  CHECK(node.conversations.unread() == 0);
  CHECK(node.conversations.unopened() == 0);
  CHECK(node.metrics.value("collab_refused_total", {{"reason", "unread"}}) == 1);
}

TEST_CASE("conversations: a frame over its protocol's bound is refused, and nobody reads it") {
  Node node;
  const std::size_t bound = Method().request_bytes_max;
  const auto open = node.conversations.open("test.talk", topic_of(1), {test::peer(9)});
  const StreamHandle whole = node.say(1, bound);
  CHECK(node.conversations.unread() == 1);
  CHECK_FALSE(node.stranger.refusals.contains(whole));
  const StreamHandle longer = node.say(1, bound + 1);
  node.move();
  CHECK(node.conversations.unread() == 1);
  REQUIRE(node.stranger.refusals.contains(longer));
  CHECK(node.stranger.refusals[longer].code == Errc::bad_request);
  CHECK_FALSE(node.stranger.refusals.contains(whole));
  node.stranger.streams.send(whole, frame_of(bound + 1), false);
  node.move();
  REQUIRE(node.stranger.refusals.contains(whole));
  CHECK(node.stranger.refusals[whole].code == Errc::bad_request);
  CHECK(node.metrics.value("collab_refused_total", {{"reason", "size"}}) == 2);
}

TEST_CASE("conversations: one peer's frames on many streams have one bound, open topics included") {
  Node node;
  std::vector<std::unique_ptr<Conversation>> open;
  for (std::size_t topic = 0; topic < 10; ++topic)
    open.push_back(node.conversations.open("test.talk", topic_of(topic), {test::peer(9)}));
  for (std::size_t topic = 0; topic < 10; ++topic) {
    const StreamHandle stream = node.say(topic, 1);
    for (int i = 0; i < 2000; ++i) node.stranger.streams.send(stream, frame_of(1), false);
    node.move();
    CHECK(node.conversations.unread() <= 4096);
  }
  CHECK(node.stranger.refusals.size() >= 7);
  open.clear();
  CHECK(node.conversations.unread() == 0);
}

TEST_CASE("conversations: one peer names at most 16 topics that nobody opens, whatever it takes back") {
  Node node;
  std::vector<StreamHandle> streams;
  for (std::size_t topic = 0; topic < 40; ++topic) streams.push_back(node.say(topic, 1));
  CHECK(node.conversations.unopened() == 16);
  CHECK(node.conversations.unread() == 16);
  CHECK(node.stranger.refusals.size() == 24);
  CHECK(node.stranger.refusals[streams.back()].code == Errc::busy);
  for (const StreamHandle stream : streams) node.stranger.streams.reset(stream, Refusal(Errc::late));
  node.move();
  CHECK(node.conversations.unopened() == 0);  // at once, not after 5 s
  CHECK(node.conversations.unread() == 0);
  for (std::size_t topic = 100; topic < 400; ++topic) {
    const StreamHandle stream = node.say(topic, 1000);
    node.stranger.streams.reset(stream, Refusal(Errc::late));
    node.move();
    CHECK(node.conversations.unopened() <= 1);
  }
}

TEST_CASE("conversations: the 5 s of an unopened topic begin with its first stream, not with each") {
  Node node;
  const auto scenario = [&]() -> Task<> {
    (void)node.say(1, 1000, /*last=*/true);  // said all, so its stream ends, and what it said waits
    CHECK(node.conversations.unread() == 1);
    co_await node.pause(seconds(4));
    node.tick();
    const StreamHandle second = node.say(1, 1);
    node.stranger.streams.reset(second, Refusal(Errc::late));
    node.move();
    CHECK(node.conversations.unread() == 1);
    co_await node.pause(milliseconds(1100));
    node.tick();
    CHECK(node.conversations.unread() == 0);
    CHECK(node.conversations.unopened() == 0);
  };
  node.run(scenario);
}

TEST_CASE("conversations: who said all before the topic is opened is heard, and may name as many topics again") {
  Node node;
  const auto scenario = [&]() -> Task<> {
    for (std::size_t topic = 0; topic < 50; ++topic) {
      (void)node.say(topic, 1000, /*last=*/true);
      const auto talk = node.conversations.open("test.talk", topic_of(topic), {test::peer(9)});
      const auto heard = co_await talk->receive(node.world.clock().now() + seconds(1));
      REQUIRE(heard);
      CHECK(heard->frame->size() == 1000);
    }
    CHECK(node.stranger.refusals.empty());
    CHECK(node.conversations.unopened() == 0);
    CHECK(node.conversations.unread() == 0);
  };
  node.run(scenario);
}

}  // namespace collab::net
