#include "averaging/suspicion.hpp"

#include <vector>

#include "support/doctest.hpp"

namespace collab::averaging {
namespace {

using namespace std::chrono_literals;

/// Two peers; rank 1 is judged every 100 ms.
struct Watch {
  explicit Watch(SuspicionOptions options = {}) : suspicion(2, 0, TimePoint(), options), links(2) {
    links[1].connected = true;
    links[1].rtt = 20ms;
  }
  /// Time goes on; pings are answered while `answers`.
  Ranks until(Duration when) {
    while (now < TimePoint(when)) {
      now += 100ms;
      if (answers) links[1].last_received = now;
      links[1].line_bytes_received += bytes;
      if (bytes > 0 && frames) suspicion.heard(1, bytes, now);
      suspicion.check(now, links, debts);
    }
    return suspicion.suspected();
  }

  Suspicion suspicion;
  std::vector<net::LinkState> links;
  Suspicion::Debts debts;
  TimePoint now{};
  bool answers = true;
  std::size_t bytes = 0;  ///< that come in 100 ms
  bool frames = true;     ///< whole ones
};

}  // namespace

TEST_CASE("suspicion: who answers pings and owes nothing is left in peace") {
  Watch watch;
  CHECK(watch.until(60s) == 0);
}

TEST_CASE("suspicion: after half a second it is asked; unanswered that counts from 1 s to 4 s, by the round trip") {
  Watch near;
  near.until(1s);
  near.answers = false;
  CHECK(near.until(2400ms) == 0);
  CHECK(near.until(2600ms) == bit(1));
  CHECK(near.suspicion.ever(1) == LeftOut::frozen);
  Watch far;
  far.links[1].rtt = 300ms;
  far.answers = false;
  CHECK(far.until(2800ms) == 0);
  CHECK(far.until(3000ms) == bit(1));
  far.links[1].rtt = 5s;
  CHECK(far.suspicion.silence(far.links[1]) == 4s);
}

TEST_CASE("suspicion: who was not heard yet may be collecting its values, if it answers pings") {
  SuspicionOptions options;
  options.hand_over = 2s;
  Watch collecting(options);
  collecting.debts.parts = bit(1);
  CHECK(collecting.until(2900ms) == 0);
  CHECK(collecting.until(3200ms) == bit(1));
  Watch begun(options);
  begun.debts.parts = bit(1);
  begun.until(500ms);
  begun.suspicion.heard(1, 1, begun.now);
  CHECK(begun.until(1400ms) == 0);
  CHECK(begun.until(1700ms) == bit(1));
  Watch frozen(options);
  frozen.debts.parts = bit(1);
  frozen.answers = false;
  CHECK(frozen.until(1400ms) == 0);
  CHECK(frozen.until(1700ms) == bit(1));
  Watch asked(options);  // for its word on a view, when it should have been here for a while
  asked.until(2500ms);
  asked.debts.parts = bit(1);
  CHECK(asked.until(3500ms) == 0);
  CHECK(asked.until(3800ms) == bit(1));
}

TEST_CASE("suspicion: a coordinator gives everybody else their time before it decides, but no more") {
  Watch watch;
  watch.debts.decision = bit(1);
  CHECK(watch.until(7900ms) == 0);
  CHECK(watch.until(8300ms) == bit(1));
  Watch deciding;
  deciding.debts.decision = bit(1);
  deciding.until(7s);
  deciding.debts.decision = 0;  // done
  CHECK(deciding.until(20s) == 0);
}

TEST_CASE("suspicion: any frame clears it") {
  Watch watch;
  watch.answers = false;
  CHECK(watch.until(2s) == bit(1));
  watch.suspicion.heard(1, 1, watch.now);
  CHECK(watch.suspicion.suspected() == 0);
  CHECK(watch.until(2500ms) == 0);
}

TEST_CASE("suspicion: a broken connection counts at once when a dial fails, else after 2 s") {
  Watch watch;
  watch.until(1s);
  watch.suspicion.heard(1, 1, watch.now);
  watch.links[1].connected = false;
  watch.links[1].lost_at = watch.now;
  CHECK(watch.until(2900ms) == 0);
  CHECK(watch.until(3s) == bit(1));
  CHECK(watch.suspicion.ever(1) == LeftOut::dead);
  watch.links[1].connected = true;  // it dialled us
  CHECK(watch.until(3100ms) == 0);
  watch.links[1].connected = false;
  watch.links[1].lost_at = watch.now;
  watch.suspicion.refused(1);
  CHECK(watch.until(3200ms) == bit(1));
}

TEST_CASE("suspicion: who was given up before its first frame is not waited for because its line is back") {
  for (const bool spoke_before : {false, true}) {
    CAPTURE(spoke_before);
    SuspicionOptions options;
    options.hand_over = 2s;
    Watch watch(options);
    watch.until(100ms);
    if (spoke_before) watch.suspicion.heard(1, 1, watch.now);
    watch.answers = false;
    CHECK(watch.until(4s) == bit(1));
    watch.answers = true;
    CHECK(watch.until(5s) == (spoke_before ? 0 : bit(1)));
    watch.suspicion.heard(1, 1, watch.now);
    CHECK(watch.until(6s) == 0);
  }
}

TEST_CASE("suspicion: who owes parts and moves nothing is stuck, however well it answers pings") {
  Watch watch;
  watch.until(5s);
  watch.debts.parts = bit(1);
  CHECK(watch.until(6s) == 0);
  CHECK(watch.until(6200ms) == bit(1));
  watch.debts.parts = 0;  // left out, so it owes nothing: still suspected until it shows itself
  CHECK(watch.until(9s) == bit(1));
  watch.suspicion.heard(1, 1, watch.now);
  CHECK(watch.until(10s) == 0);
}

TEST_CASE("suspicion: a frame may take longer than anybody may be silent, as long as it moves") {
  Watch watch;
  watch.debts.parts = bit(1);
  watch.frames = false;
  watch.bytes = 200;
  CHECK(watch.until(30s) == 0);
  watch.bytes = 20;  // what pings make
  CHECK(watch.until(33s) == bit(1));
}

TEST_CASE("suspicion: an owner may have to wait for a frame as long as we had to") {
  SuspicionOptions options;
  Suspicion suspicion(3, 0, TimePoint(), options);
  std::vector<net::LinkState> links(3);
  for (net::LinkState& link : links) link.connected = true;
  Suspicion::Debts debts;
  debts.parts = bit(1);  // a frame of it takes ten seconds
  debts.results = bit(2);
  TimePoint now{};
  const auto until = [&](Duration when) {
    for (; now < TimePoint(when); now += 100ms) {
      links[1].line_bytes_received += 200;
      links[1].last_received = links[2].last_received = now;
      suspicion.check(now, links, debts);
    }
    return suspicion.suspected();
  };
  CHECK(until(10s) == 0);
  suspicion.heard(1, 1, now);
  suspicion.heard(2, 1, now);
  CHECK(until(21s) == 0);
  debts.parts = 0;
  CHECK(until(22s) == 0);
  CHECK(until(23s) == bit(2));
}

TEST_CASE("suspicion: where all takes long a stream may stand still for a quarter of it, up to 4 s; else for 1 s") {
  for (const bool frames : {false, true}) {
    CAPTURE(frames);
    Watch slow;
    slow.frames = frames;
    slow.links[1].line_bytes_received = 5'000'000;  // of earlier rounds
    slow.suspicion.plan_bytes(1, 1e6, slow.links[1]);
    slow.debts.parts = bit(1);
    slow.bytes = 10'000;
    CHECK(slow.until(1s) == 0);  // a tenth of it
    slow.bytes = 0;
    CHECK(slow.until(3400ms) == 0);
    CHECK(slow.until(5200ms) == bit(1));
    Watch fast;
    fast.frames = frames;
    fast.suspicion.plan_bytes(1, 1e6, fast.links[1]);
    fast.debts.parts = bit(1);
    fast.bytes = 450'000;
    CHECK(fast.until(200ms) == 0);
    fast.bytes = 0;
    CHECK(fast.until(1100ms) == 0);
    CHECK(fast.until(1400ms) == bit(1));
  }
}

TEST_CASE("suspicion: what was here before the round is no sign of a slow line, nor is who sends nothing") {
  Watch early;
  early.suspicion.plan_bytes(1, 1e6, early.links[1]);
  early.suspicion.heard(1, 900'000, early.now);
  early.debts.parts = bit(1);
  CHECK(early.until(900ms) == 0);
  CHECK(early.until(1200ms) == bit(1));
  Watch nothing;
  nothing.suspicion.plan_bytes(1, 1e6, nothing.links[1]);
  nothing.debts.parts = bit(1);
  CHECK(nothing.until(900ms) == 0);
  CHECK(nothing.until(1200ms) == bit(1));
}

TEST_CASE("suspicion: an owner of a long round may wait for slow senders for a quarter of it") {
  Watch watch;
  watch.debts.results = bit(1);
  watch.bytes = 200;
  CHECK(watch.until(40s) == 0);
  watch.bytes = 0;
  CHECK(watch.until(50s) == 0);
  CHECK(watch.until(54s) == bit(1));
}

TEST_CASE("suspicion: an owner gets the time that it needs to give up a dead sender itself") {
  Watch watch;
  watch.debts.results = bit(1);
  CHECK(watch.until(3900ms) == 0);
  CHECK(watch.until(4300ms) == bit(1));
}

TEST_CASE(
    "suspicion: when the others agree, its Hold is waited for as long as the exchange takes, whatever else it says") {
  Watch watch;
  watch.suspicion.plan_exchange(3s);
  watch.debts.parts = bit(1);
  watch.bytes = 100;
  CHECK(watch.until(3s) == 0);
  watch.debts = {};
  watch.debts.holds = bit(1);
  CHECK(watch.until(6900ms) == 0);
  CHECK(watch.until(7300ms) == bit(1));
}

TEST_CASE("suspicion: an owner that waits for a slow sender is not slow itself") {
  Watch watch;
  watch.suspicion.plan_rate(1, 1e6);
  watch.debts.results = bit(1);
  watch.bytes = 100;
  CHECK(watch.until(20s) == 0);
}

TEST_CASE("suspicion: less than 5 % of the planned rate over 5 s is slow, a little more is not") {
  Watch watch;
  watch.suspicion.plan_rate(1, 1e6);
  watch.debts.parts = bit(1);
  watch.bytes = 6000;  // 60 kB/s
  CHECK(watch.until(20s) == 0);
  watch.bytes = 4000;
  CHECK(watch.until(26s) == bit(1));
  CHECK(watch.suspicion.ever(1) == LeftOut::slow);
}

TEST_CASE("suspicion: while our own loop was blocked nobody was silent") {
  Watch watch;
  watch.until(1s);
  watch.answers = false;
  watch.now += 5s;  // a long computation: no check, nothing read
  CHECK(watch.until(6100ms) == 0);
  CHECK(watch.until(7300ms) == 0);
  CHECK(watch.until(7800ms) == bit(1));
}

TEST_CASE("suspicion: who closed the round is gone for good") {
  Watch watch;
  watch.suspicion.departed(1);
  CHECK(watch.until(100ms) == bit(1));
  watch.suspicion.heard(1, 1, watch.now);
  CHECK(watch.until(200ms) == bit(1));
}

}  // namespace collab::averaging
