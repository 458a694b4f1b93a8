#include "net/line.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "support/doctest.hpp"

namespace collab::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kStep = milliseconds(10);
constexpr Duration kLook = milliseconds(250);

/// A line with a queue before it, into which flows send as fast as they are let: without a pace each sends as much as
/// the line takes alone.
struct Sender {
  struct One {
    Flow flow;
    double pace = kUnpaced;
    double delivered = 0;
    double receiver = kUnpaced;  ///< bytes/s
    double queued = 0;
    double held_up = 0;  ///< bytes that have come through and are not confirmed
    bool loses = false;  ///< the first of these bytes is missing
  };

  explicit Sender(double bytes_per_s, std::size_t flows = 3, double each = 1e9) : line(bytes_per_s) {
    for (std::size_t i = 0; i < flows; ++i) add(i + 1, each);
  }
  void add(std::uint64_t id, double planned) {
    One& one = all.emplace_back();
    one.flow.id = id;
    one.flow.planned_bytes = planned;
    one.flow.waiting = true;
  }
  void look() {
    std::vector<Flow> flows;
    for (One& one : all) {
      one.flow.delivered = static_cast<std::uint64_t>(one.delivered);
      flows.push_back(one.flow);
    }
    const auto paces = pacer.look(now, flows);
    for (std::size_t i = 0; i < all.size(); ++i) all[i].pace = paces[i];
  }
  void run(Duration time) {
    for (const TimePoint end = now + time; now < end; now += kStep) {
      if (now >= next_look) {
        look();
        next_look = now + kLook;
      }
      step(to_seconds(kStep));
    }
  }
  void step(double time) {
    double queued = 0;
    for (One& one : all) {
      one.queued += std::min({one.pace, one.receiver, line}) * time;
      queued += one.queued;
    }
    const double leaves = std::min(queued, line * time);
    for (One& one : all) {
      const double part = queued > 0 ? leaves * one.queued / queued : 0;
      one.queued -= part;
      one.queued *= queued > most ? most / queued : 1;  // dropped, and sent again
      one.held_up += part;
      if (!one.loses) one.delivered += std::exchange(one.held_up, 0);
    }
    queued_s = std::min(queued, most) / line;
  }
  /// One round in which one flow has so much to send, and the pause after it; how long it took.
  Duration round(double bytes) {
    all.clear();
    add(++rounds, bytes);
    look();
    const TimePoint begun = now;
    while (all[0].delivered < bytes) run(kStep);
    const Duration took = now - begun;
    all.clear();
    look();
    run(milliseconds(200));
    return took;
  }
  double paces() const {
    double sum = 0;
    for (const One& one : all) sum += one.pace;
    return sum;
  }
  /// The mean of the paces' sum, and of the queue in seconds.
  std::pair<double, double> mean(Duration time) {
    double sum = 0;
    double queue = 0;
    const int steps = static_cast<int>(time / kStep);
    for (int i = 0; i < steps; ++i) {
      run(kStep);
      sum += paces();
      queue += queued_s;
    }
    return {sum / steps, queue / steps};
  }

  double line;
  double most = 0.2 * line;
  double queued_s = 0;
  Line pacer;
  TimePoint now = TimePoint() + std::chrono::hours(1);
  TimePoint next_look = now;
  std::vector<One> all;
  std::uint64_t rounds = 0;
};

}  // namespace

TEST_CASE("line: nothing is paced until two windows have told what it carries; then nothing queues") {
  Sender sender(6e6);
  sender.run(milliseconds(700));
  CHECK(sender.paces() == kUnpaced);
  sender.run(seconds(3));
  for (auto& one : sender.all) one.queued = 0;  // as between rounds
  const auto [paces, queue] = sender.mean(seconds(30));
  CHECK(paces > 0.96 * 6e6);
  CHECK(paces < 1.02 * 6e6);
  CHECK(queue < 0.05);
}

TEST_CASE("line: flows get it in proportion to what each is to carry") {
  Sender sender(6e6, 2, 3e9);
  sender.add(3, 1e9);
  sender.run(seconds(5));
  CHECK(sender.all[0].pace == doctest::Approx(3 * sender.all[2].pace));
  CHECK(sender.all[0].pace == doctest::Approx(sender.all[1].pace));
}

