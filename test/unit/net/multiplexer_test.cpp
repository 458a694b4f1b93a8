#include "net/multiplexer.hpp"

#include "base/random.hpp"
#include "support/stream_pair.hpp"

#include <algorithm>
#include <numeric>

#include "support/doctest.hpp"

namespace collab::net {
namespace {

using test::carry;
using test::settle;
using test::StreamEndpoint;

Frame filled(std::size_t bytes, unsigned char value = 1) {
  return std::make_shared<const Buffer>(Bytes(bytes, std::byte(value)));
}

StreamHandle open(StreamEndpoint& end, TrafficClass traffic, Frame first, bool last = false) {
  OpenTopic head;
  head.protocol = "test";
  return end.streams.open(traffic, end, OpenHead(head), std::move(first), last).value();
}

/// The other end of everything; what is between the two is exact.
struct Ends {
  StreamEndpoint a{true};
  StreamEndpoint b{false};
};

}  // namespace

TEST_CASE("prefix: twelve bytes, there and back") {
  Random random(1);
  for (int i = 0; i < 1000; ++i) {
    Prefix prefix;
    prefix.body_bytes = static_cast<std::uint32_t>(random.below(1U << 24U));
    prefix.type = static_cast<std::uint8_t>(random.next());
    prefix.stream = static_cast<std::uint32_t>(random.next());
    prefix.head_bytes = static_cast<std::uint16_t>(random.next());
    prefix.flags = static_cast<std::uint8_t>(random.next());
    prefix.traffic = static_cast<std::uint8_t>(random.next());
    CHECK(decode_prefix(encode(prefix)) == prefix);
  }
}

TEST_CASE("streams: a message leaves also in pieces that are shorter than a small one") {
  Ends ends;
  open(ends.a, TrafficClass::bulk, filled(10'000, 7), true);
  REQUIRE(carry(ends.a, ends.b, 1000));
  REQUIRE(ends.b.received.size() == 1);
  CHECK(*ends.b.received[0].second == *filled(10'000, 7));
}

TEST_CASE("streams: messages of every size arrive whole and in order, however the bytes are cut") {
  for (const std::size_t split : {std::size_t(1000), std::size_t(1 << 17), std::size_t(1 << 22)}) {
    CAPTURE(split);
    Ends ends;
    const StreamHandle stream = open(ends.a, TrafficClass::bulk, nullptr);
    Random random(split);
    std::vector<Frame> sent;
    for (std::size_t i = 0; i < 30; ++i) {
      sent.push_back(filled(1 + random.below(i % 3 == 0 ? kMessageBytesMax : 5000), static_cast<unsigned char>(i)));
      ends.a.streams.send(stream, sent.back(), false);
    }
    ends.a.streams.end(stream);
    for (int i = 0; i < 100; ++i) {
      REQUIRE(carry(ends.a, ends.b, 64 * 1024, 1000, split));
      REQUIRE(carry(ends.b, ends.a));
    }
    REQUIRE(ends.b.received.size() == sent.size());
    for (std::size_t i = 0; i < sent.size(); ++i) CHECK(*ends.b.received[i].second == *sent[i]);
    CHECK(ends.b.ends == 1);
  }
}

TEST_CASE("streams: a message as long as may be passes windows that are shorter") {
  for (const TrafficClass traffic : {TrafficClass::control, TrafficClass::latency, TrafficClass::bulk}) {
    CAPTURE(static_cast<int>(traffic));
    Ends ends;
    ends.b.traffic = traffic;
    for (int i = 0; i < 3; ++i) (void)open(ends.a, traffic, filled(kMessageBytesMax), true);
    REQUIRE(settle(ends.a, ends.b));
    CHECK(ends.b.received.size() == 3);
  }
}

TEST_CASE("streams: control first, then latency, then bulk, decided at every frame") {
  Ends ends;
  (void)open(ends.a, TrafficClass::bulk, filled(200'000));
  (void)open(ends.a, TrafficClass::latency, filled(200'000));
  Piece piece;
  REQUIRE(ends.a.streams.next(piece, 16'384));
  CHECK(piece.prefix.traffic == 1);
  (void)open(ends.a, TrafficClass::control, filled(100));
  REQUIRE(ends.a.streams.next(piece, 16'384));
  CHECK(piece.prefix.traffic == 0);
  REQUIRE(ends.a.streams.next(piece, 16'384));
  CHECK(piece.prefix.traffic == 1);
}

TEST_CASE("streams: a reader that does not read gets one window, and then the rest when it does") {
  Ends ends;
  ends.b.reads = false;
  const StreamHandle stream = open(ends.a, TrafficClass::bulk, nullptr);
  for (int i = 0; i < 40; ++i) ends.a.streams.send(stream, filled(50'000), false);
  REQUIRE(settle(ends.a, ends.b));
  CHECK(ends.b.received.size() <= kStreamCredit[2] / 50'000 + 1);
  const StreamHandle other = open(ends.a, TrafficClass::control, filled(10));  // another class is not held back
  REQUIRE(settle(ends.a, ends.b));
  CHECK(ends.b.received.back().second->size() == 10);
  CHECK(ends.a.streams.is_open(other));
  for (std::size_t i = 0; i < ends.b.received.size(); ++i) {
    const auto& [from, message] = ends.b.received[i];
    if (message->size() == 50'000) ends.b.streams.consumed(from, TrafficClass::bulk, message->size());
    REQUIRE(settle(ends.a, ends.b));
  }
  CHECK(ends.b.received.size() == 41);
}

TEST_CASE("streams: credit that is taken back is gone once it was used, and was good until then") {
  Ends ends;
  constexpr std::size_t kGranted = 1'000'000;
  const StreamHandle stream = open(ends.a, TrafficClass::bulk, nullptr);
  REQUIRE(settle(ends.a, ends.b));
  ends.b.streams.widen(ends.b.opened.front());
  ends.b.streams.widen_connection(TrafficClass::bulk, kGranted);
  REQUIRE(settle(ends.a, ends.b));
  ends.b.streams.narrow_connection(TrafficClass::bulk, kGranted);
  ends.b.reads = false;
  for (int i = 0; i < 100; ++i) ends.a.streams.send(stream, filled(50'000), false);
  REQUIRE(settle(ends.a, ends.b));
  CHECK(ends.b.received.size() >= (kConnectionCredit[2] + kGranted) / 50'000);
  CHECK(ends.b.streams.not_yet_narrowed(TrafficClass::bulk) == kGranted);
  const std::size_t unread = ends.b.received.size();
  for (std::size_t i = 0; i < unread; ++i)
    ends.b.streams.consumed(ends.b.received[i].first, TrafficClass::bulk, ends.b.received[i].second->size());
  REQUIRE(settle(ends.a, ends.b));
  CHECK(ends.b.streams.not_yet_narrowed(TrafficClass::bulk) == 0);
  const std::size_t after = ends.b.received.size() - unread;
  CHECK(after > 0);
  CHECK(after <= kConnectionCredit[2] / 50'000 + 1);
}

TEST_CASE("streams: one that is held gets its first credit only, until somebody reads") {
  Ends ends;
  ends.b.hold = true;
  const StreamHandle stream = open(ends.a, TrafficClass::bulk, filled(1'000'000));
  REQUIRE(settle(ends.a, ends.b));
  CHECK(ends.b.received.empty());
  CHECK(ends.b.streams.traffic().received[2] <= kStreamCredit[2]);
  CHECK(ends.a.streams.queued(stream) == 1'000'000 - 256 * 1024);
  ends.b.streams.widen(ends.b.opened.front());
  REQUIRE(settle(ends.a, ends.b));
  CHECK(ends.b.received.size() == 1);
}

TEST_CASE("streams: one that waits for its reader leaves room for the others of its class") {
  for (const TrafficClass traffic : {TrafficClass::control, TrafficClass::latency, TrafficClass::bulk}) {
    Ends ends;
    ends.a.traffic = ends.b.traffic = traffic;
    ends.b.hold = true;
    ends.b.reads = false;
    const StreamHandle stream = open(ends.a, traffic, nullptr);
    for (int i = 0; i < 40; ++i) ends.a.streams.send(stream, filled(30'000), false);
    REQUIRE(settle(ends.a, ends.b));
    ends.b.hold = false;
    ends.b.reads = true;
    const std::size_t before = ends.b.received.size();
    (void)open(ends.a, traffic, filled(1000), true);
    REQUIRE(settle(ends.a, ends.b));
    CHECK(ends.b.received.size() == before + 1);
  }
}

TEST_CASE("streams: a reset frees both ends, and what was on its way does not count against the connection") {
  Ends ends;
  for (int round = 0; round < 50; ++round) {
    ends.b.reads = false;
    const StreamHandle stream = open(ends.a, TrafficClass::bulk, filled(200'000));
    REQUIRE(carry(ends.a, ends.b, 16'384, 3));  // half of it
    const Refusal why(Errc::stale, "over", 7);
    ends.b.streams.reset(ends.b.opened.back(), why);
    REQUIRE(settle(ends.a, ends.b));
    REQUIRE(ends.a.closed.contains(stream));
    CHECK(ends.a.refusals[stream].code == Errc::stale);
    CHECK(ends.a.refusals[stream].number == 7);
  }
  CHECK(ends.a.streams.open_streams() == 0);
  CHECK(ends.b.streams.open_streams() == 0);
  ends.b.reads = true;
  (void)open(ends.a, TrafficClass::bulk, filled(250'000));
  REQUIRE(settle(ends.a, ends.b));
  CHECK(ends.b.received.back().second->size() == 250'000);
}

TEST_CASE("streams: in the middle of a frame there is room for the rest of it, until its stream is reset") {
  Ends ends;
  (void)open(ends.a, TrafficClass::bulk, filled(50'000));
  Piece piece;
  REQUIRE(ends.a.streams.next(piece, 64 * 1024));
  const auto prefix = encode(piece.prefix);
  Bytes wire(prefix.begin(), prefix.end());
  wire.insert(wire.end(), piece.head.begin(), piece.head.end());
  CHECK(ends.b.streams.room().empty());
  REQUIRE(ends.b.streams.receive(wire).value() == wire.size());
  REQUIRE(ends.b.streams.room().size() == 50'000);
  const auto payload = piece.payload();
  std::copy_n(payload.begin(), 20'000, ends.b.streams.room().begin());
  ends.b.streams.filled(20'000);
  CHECK(ends.b.streams.room().size() == 30'000);
  ends.b.streams.reset(ends.b.opened.back(), Refusal(Errc::stale));
  CHECK(ends.b.streams.room().empty());
  CHECK(ends.b.streams.receive(payload.subspan(20'000)).value() == 30'000);
  CHECK(ends.b.received.empty());
  REQUIRE(settle(ends.a, ends.b));
  (void)open(ends.a, TrafficClass::bulk, filled(250'000));  // credit is whole again
  REQUIRE(settle(ends.a, ends.b));
  CHECK(ends.b.received.back().second->size() == 250'000);
}

TEST_CASE("streams: a refused one is closed at the other end with the reason") {
  Ends ends;
  ends.b.refuse = Refusal(Errc::denied, "not you\x1b[2J");
  const StreamHandle stream = open(ends.a, TrafficClass::latency, filled(10), true);
  REQUIRE(settle(ends.a, ends.b));
  CHECK(ends.a.closed.at(stream) == StreamEnd::refused);
  CHECK(ends.a.refusals[stream].reason == "not you?[2J");
  CHECK(ends.b.received.empty());
}

TEST_CASE("streams: question and answer close a stream at both ends") {
  Ends ends;
  ends.a.traffic = ends.b.traffic = TrafficClass::latency;
  const StreamHandle stream = open(ends.a, TrafficClass::latency, filled(10), true);
  REQUIRE(settle(ends.a, ends.b));
  ends.b.streams.send(ends.b.opened.front(), filled(20), true);
  REQUIRE(settle(ends.a, ends.b));
  CHECK(ends.a.received.front().second->size() == 20);
  CHECK(ends.a.closed.at(stream) == StreamEnd::done);
  CHECK(ends.b.closed.at(ends.b.opened.front()) == StreamEnd::done);
}

TEST_CASE("streams: no more than the bound are open, and a lost connection tells them all") {
  Ends ends;
  for (std::size_t i = 0; i < 256; ++i) (void)open(ends.a, TrafficClass::latency, filled(1));
  OpenTopic head;
  CHECK(ends.a.streams.open(TrafficClass::latency, ends.a, OpenHead(head), nullptr, false).error() == Errc::busy);
  ends.a.streams.lose();
  CHECK(ends.a.closed.size() == 256);
  CHECK(ends.a.streams.open_streams() == 0);
}

TEST_CASE("streams: any bytes are taken or refused, and nothing is read past them") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    StreamEndpoint end(false);
    Bytes noise(random.below(5000));
    for (std::byte& byte : noise) byte = static_cast<std::byte>(random.below(random.chance(0.5) ? 8 : 256));
    const auto taken = end.streams.receive(noise);
    if (taken) {
      CHECK(*taken <= noise.size());
    } else {
      CHECK_FALSE(end.streams.violation().empty());
    }
    end.streams.lose();
  }
}

}  // namespace collab::net
