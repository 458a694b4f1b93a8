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
  return std::make_shared<const Buffer>(Bytes(bytes, std::byte(1)));
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
    talk.name = "test.shallow";
    talk.shallow = true;
    methods.add(talk, Handler());
    access.refresh(TimePoint(), 0);
  }
  ~Node() override { streams.lose(); }

  Task<Reached> reach(PeerId, TimePoint) override {
    if (!reachable) co_return Refusal(Errc::gone);
    co_return &streams;
  }
  Multiplexer* find(std::uint64_t serial) override { return serial == streams.serial() ? &streams : nullptr; }
  Duration rtt_least(std::uint64_t) const override { return rtt; }
  void waits(const PeerId&, int) override {}
  void converses(const PeerId& peer, int change) override { attention[peer] += change; }
  void share_line() override { ++shared; }
  Accepted on_open(Multiplexer& from, StreamHandle stream, TrafficClass traffic, OpenHead head,
                   std::size_t message_bytes) override {
    return conversations.on_open(from, stream, traffic, std::get<OpenTopic>(head), message_bytes);
  }
  std::string_view on_connection_frame(FrameType, std::span<const std::byte>) override { return {}; }
  void on_output() override {}

  /// The stranger opens a stream about a topic, with a first message.
  StreamHandle say(std::size_t topic, std::size_t bytes, bool last = false, std::size_t occasion = 0) {
    OpenTopic head;
    head.protocol = "test.talk";
    head.topic = topic_of(topic);
    head.occasion = topic_of(occasion);
    const auto stream = stranger.streams.open(TrafficClass::latency, stranger, OpenHead(head), frame_of(bytes), last);
    move();
    return stream.value();
  }
  /// `count` messages about a topic on one stream.
  StreamHandle say_much(std::string_view protocol, std::size_t topic, int count, std::size_t bytes) {
    OpenTopic head;
    head.protocol = protocol;
    head.topic = topic_of(topic);
    const auto stream = stranger.streams.open(TrafficClass::bulk, stranger, OpenHead(head), frame_of(bytes), false);
    for (int i = 1; i < count; ++i) stranger.streams.send(stream.value(), frame_of(bytes), false);
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
  StreamHandle say_on(std::size_t occasion, std::size_t topic) { return say(topic, 1000, /*last=*/false, occasion); }
  std::unique_ptr<Conversation> open_on(std::size_t occasion, std::size_t topic) {
    auto talk = conversations.open("test.talk", Topic(topic_of(topic), topic_of(occasion)), {test::peer(9)});
    move();
    return talk;
  }
  bool is_refused(StreamHandle stream) { return stranger.refusals.contains(stream); }
  Task<> pause(Duration time) { return world.clock().sleep_until(world.clock().now() + time); }
  void tick() { conversations.tick(world.clock().now()); }

  std::map<PeerId, int> attention;
  bool reachable = false;
  int shared = 0;
  Duration rtt{};
  sim::Simulation world;
  Access access;
  Metrics metrics;
  MethodTable methods;
  test::StreamEndpoint stranger{true};
  Multiplexer streams;
  Conversations conversations;
};

}  // namespace

TEST_CASE("conversations: the silence of a member means something until it is removed, or the conversation ends") {
  Node node;
  auto talk = node.conversations.open("test.talk", Topic(topic_of(1)), {test::peer(7), test::peer(8)});
  talk->add_member(test::peer(9));
  talk->add_member(test::peer(9));
  using Counts = std::map<PeerId, int>;
  CHECK(node.attention == Counts{{test::peer(7), 1}, {test::peer(8), 1}, {test::peer(9), 1}});
  talk->remove_member(test::peer(7));
  talk->remove_member(test::peer(7));
  talk->remove_member(test::peer(6));
  CHECK(node.attention == Counts{{test::peer(7), 0}, {test::peer(8), 1}, {test::peer(9), 1}});
  talk.reset();
  CHECK(node.attention == Counts{{test::peer(7), 0}, {test::peer(8), 0}, {test::peer(9), 0}});
}