TEST_CASE("line: what becomes faster or slower is followed") {
  Sender sender(2e6);
  sender.run(seconds(10));
  CHECK(sender.paces() == doctest::Approx(2e6).epsilon(0.08));
  sender.line = 6e6;
  sender.run(seconds(12));
  CHECK(sender.paces() == doctest::Approx(6e6).epsilon(0.08));
  sender.line = 3e6;
  sender.run(seconds(90));  // the best of late fades: too high a pace is harmless, too low a one is not
  CHECK(sender.paces() == doctest::Approx(3e6).epsilon(0.08));
}

TEST_CASE("line: what a slow receiver leaves the others have, and it comes back") {
  Sender sender(6e6);
  sender.run(seconds(10));
  sender.all[0].receiver = 0.2e6;
  sender.run(seconds(10));
  CHECK(sender.all[1].pace > 2.6e6);
  CHECK(sender.all[1].pace == doctest::Approx(sender.all[2].pace));
  CHECK(sender.all[0].pace > 1.5e6);
  sender.all[0].receiver = kUnpaced;
  sender.run(seconds(5));
  CHECK(sender.all[0].pace == doctest::Approx(2e6).epsilon(0.1));
  CHECK(sender.all[1].pace == doctest::Approx(2e6).epsilon(0.1));
}

TEST_CASE("line: a frozen receiver takes nothing from the others") {
  Sender sender(6e6);
  sender.run(seconds(10));
  sender.all[0].receiver = 0;
  sender.run(seconds(20));
  CHECK(sender.all[1].pace + sender.all[2].pace > 0.9 * 6e6);
}

TEST_CASE("line: what a lost packet holds up for half a second makes no line slow, however often") {
  Sender sender(6e6);
  sender.run(seconds(10));
  for (int i = 0; i < 40; ++i) {
    for (auto& one : sender.all) one.loses = true;
    sender.run(milliseconds(400));
    for (auto& one : sender.all) one.loses = false;
    sender.run(milliseconds(900));
    CHECK(sender.paces() > 0.8 * 6e6);
  }
}

TEST_CASE("line: what it learned while the way stood still holds back no rounds for good") {
  for (const double learned : {0.5e6, 1.5e6, 3e6}) {
    CAPTURE(learned);
    Sender sender(learned, 1);
    sender.run(seconds(5));
    CHECK(sender.paces() < 1.1 * learned);
    sender.line = 100e6;
    sender.most = 0.2 * sender.line;
    for (int i = 0; i < 25; ++i) (void)sender.round(1.5e6);
    CHECK(to_seconds(sender.round(1.5e6)) < 0.1);
  }
}

TEST_CASE("line: a fast one is not paced, and slow flows are not") {
  Sender fast(100e6);
  fast.run(seconds(5));
  CHECK(fast.paces() == kUnpaced);
  Sender slow(0.6e6, 8);
  slow.run(seconds(5));
  CHECK(slow.paces() == kUnpaced);
}

TEST_CASE("line: who waits for others' results tells nothing of it") {
  Sender sender(6e6);
  sender.run(seconds(10));
  const double before = sender.pacer.bytes_per_s();
  sender.all[0].receiver = 0.1e6;
  sender.all[0].flow.waiting = false;
  sender.run(seconds(20));
  CHECK(sender.pacer.bytes_per_s() == before);
  CHECK(sender.all[1].pace == doctest::Approx(before / 2));  // nor does it keep what it does not use
  CHECK(sender.all[0].pace == doctest::Approx(before / 3));
}

TEST_CASE("line: flows that come and go leave finite paces, and a plan of nobody none") {
  Sender sender(6e6);
  sender.run(seconds(10));
  for (int i = 0; i < 20; ++i) {
    sender.all.erase(sender.all.begin());
    if (i % 3 != 0) sender.add(std::uint64_t(100 + i), 1e6 * (i + 1));
    if (sender.all.empty()) sender.add(std::uint64_t(200 + i), 1e6);
    sender.run(milliseconds(300));
    for (const auto& one : sender.all) CHECK(one.pace > 0);
    CHECK(sender.paces() < 1.2 * 6e6);
  }
  sender.all.clear();
  sender.run(seconds(1));
  CHECK(sender.pacer.bytes_per_s() > 5e6);
}

}  // namespace collab::net
