#include "net/limits.hpp"

#include "net/address.hpp"
#include "net/bandwidth_meter.hpp"
#include "net/peer_table.hpp"

#include <vector>

#include "support/doctest.hpp"

namespace collab::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TimePoint at(Duration time) {
  return TimePoint(time);
}

}  // namespace

TEST_CASE("address: text and back; brackets, ports and hosts are checked") {
  for (const char* text : {"10.0.0.1:4600", "[::1]:1", "example.org:65535", "[fe80::1%eth0]:80"}) {
    const auto address = parse_address(text);
    REQUIRE(address);
    CHECK(to_string(*address) == text);
  }
  for (const char* text : {"", "host", "host:", ":80", "host:0", "host:65536", "host:-1", "host:80x", "::1:80", "[::1]",
                           "[host]:80", "ho st:80", "[]:80"}) {
    CAPTURE(text);
    CHECK(parse_address(text).error() == Errc::bad_request);
  }
  CHECK(parse_address("host:0", true));
}

TEST_CASE("token bucket: the burst at once, then the rate") {
  TokenBucket bucket(5, 10, at(seconds(0)));
  int taken = 0;
  for (int i = 0; i < 100; ++i) taken += bucket.take(at(seconds(0))) ? 1 : 0;
  CHECK(taken == 10);
  CHECK(bucket.wait() == milliseconds(200));
  for (int i = 0; i < 100; ++i) taken += bucket.take(at(seconds(1))) ? 1 : 0;
  CHECK(taken == 15);
}

TEST_CASE("gate: an IPv6 /64 is one address, loopback is none, and a place is given back") {
  Gate gate{Gate::Options()};
  std::vector<Gate::Place> places;
  for (int i = 0; i < 8; ++i) {
    auto entry = gate.enter("2001:db8::" + std::to_string(i), at(seconds(0)));
    REQUIRE(entry.place);
    places.push_back(std::move(*entry.place));
  }
  CHECK(gate.enter("2001:db8::99", at(seconds(0))).bound == "handshakes_of_address");
  CHECK(gate.enter("2001:db8:0:1::1", at(seconds(0))).place);
  places.clear();
  CHECK(gate.enter("2001:db8::99", at(seconds(0))).place);
  for (int i = 0; i < 60; ++i) {
    auto entry = gate.enter("127.0.0.1", at(seconds(0)));
    REQUIRE(entry.place);
    places.push_back(std::move(*entry.place));
  }
  for (int i = 0; i < 4; ++i) {
    auto entry = gate.enter("127.0.0.1", at(seconds(0)));
    if (entry.place) places.push_back(std::move(*entry.place));
  }
  CHECK(gate.enter("127.0.0.1", at(seconds(0))).bound == "handshakes");
  for (Gate::Place& place : places) place.establish();
  CHECK(gate.enter("127.0.0.1", at(seconds(0))).place);
}

TEST_CASE("peer table: back-off doubles to its bound, and another address ends it") {
  PeerTable table(Random(1), PeerTable::Options());
  const PeerId peer{};
  std::vector<Address> here(1);
  here[0].host = "a";
  here[0].port = 1;
  table.introduce(peer, here, at(seconds(0)));
  CHECK(table.may_dial(peer, at(seconds(0))));
  Duration last{};
  for (int i = 0; i < 12; ++i) {
    table.failed(peer, Refusal(Errc::denied), at(seconds(0)));
    const Duration wait = table.find(peer)->retry_at - at(seconds(0));
    const Duration full = std::min<Duration>(milliseconds(500) * (1 << i), seconds(60));
    CHECK(wait >= full / 2);
    CHECK(wait <= full * 3 / 2);
    last = wait;
  }
  CHECK_FALSE(table.may_dial(peer, at(last) - milliseconds(1)));
  CHECK(table.may_dial(peer, at(last)));
  table.introduce(peer, here, at(seconds(1)));  // nothing new
  CHECK_FALSE(table.may_dial(peer, at(seconds(1))));
  here[0].port = 2;
  table.introduce(peer, here, at(seconds(1)));
  CHECK(table.may_dial(peer, at(seconds(1))));
}

TEST_CASE("bandwidth: only stretches in which the link was the limit count") {
  BandwidthMeter meter;
  const auto send_for = [&](TimePoint from, int pieces, std::size_t bytes) {
    meter.begin(from);
    for (int i = 1; i <= pieces; ++i) meter.add(from + milliseconds(10) * i, bytes);
    meter.pause();
  };
  send_for(at(seconds(1)), 5, 1'000'000);  // 50 ms
  CHECK(meter.bytes_per_s() == 0);
  send_for(at(seconds(2)), 100, 1000);  // 100 kB/s: too few bytes to tell
  CHECK(meter.bytes_per_s() == 0);
  send_for(at(seconds(10)), 100, 100'000);
  CHECK(meter.bytes_per_s() == doctest::Approx(1e7));
  send_for(at(seconds(130)), 100, 200'000);
  CHECK(meter.bytes_per_s() > 1.8e7);  // the newer one counts sixteen times as much
}

}  // namespace collab::net