TEST_CASE("conversations: what is planned is a flow from its first frame on, until all of it has left") {
  Node node;
  node.reachable = true;
  auto talk = node.conversations.open("test.talk", Topic(topic_of(1)), {test::peer(9)});
  talk->plan({{test::peer(9), 100'000}});
  CHECK(node.conversations.flows().empty());
  const auto say = [&](std::size_t bytes) {
    node.run([&]() -> Task<> {
      const TimePoint deadline = node.world.clock().now() + seconds(1);
      const auto sent = co_await talk->send(test::peer(9), TrafficClass::bulk, frame_of(bytes), deadline);
      CHECK(sent);
    });
  };
  say(60'000);
  CHECK(node.shared == 1);
  REQUIRE(node.conversations.flows().size() == 1);
  CHECK(node.conversations.flows()[0].id == node.streams.serial());
  CHECK(node.conversations.flows()[0].planned_bytes == 100'000);
  CHECK(node.conversations.flows()[0].waiting);
  node.move();
  REQUIRE(node.conversations.flows().size() == 1);
  CHECK_FALSE(node.conversations.flows()[0].waiting);
  say(50'000);
  CHECK(node.conversations.flows().size() == 1);
  node.move();
  CHECK(node.conversations.flows().empty());
}

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

TEST_CASE("conversations: of a shallow protocol little waits unread, and all of it comes") {
  for (const bool opened_later : {false, true}) {
    CAPTURE(opened_later);
    Node node;
    const auto open = [&] { return node.conversations.open("test.shallow", Topic(topic_of(1)), {test::peer(9)}); };
    std::unique_ptr<Conversation> talk = opened_later ? nullptr : open();
    node.say_much("test.shallow", 1, 100, 10'000);
    if (opened_later) talk = open();
    node.move();
    CHECK(node.conversations.unread() == 26);  // 256 KiB
    node.run([&]() -> Task<> {
      for (int i = 0; i < 100; ++i) {
        const auto came = co_await talk->receive(node.world.clock().now() + seconds(1));
        REQUIRE(came);
        node.move();
      }
    });
    talk.reset();
  }
  Node deep;
  const auto talk = deep.conversations.open("test.talk", Topic(topic_of(1)), {test::peer(9)});
  deep.say_much("test.talk", 1, 45, 10'000);
  CHECK(deep.conversations.unread() == 45);
}

TEST_CASE("conversations: a shallow protocol fills a long way that is fast, and no slow one") {
  for (const int read_per_round_trip : {10, 1000}) {  // frames of 10 kB, where the way takes 80 ms
    CAPTURE(read_per_round_trip);
    Node node;
    node.rtt = milliseconds(80);
    node.streams.widen_connection(TrafficClass::bulk, std::size_t(4) << 20U);
    const auto talk = node.conversations.open("test.shallow", Topic(topic_of(1)), {test::peer(9)});
    const StreamHandle stream = node.say_much("test.shallow", 1, 4000, 10'000);
    std::size_t longest = 0;
    node.run([&]() -> Task<> {
      for (int round_trip = 0; round_trip < 24; ++round_trip) {
        co_await node.pause(node.rtt);
        for (int i = 0; i < read_per_round_trip && node.conversations.unread() > 0; ++i)
          CHECK(co_await talk->receive(node.world.clock().now()));
        node.move();
        longest = std::max(longest, node.conversations.unread());
      }
    });
    if (read_per_round_trip == 10) CHECK(longest == 26);    // 256 KiB
    if (read_per_round_trip == 1000) CHECK(longest > 105);  // 2 MiB, less what the sender has not been told of
    CHECK(longest <= 210);
    CHECK(node.stranger.streams.is_open(stream));
  }
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

TEST_CASE("conversations: streams about another topic of an occasion are refused once one is open, or was") {
  Node node;
  const StreamHandle waits = node.say_on(7, 1);
  const StreamHandle meant = node.say_on(7, 2);
  const StreamHandle elsewhere = node.say_on(8, 3);
  const StreamHandle anywhere = node.say(4, 1000);
  CHECK(node.stranger.refusals.empty());
  auto talk = node.open_on(7, 2);
  CHECK(node.is_refused(waits));
  const StreamHandle late = node.say_on(7, 5);
  CHECK(node.is_refused(late));
  CHECK(node.conversations.unopened() == 2);
  CHECK(node.conversations.unread() == 3);
  for (const StreamHandle one : {meant, elsewhere, anywhere}) CHECK_FALSE(node.is_refused(one));
  talk.reset();
  CHECK(node.is_refused(node.say_on(7, 6)));
  for (const auto& [stream, why] : node.stranger.refusals) {
    CHECK(why.code == Errc::stale);
    CHECK(why.number == 1);
  }
  CHECK_FALSE(node.is_refused(node.say_on(9, 7)));
}

TEST_CASE("conversations: who refused for whatever reason, and talks about the topic since, is sent what is said") {
  for (const Errc why : {Errc::bad_request, Errc::denied, Errc::busy, Errc::stale}) {
    Node node;
    node.reachable = true;
    auto talk = node.conversations.open("test.talk", Topic(topic_of(1)), {test::peer(9)});
    const auto say = [&]() -> bool {
      bool said = false;
      node.run([&]() -> Task<> {
        const TimePoint deadline = node.world.clock().now() + seconds(1);
        const auto sent = co_await talk->send(test::peer(9), TrafficClass::control, frame_of(10), deadline);
        said = sent.has_value();
      });
      node.move();
      return said;
    };
    node.stranger.refuse = Refusal(why);  // as one that has just begun, and knows no protocols yet
    CHECK(say());
    CHECK_FALSE(say());
    node.stranger.refuse.reset();
    CHECK_FALSE(say());
    node.say(1, 10);
    CHECK(say());
    CHECK(node.stranger.received.size() == 1);
  }
}

TEST_CASE("conversations: a head without an occasion is as short as before there were any") {
  OpenTopic head;
  head.protocol = "test.talk";
  head.topic = topic_of(1);
  const Bytes without = encode_open(head);
  head.occasion = topic_of(2);
  const Bytes with = encode_open(head);
  CHECK(with.size() == without.size() + 9 + 34);
  const auto decoded = [](const Bytes& bytes) { return std::get<OpenTopic>(decode_open(bytes).value()); };
  CHECK(decoded(without).occasion == Digest{});
  CHECK(decoded(with).occasion == head.occasion);
  CHECK(decoded(with).topic == decoded(without).topic);
}

TEST_CASE("conversations: what a stream says about its occasion counts for that stream only") {
  Node node;
  const StreamHandle false_one = node.say_on(7, 1);
  const StreamHandle true_one = node.say_on(8, 1);
  const auto other = node.open_on(7, 2);
  CHECK(node.is_refused(false_one));
  CHECK_FALSE(node.is_refused(true_one));
  CHECK(node.conversations.unread() == 1);
  const auto talk = node.open_on(8, 1);
  CHECK_FALSE(node.is_refused(true_one));
  CHECK_FALSE(node.is_refused(node.say_on(7, 1)));  // open, whatever is said
  CHECK(node.conversations.unread() == 2);
}

TEST_CASE("conversations: an occasion is remembered as long as a topic of it is") {
  Conversations::Options options;
  options.closed_max = 2;
  Node node(options);
  node.open_on(7, 1).reset();
  node.open_on(7, 2).reset();
  node.open_on(7, 1).reset();  // once more: now it is the later one
  node.open_on(8, 3).reset();
  CHECK(node.is_refused(node.say_on(7, 4)));
  auto again = node.open_on(7, 1);
  node.open_on(8, 5).reset();
  CHECK(node.is_refused(node.say_on(7, 4)));
  again.reset();
  CHECK(node.is_refused(node.say_on(7, 4)));
  node.open_on(0, 6).reset();
  node.open_on(0, 6).reset();
  CHECK(node.is_refused(node.say_on(7, 4)));
  node.open_on(0, 9).reset();
  CHECK_FALSE(node.is_refused(node.say_on(7, 4)));
  CHECK_FALSE(node.is_refused(node.say_on(8, 10)));
}

TEST_CASE("conversations: what is closed is forgotten after a while, and its occasion with it") {
  Node node;
  node.open_on(7, 1).reset();
  node.run([&] { return node.pause(std::chrono::minutes(5)); });
  node.open_on(8, 2).reset();
  CHECK(node.is_refused(node.say_on(7, 1)));
  CHECK(node.is_refused(node.say_on(7, 3)));
  node.run([&] { return node.pause(std::chrono::minutes(6)); });
  node.open_on(9, 4).reset();
  CHECK_FALSE(node.is_refused(node.say_on(7, 1)));
  CHECK_FALSE(node.is_refused(node.say_on(7, 3)));
  CHECK(node.is_refused(node.say_on(8, 2)));
}

}  // namespace collab::net
