#include "progress/tracker.hpp"

#include "progress/rate.hpp"
#include "sim/simulation.hpp"
#include "support/message_network.hpp"
#include "support/notice_board.hpp"

#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "support/doctest.hpp"

namespace collab::progress {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kTarget = 4000;
constexpr std::uint64_t kOwnMicrobatch = 8;

/// A clock whose calendar is wrong by a constant.
class SkewedClock final : public Clock {
 public:
  SkewedClock(Clock& right, std::int64_t ahead_ms) : right_(right), ahead_ms_(ahead_ms) {}
  TimePoint now() const override { return right_.now(); }
  std::int64_t unix_ms() const override { return right_.unix_ms() + ahead_ms_; }
  Task<> sleep_until(TimePoint when) override { return right_.sleep_until(when); }
  Task<bool> rings(Wakeup& alarm, TimePoint when) override { return right_.rings(alarm, when); }

 private:
  Clock& right_;
  std::int64_t ahead_ms_;
};

/// A peer that trains by the clock: `kOwnMicrobatch` samples every `step`.
struct Trainer {
  Trainer(sim::Simulation& world, test::NoticeBoard& board, unsigned number, Duration its_step,
          std::int64_t ahead_ms = 0)
      : clock(world.clock(), ahead_ms),
        step(its_step),
        tracker({board.view_of(test::peer(number)), clock, log, Random(number), world.executor(), test::peer(number),
                 &metrics, [this](const PeerId& peer) { return expelled.contains(peer); }},
                options()) {}
  static TrackerOptions options() {
    TrackerOptions made;
    made.target_batch = kTarget;
    return made;
  }
  Task<> train() {
    own.taking_part = true;
    own.microbatch = kOwnMicrobatch;
    tracker.show(own);
    rate.add(0, clock.now());
    for (;;) {
      co_await clock.sleep_until(clock.now() + step);
      if (own.heir) co_return;  // it leaves
      rate.add(kOwnMicrobatch, clock.now());
      own.samples += kOwnMicrobatch;
      own.samples_per_s = rate.samples_per_s();
      tracker.show(own);
    }
  }
  double refused() const { return metrics.value("collab_refused_total", {{"reason", "self_report"}}); }

  SkewedClock clock;
  Duration step;
  Log log;
  Metrics metrics;
  Rate rate;
  Record own;
  std::set<PeerId> expelled;
  Tracker tracker;
};

/// Honest peers 1.. on one board, at constant speeds of 8 samples in 100 to 250 ms.
struct Swarm {
  explicit Swarm(std::vector<std::int64_t> ahead_ms) : board(world, 60ms), tasks(world.executor(), rethrow) {
    for (unsigned i = 0; i < ahead_ms.size(); ++i) {
      const Duration step = std::chrono::milliseconds(100 + 50 * i);
      samples_per_s += static_cast<double>(kOwnMicrobatch) / to_seconds(step);
      peers.push_back(std::make_unique<Trainer>(world, board, i + 1, step, ahead_ms[i]));
      tasks.spawn("track", peers.back()->tracker.run());
      tasks.spawn("train", peers.back()->train());
    }
  }
  Task<> sleep_until(double seconds) { return world.clock().sleep_until(TimePoint(from_seconds(seconds))); }
  double now() { return to_seconds(world.clock().now().time_since_epoch()); }

  sim::Simulation world;
  test::NoticeBoard board;
  TaskGroup tasks;
  double samples_per_s = 0;
  std::vector<std::unique_ptr<Trainer>> peers;
};

Record lie() {
  Record record;
  record.taking_part = true;
  record.samples = 1'000'000'000'000;
  record.samples_per_s = 1e9;
  record.microbatch = record.samples;
  record.period_ms = 500;
  return record;
}

Task<> publish_lies(Swarm& swarm, unsigned number, std::uint32_t& published) {
  for (;;) {
    Record record = lie();
    record.unix_ms = swarm.world.clock().unix_ms();
    swarm.board.view_of(test::peer(number)).publish(std::string(kProgressKey), "", encode(record), 60s);
    ++published;
    co_await swarm.world.clock().sleep_until(swarm.world.clock().now() + 500ms);
  }
}

}  // namespace

TEST_CASE("tracker: who leaves stays for those behind it, but not when somebody stays who has what they lack") {
  for (const bool somebody_stays : {false, true}) {
    CAPTURE(somebody_stays);
    Swarm swarm({0, 0, 0});
    const auto watch = swarm.board.view_of(test::peer(9)).watch(std::string(kProgressKey));
    const auto scenario = [&]() -> Task<> {
      co_await swarm.sleep_until(3);
      swarm.peers[0]->own.epoch = 7;
      if (somebody_stays) swarm.peers[1]->own.epoch = 7;
      co_await swarm.sleep_until(5);
      CHECK(swarm.peers[0]->tracker.somebody_is_behind());
      CHECK(!swarm.peers[1]->tracker.alone());
      const auto leave = [&]() -> Task<> { co_await swarm.peers[0]->tracker.leave(TimePoint(10s)); };
      const std::int64_t began_ms = swarm.world.clock().unix_ms();
      co_await leave();
      const auto told_since = [&](const directory::Record& record) {
        return record.owner == test::peer(2) && decode(record.value)->unix_ms >= began_ms;
      };
      const auto records = watch->records();
      const bool says_so = somebody_stays && std::any_of(records.begin(), records.end(), told_since);
      CHECK((says_so || swarm.now() >= (somebody_stays ? 7 : 10)));  // not by what it said before
      CHECK(swarm.now() <= (somebody_stays ? 8 : 10));
      co_await swarm.tasks.stop();
    };
    swarm.world.run(scenario());
  }
}

TEST_CASE("tracker: the heir of one that leaves is believed what it is left, in the order in which records come") {
  Swarm swarm({0, 0, 0});
  const auto scenario = [&]() -> Task<> {
    Trainer& leaver = *swarm.peers[0];
    Trainer& heir = *swarm.peers[1];
    const Tracker& other = swarm.peers[2]->tracker;
    co_await swarm.sleep_until(20);
    const std::uint64_t left = leaver.own.samples;
    CHECK(left > 1000);
    CHECK(!heir.tracker.left_by(test::peer(1)));
    leaver.own.taking_part = false;
    leaver.own.samples = 0;
    leaver.own.heir = test::peer(2).key;
    leaver.own.left = left;
    leaver.tracker.show(leaver.own);
    heir.own.samples += left;
    heir.tracker.show(heir.own);
    co_await swarm.sleep_until(20.5);
    CHECK(heir.tracker.left_by(test::peer(1)) == left);
    CHECK(!other.left_by(test::peer(1)));
    const auto leave = [&]() -> Task<> { co_await leaver.tracker.leave(TimePoint(30s)); };
    co_await leave();
    CHECK(swarm.now() >= 22);  // so long everybody can read it
    CHECK(other.samples_max(test::peer(2)) >= heir.own.samples);
    CHECK(swarm.peers[2]->refused() == 0);
    co_await swarm.sleep_until(swarm.now() + 0.5);
    CHECK(!heir.tracker.left_by(test::peer(1)));  // its record is gone
    co_await swarm.tasks.stop();
  };
  swarm.world.run(scenario());
}

TEST_CASE(
    "tracker: of two who only dial nobody can be dialled; of one alone, or beside one who can be, that is not said") {
  Swarm swarm({0, 0});
  const auto scenario = [&]() -> Task<> {
    const Tracker& first = swarm.peers[0]->tracker;
    for (const auto& peer : swarm.peers) peer->own.client = true;
    co_await swarm.sleep_until(12);
    CHECK(first.nobody_can_be_dialled());
    swarm.peers[1]->own.client = false;
    co_await swarm.sleep_until(24);
    CHECK(!first.nobody_can_be_dialled());
    swarm.peers[1]->own.client = true;
    co_await swarm.sleep_until(36);
    CHECK(first.nobody_can_be_dialled());
    swarm.peers[0]->expelled.insert(test::peer(2));
    co_await swarm.sleep_until(37.5);
    CHECK(!first.nobody_can_be_dialled());
    co_await swarm.tasks.stop();
  };
  swarm.world.run(scenario());
}

TEST_CASE("tracker: who is out of the run counts no more, however fresh its record, and again when it is back") {
  Swarm swarm({0, 0});
  const auto scenario = [&]() -> Task<> {
    Tracker& stays = swarm.peers[0]->tracker;
    std::set<PeerId>& expelled = swarm.peers[0]->expelled;
    co_await swarm.sleep_until(12);
    CHECK(stays.current_peers() == 2);
    expelled.insert(test::peer(2));
    co_await swarm.sleep_until(13.5);  // it looks at least once a second
    CHECK(stays.current_peers() == 1);
    CHECK(stays.donors(0).empty());
    CHECK(stays.samples() == static_cast<double>(stays.own().samples));
    CHECK(stays.alone());
    expelled.clear();
    co_await swarm.sleep_until(15);
    CHECK(stays.current_peers() == 2);
    CHECK(!stays.alone());
    co_await swarm.tasks.stop();
  };
  swarm.world.run(scenario());
}

TEST_CASE("tracker: back at a directory that was lost it awaits those who were there, for they may be on their way") {
  Swarm swarm({0, 0});
  const auto scenario = [&]() -> Task<> {
    Tracker& back = swarm.peers[0]->tracker;
    co_await swarm.sleep_until(12);
    CHECK(back.current_peers() == 2);
    swarm.board.cut_off(test::peer(1));
    swarm.board.cut_off(test::peer(1), false);
    swarm.peers[0]->expelled.insert(test::peer(2));  // nothing of it is there any more
    co_await swarm.sleep_until(14);
    CHECK(back.current_peers() == 1);
    for (double at = 14; at < 32; ++at) {
      co_await swarm.sleep_until(at);
      CHECK(!back.alone());
    }
    co_await swarm.sleep_until(34);
    CHECK(back.alone());
    co_await swarm.tasks.stop();
  };
  swarm.world.run(scenario());
}

TEST_CASE(
    "tracker: who falls silent counts for ten seconds more among those of whom a group needs half, but not who stops") {
  Swarm swarm({0, 0, 0, 0});
  const auto scenario = [&]() -> Task<> {
    Tracker& cut_off = swarm.peers[0]->tracker;
    co_await swarm.sleep_until(5);
    swarm.peers[3]->own.taking_part = false;
    co_await swarm.sleep_until(8);
    CHECK(cut_off.current_peers() == 3);
    CHECK(cut_off.recent_peers() == 3);
    swarm.board.cut_off(test::peer(1));
    while (cut_off.current_peers() == 3) co_await swarm.sleep_until(swarm.now() + 0.1);
    const double first_silent = swarm.now();
    while (cut_off.current_peers() == 2) co_await swarm.sleep_until(swarm.now() + 0.1);
    const double both_silent = swarm.now();
    co_await swarm.sleep_until(first_silent + 8.5);  // it looks once a second
    CHECK(cut_off.recent_peers() == 3);
    co_await swarm.sleep_until(both_silent + 10.5);
    CHECK(cut_off.recent_peers() == 1);
    co_await swarm.tasks.stop();
  };
  swarm.world.run(scenario());
}

TEST_CASE(
    "tracker: who started anew counts once it takes part at the latest, also where its word is not heard any more") {
  Swarm swarm({0, 0, 0});
  const auto scenario = [&]() -> Task<> {
    Tracker& other = swarm.peers[0]->tracker;
    co_await swarm.sleep_until(5);
    CHECK(other.recent_peers() == 3);
    const std::int64_t now_ms = swarm.world.clock().unix_ms();
    const double began = swarm.now();
    swarm.peers[1]->own.taking_part = swarm.peers[2]->own.taking_part = false;
    swarm.peers[2]->own.votes_from_ms = now_ms + 10'000;
    co_await swarm.sleep_until(began + 3);
    CHECK(other.recent_peers() == 1);  // it may well go on alone
    swarm.board.cut_off(test::peer(1));
    co_await swarm.sleep_until(began + 8);
    CHECK(other.recent_peers() == 1);
    co_await swarm.sleep_until(began + 10);
    CHECK(other.recent_peers() == 2);
    CHECK(other.recent().size() == 2);
    co_await swarm.sleep_until(began + 18);
    CHECK(other.recent_peers() == 2);
    co_await swarm.sleep_until(began + 33);
    CHECK(other.recent_peers() == 1);
    co_await swarm.tasks.stop();
  };
  swarm.world.run(scenario());
}

TEST_CASE(
    "tracker: who left does not count among those of whom a group needs half, be it seen as a record that is gone") {
  Swarm swarm({0, 0, 0});
  const auto scenario = [&]() -> Task<> {
    co_await swarm.sleep_until(5);
    CHECK(swarm.peers[0]->tracker.recent_peers() == 3);
    const auto leave = [&](std::size_t i) -> Task<> { co_await swarm.peers[i]->tracker.leave(TimePoint(10s)); };
    co_await leave(1);
    co_await leave(2);
    co_await swarm.sleep_until(swarm.now() + 0.5);
    CHECK(swarm.peers[0]->tracker.recent_peers() == 1);
    co_await swarm.tasks.stop();
  };
  swarm.world.run(scenario());
}

TEST_CASE("tracker: who leaves goes as soon as the last of those behind has caught up") {
  Swarm swarm({0, 0});
  const auto scenario = [&]() -> Task<> {
    co_await swarm.sleep_until(3);
    swarm.peers[0]->own.epoch = 7;
    co_await swarm.sleep_until(5);
    const auto catch_up = [&]() -> Task<> {
      co_await swarm.sleep_until(7);
      swarm.peers[1]->own.epoch = 7;
    };
    swarm.tasks.spawn("catch up", catch_up());
    co_await swarm.peers[0]->tracker.leave(TimePoint(30s));
    CHECK(swarm.now() >= 7);
    CHECK(swarm.now() < 8.5);
    co_await swarm.sleep_until(swarm.now() + 0.5);
    CHECK(swarm.peers[1]->tracker.others().empty());  // its record has gone and does not come again
    co_await swarm.tasks.stop();
  };
  swarm.world.run(scenario());
}

TEST_CASE("tracker: who leaves with the last state of a run, or as the last peer, stays until the keeper has it") {
  struct Case {
    bool run_is_over;
    bool others_gather;
    bool keeper_catches_up;
    double gone_min, gone_max;
  };
  for (const Case& c : {Case{false, true, true, 5, 5.1},  // others go on: the keeper has time
                        Case{true, false, true, 7, 8},    // the last state
                        Case{false, false, true, 7, 8},   // nobody else is left
                        Case{true, false, false, 15, 15.1}}) {
    CAPTURE(c.run_is_over);
    CAPTURE(c.others_gather);
    CAPTURE(c.keeper_catches_up);
    Swarm swarm({0, 0});
    directory::Directory& keeper = swarm.board.view_of(test::peer(9));
    const auto tell = [&](std::uint64_t epoch) {
      keeper.publish(std::string(kKeeperKey), "", encode(KeeperRecord{epoch}), 60s);
    };
    const auto scenario = [&]() -> Task<> {
      tell(2);
      co_await swarm.sleep_until(3);
      for (auto& peer : swarm.peers) peer->own.epoch = 7;
      swarm.peers[1]->own.taking_part = c.others_gather;
      co_await swarm.sleep_until(5);
      const auto catch_up = [&]() -> Task<> {
        co_await swarm.sleep_until(7);
        if (c.keeper_catches_up) tell(7);
      };
      swarm.tasks.spawn("catch up", catch_up());
      co_await swarm.peers[0]->tracker.leave(TimePoint(15s), c.run_is_over);
      CHECK(swarm.now() >= c.gone_min);
      CHECK(swarm.now() <= c.gone_max);
      co_await swarm.tasks.stop();
    };
    swarm.world.run(scenario());
  }
}

TEST_CASE("tracker: who stays for a keeper asks it twice a second, however many leave at once") {
  Swarm swarm(std::vector<std::int64_t>(8, 0));
  const auto scenario = [&]() -> Task<> {
    swarm.board.view_of(test::peer(9)).publish(std::string(kKeeperKey), "", encode(KeeperRecord{2}), 60s);
    co_await swarm.sleep_until(3);
    for (auto& peer : swarm.peers) {
      peer->own.epoch = 7;
      peer->own.taking_part = false;
    }
    co_await swarm.sleep_until(5);
    co_await swarm.peers[0]->tracker.leave(TimePoint(15s), /*run_is_over=*/true);
    CHECK(swarm.now() == doctest::Approx(15));
    CHECK(swarm.board.asked(test::peer(1), std::string(kKeeperKey)) <= 21);
    co_await swarm.tasks.stop();
  };
  swarm.world.run(scenario());
}

TEST_CASE("tracker: at constant speeds each peer knows the end of the epoch within 2 %, and believes all others") {
  Swarm swarm({0, 0, 0, 0});
  const double ideal = static_cast<double>(kTarget) / swarm.samples_per_s;
  const auto scenario = [&]() -> Task<> {
    for (const double part : {0.25, 0.5, 0.75, 0.95}) {
      CAPTURE(part);
      co_await swarm.sleep_until(part * ideal);
      for (const auto& peer : swarm.peers) {
        CHECK(swarm.now() + peer->tracker.eta_s() == doctest::Approx(ideal).epsilon(0.02));
        CHECK(peer->tracker.current_peers() == 4);
        CHECK(peer->refused() == 0);
      }
    }
    co_await swarm.tasks.stop();
  };
  swarm.world.run(scenario());
}

TEST_CASE("tracker: a leader that counts what it believes begins within 2 % of the moment the batch is full") {
  Swarm swarm({0, 0, 0, 0});
  const double ideal = static_cast<double>(kTarget) / swarm.samples_per_s;
  const auto scenario = [&]() -> Task<> {
    for (double began = 0; began == 0;) {
      co_await swarm.sleep_until(swarm.now() + 0.05);
      std::uint64_t known = swarm.peers[0]->own.samples;
      for (unsigned i = 1; i < swarm.peers.size(); ++i)
        known += std::min(swarm.peers[i]->own.samples, swarm.peers[0]->tracker.samples_max(test::peer(i + 1)));
      if (known < kTarget) continue;
      began = swarm.now();
      CHECK(began == doctest::Approx(ideal).epsilon(0.02));
    }
    co_await swarm.tasks.stop();
  };
  swarm.world.run(scenario());
}

TEST_CASE("tracker: who shows nothing sees the swarm's epoch and samples, and nobody sees it") {
  Swarm swarm({0, 0, 0});
  Trainer watcher(swarm.world, swarm.board, 9, 1s);
  swarm.tasks.spawn("watch", watcher.tracker.run());
  for (auto& peer : swarm.peers) peer->own.epoch = 7;
  const auto scenario = [&]() -> Task<> {
    co_await swarm.sleep_until(20);
    CHECK(watcher.tracker.epoch() == 7);
    CHECK(watcher.tracker.samples() == doctest::Approx(20 * swarm.samples_per_s).epsilon(0.05));
    CHECK(watcher.tracker.taking_part().size() == 3);
    CHECK(watcher.tracker.samples_max(test::peer(1)) >= swarm.peers[0]->own.samples);
    CHECK(swarm.peers[0]->tracker.current_peers() == 3);
    co_await swarm.tasks.stop();
  };
  swarm.world.run(scenario());
}

TEST_CASE("tracker: who told of an epoch while it ran gathers for the next one, who tells of it later does not") {
  Swarm swarm({0, 0, 0});
  const auto scenario = [&]() -> Task<> {
    co_await swarm.sleep_until(20);
    Trainer& first = *swarm.peers[0];
    const double of_others = swarm.samples_per_s - static_cast<double>(kOwnMicrobatch) / to_seconds(first.step);
    ++first.own.epoch;
    first.own.samples = 0;
    first.tracker.show(first.own);
    co_await swarm.sleep_until(20.05);  // nothing that was told since is here
    const double shown = first.tracker.samples() - static_cast<double>(first.tracker.own().samples);
    CHECK(shown == doctest::Approx(0.05 * of_others).epsilon(0.05));
    const double elsewhere = first.tracker.samples_elsewhere({test::peer(2)});
    CHECK(elsewhere == doctest::Approx(0.05 * kOwnMicrobatch / to_seconds(swarm.peers[2]->step)).epsilon(0.05));
    co_await swarm.sleep_until(25);
    CHECK(first.tracker.samples() == static_cast<double>(first.own.samples));
    co_await swarm.tasks.stop();
  };
  swarm.world.run(scenario());
}

TEST_CASE("tracker: a record tells what is so when it goes out, however long nothing was shown") {
  Swarm swarm({0});
  Trainer quiet(swarm.world, swarm.board, 2, 1s);
  quiet.own.taking_part = true;
  quiet.own.samples_per_s = 20;
  quiet.tracker.show(quiet.own);
  quiet.tracker.ask_before_publishing([&] {
    quiet.own.samples = static_cast<std::uint64_t>(20 * swarm.now());
    quiet.tracker.show(quiet.own);
  });
  swarm.tasks.spawn("track", quiet.tracker.run());
  const auto scenario = [&]() -> Task<> {
    co_await swarm.sleep_until(30);
    CHECK(swarm.peers[0]->refused() == 0);
    CHECK(swarm.peers[0]->tracker.samples() == doctest::Approx(30 * (20 + swarm.samples_per_s)).epsilon(0.02));
    CHECK(swarm.peers[0]->tracker.samples_max(test::peer(2)) >= 600);
    quiet.tracker.ask_before_publishing(nullptr);
    co_await swarm.tasks.stop();
  };
  swarm.world.run(scenario());
}

TEST_CASE("tracker: a peer publishes at most two records a second, also when the epoch is about to end") {
  Swarm swarm({0});
  std::size_t seen = 0;
  const auto count = [&]() -> Task<> {
    const auto watch = swarm.board.view_of(test::peer(9)).watch(std::string(kProgressKey));
    std::uint64_t last = 0;
    for (;;) {
      for (const auto& record : watch->records()) {
        if (record.sequence != last) ++seen;
        last = record.sequence;
      }
      co_await watch->changed_until(TimePoint::max());
    }
  };
  swarm.tasks.spawn("count", count());
  const auto scenario = [&]() -> Task<> {
    co_await swarm.sleep_until(50);                        // the batch is full at 50 s
    for (std::uint64_t epoch = 1; epoch < 200; ++epoch) {  // news every 50 ms
      swarm.peers[0]->own.epoch = epoch;
      swarm.peers[0]->tracker.show(swarm.peers[0]->own);
      co_await swarm.sleep_until(50 + 0.05 * static_cast<double>(epoch));
    }
    co_await swarm.tasks.stop();
  };
  swarm.world.run(scenario());
  CHECK(seen >= 25);
  CHECK(seen <= 2 * 60 + 1);
}

TEST_CASE("tracker: who is two epochs ahead of what it has heard, and has no rate yet, writes as often as the others") {
  Swarm swarm({0, 0});
  swarm.peers.push_back(std::make_unique<Trainer>(swarm.world, swarm.board, 3, 100ms));
  Trainer& newcomer = *swarm.peers.back();
  swarm.tasks.spawn("track", newcomer.tracker.run());
  const auto watch = swarm.board.view_of(test::peer(9)).watch(std::string(kProgressKey));
  const auto scenario = [&]() -> Task<> {
    co_await swarm.sleep_until(5);
    newcomer.own.taking_part = true;
    newcomer.own.epoch = 2;
    newcomer.tracker.show(newcomer.own);
    co_await swarm.sleep_until(6);
    std::uint32_t period_ms = 0;
    for (const auto& record : watch->records())
      if (record.owner == test::peer(3)) period_ms = decode(record.value)->period_ms;
    CHECK(period_ms > 0);
    CHECK(period_ms < 5000);  // an eighth of the 30 s that the others need, not the most that may be
    co_await swarm.tasks.stop();
  };
  swarm.world.run(scenario());
}

TEST_CASE("tracker: a record that says nothing new is written every two seconds, and what is new within one") {
  Swarm swarm({});
  swarm.peers.push_back(std::make_unique<Trainer>(swarm.world, swarm.board, 1, 100ms));
  Trainer& peer = *swarm.peers.front();
  peer.own.taking_part = true;
  peer.own.samples = kTarget;  // it waits for its group
  peer.own.samples_per_s = 80;
  peer.tracker.ask_before_publishing([&] { peer.tracker.show(peer.own); });
  peer.tracker.show(peer.own);
  swarm.tasks.spawn("track", peer.tracker.run());
  const auto watch = swarm.board.view_of(test::peer(9)).watch(std::string(kProgressKey));
  std::set<std::uint64_t> seen;
  const auto look_for = [&](double seconds) -> Task<> {
    while (swarm.now() < seconds) {
      for (const auto& record : watch->records()) seen.insert(record.sequence);
      co_await swarm.sleep_until(swarm.now() + 0.05);
    }
  };
  const auto scenario = [&]() -> Task<> {
    co_await look_for(5);
    seen.clear();
    co_await look_for(25);
    CHECK(seen.size() >= 8);
    CHECK(seen.size() <= 14);
    for (std::uint64_t samples = kTarget + 1; samples <= kTarget + 10; ++samples) {
      peer.own.samples = samples;  // nobody shows it: the tracker asks
      const double changed = swarm.now();
      const auto told = [&] { return decode(watch->records().front().value)->samples == samples; };
      while (!told() && swarm.now() < changed + 5) co_await swarm.sleep_until(swarm.now() + 0.01);
      CHECK(swarm.now() - changed < 1);
      co_await swarm.sleep_until(swarm.now() + 2.4 + 0.2 * static_cast<double>(samples - kTarget));  // in any phase
    }
    co_await swarm.tasks.stop();
  };
  swarm.world.run(scenario());
}

TEST_CASE("tracker: in a large swarm each writes less, so that nobody reads more than 32 records a second") {
  Swarm swarm(std::vector<std::int64_t>(64, 0));
  std::size_t seen = 0;
  const auto count = [&]() -> Task<> {
    const auto watch = swarm.board.view_of(test::peer(99)).watch(std::string(kProgressKey));
    std::map<PeerId, std::uint64_t> last;
    for (;;) {
      for (const auto& record : watch->records()) {
        if (std::exchange(last[record.owner], record.sequence) != record.sequence) ++seen;
      }
      co_await watch->changed_until(TimePoint::max());
    }
  };
  swarm.tasks.spawn("count", count());
  const auto scenario = [&]() -> Task<> {
    co_await swarm.sleep_until(20);  // the batch is full by then: everybody writes as often as it may
    const std::size_t before = seen;
    co_await swarm.sleep_until(50);
    CHECK(seen - before <= 30 * 32 * 5 / 4);
    CHECK(seen - before >= 30 * 32 * 3 / 4);
    for (const auto& peer : swarm.peers) CHECK(peer->tracker.current_peers() == 64);
    co_await swarm.tasks.stop();
  };
  swarm.world.run(scenario());
}

TEST_CASE("tracker: a lie of 10^12 samples is counted as refused and counts as no more than two like the reader") {
  Swarm swarm({0, 0, 0, 0});
  std::uint32_t published = 0;
  std::size_t said = 0;
  swarm.peers[0]->log.observe([&](LogLevel, std::string_view event, Log::Fields) {
    if (event == "progress.not_believed") ++said;
  });
  const double ideal = static_cast<double>(kTarget) / swarm.samples_per_s;
  const auto scenario = [&]() -> Task<> {
    co_await swarm.sleep_until(ideal / 4);
    swarm.tasks.spawn("lie", publish_lies(swarm, 7, published));
    co_await swarm.sleep_until(ideal / 4 + 3);
    const Tracker& tracker = swarm.peers[0]->tracker;
    const double honest = swarm.samples_per_s * (ideal / 4 + 3);
    const double rate = 160;  // twice the reader's, risen for three seconds
    CHECK(tracker.samples() - honest < 1.5 * 1.13 * rate * 4 + 4 * 1.13 * rate);
    CHECK(tracker.samples_max(test::peer(7)) < static_cast<std::uint64_t>(1.5 * 1.13 * rate * 4.5 + 8 * 1.13 * rate));
    CHECK(progress::samples_per_s(tracker.others(), 0) <= swarm.samples_per_s - 80 + 1.13 * rate);
    CHECK(swarm.peers[0]->refused() >= published - 1);
    CHECK(said == 1);
    co_await swarm.tasks.stop();
  };
  swarm.world.run(scenario());
}

TEST_CASE("tracker: peers whose calendars are wrong by up to 30 s still count, and the ETA stays right") {
  Swarm swarm({-30'000, 0, 5'000, 30'000});
  const double ideal = static_cast<double>(kTarget) / swarm.samples_per_s;
  const auto scenario = [&]() -> Task<> {
    for (const double part : {0.8, 0.95}) {
      CAPTURE(part);
      co_await swarm.sleep_until(part * ideal);
      for (const auto& peer : swarm.peers) {
        CHECK(peer->tracker.current_peers() == 4);
        CHECK(swarm.now() + peer->tracker.eta_s() == doctest::Approx(ideal).epsilon(0.02));
        CHECK(peer->refused() == 0);
      }
    }
    co_await swarm.tasks.stop();
  };
  swarm.world.run(scenario());
}

Record held(unsigned char parameters, unsigned char ledger) {
  Record record;
  record.parameters[0] = parameters;
  record.ledger[0] = ledger;
  return record;
}

void go_on(Swarm& swarm, std::size_t peer, std::uint64_t epoch, Record record) {
  Record& own = swarm.peers[peer]->own;
  record.epoch = epoch;
  record.taking_part = true;
  record.samples_per_s = own.samples_per_s;
  record.microbatch = own.microbatch;
  record.samples = peer;  // nobody else has fewer than peer 0
  own = record;
  swarm.peers[peer]->tracker.show(own);
}

TEST_CASE("tracker: the larger side of a partition is not outvoted by the smaller, which is behind") {
  Swarm swarm({0, 0, 0, 0, 0});
  const auto scenario = [&]() -> Task<> {
    co_await swarm.sleep_until(5);
    for (const std::size_t peer : {0, 1, 2}) go_on(swarm, peer, 1, held(1, 1));
    for (const std::size_t peer : {0, 1, 2}) go_on(swarm, peer, 2, held(3, 1));
    for (const std::size_t peer : {3, 4}) go_on(swarm, peer, 1, held(2, 1));
    co_await swarm.sleep_until(9);
    REQUIRE(swarm.peers[0]->tracker.donors(1).size() == 4);
    for (const std::size_t peer : {0, 1, 2}) CHECK_FALSE(swarm.peers[peer]->tracker.diverged_at());
    for (const std::size_t peer : {1, 2}) go_on(swarm, peer, 2, held(4, 1));  // then they are nobody's witnesses
    co_await swarm.sleep_until(25);
    CHECK(swarm.peers[0]->tracker.diverged_at() == 1);
    co_await swarm.tasks.stop();
  };
  swarm.world.run(scenario());
}

TEST_CASE("tracker: other parameters or another ledger than the majority's show, and not by the first word of it") {
  Swarm swarm({0, 0, 0, 0});
  const auto scenario = [&]() -> Task<> {
    Tracker& tracker = swarm.peers[0]->tracker;
    const auto goes_on = [&](std::size_t peer, std::uint64_t epoch, const Record& record) {
      go_on(swarm, peer, epoch, record);
    };
    co_await swarm.sleep_until(5);
    CHECK_FALSE(tracker.diverged_at());
    goes_on(0, 1, held(1, 1));
    goes_on(1, 1, held(2, 1));
    co_await swarm.sleep_until(7);
    CHECK(tracker.donors(1).size() == 1);
    CHECK_FALSE(tracker.diverged_at());
    goes_on(2, 1, held(2, 1));
    goes_on(3, 1, held(2, 1));
    co_await swarm.sleep_until(9);
    CHECK(tracker.diverged_at() == 1);
    tracker.forget_history();
    for (std::size_t peer = 0; peer < 4; ++peer) goes_on(peer, 2, held(3, peer == 0 ? 1 : 2));
    co_await swarm.sleep_until(11);
    CHECK(tracker.diverged_at() == 2);
    CHECK_FALSE(swarm.peers[1]->tracker.diverged_at());
    for (std::size_t peer = 0; peer < 4; ++peer) goes_on(peer, 3, held(4, 5));
    tracker.forget_history();
    co_await swarm.sleep_until(13);
    CHECK_FALSE(tracker.diverged_at());
    co_await swarm.tasks.stop();
  };
  swarm.world.run(scenario());
}

TEST_CASE("tracker: a record of one's former life tells whether it may have signed for a result") {
  struct Case {
    std::uint64_t samples;
    std::uint64_t epoch;
    Duration age;
    bool may;
  };
  const std::vector<Case> cases = {{kTarget, 3, 1s, true},
                                   {kTarget, 4, 1s, true},
                                   {kTarget, 2, 1s, false},
                                   {kTarget / 2, 3, 1s, false},
                                   {kTarget, 3, 20s, false}};
  for (const Case& one : cases) {
    CAPTURE(one.samples);
    CAPTURE(one.epoch);
    CAPTURE(one.age);
    Swarm swarm({0});
    const auto scenario = [&]() -> Task<> {
      Record former;
      former.epoch = one.epoch;
      former.samples = one.samples;
      former.taking_part = true;
      former.period_ms = 2000;
      former.unix_ms = swarm.world.clock().unix_ms();
      swarm.board.view_of(test::peer(9)).publish(std::string(kProgressKey), "", encode(former), 60s);
      co_await swarm.sleep_until(to_seconds(one.age));
      Trainer reborn(swarm.world, swarm.board, 9, 100ms);
      const auto looked = co_await reborn.tracker.look(swarm.world.clock().now() + 5s);
      CHECK(looked);
      CHECK(reborn.tracker.may_have_promised(3) == one.may);
      co_await swarm.tasks.stop();
    };
    swarm.world.run(scenario());
  }
}

TEST_CASE("tracker: a record tells whether its peer may still bring the result of a round") {
  struct Case {
    std::uint64_t epoch;
    std::uint32_t given_up;
    std::uint64_t incarnation;
    bool over;
  };
  const std::vector<Case> cases = {
      {3, 0, 7, false},                                     // perhaps it is in the round
      {3, 1, 7, false},                                     // of the attempt before it
      {3, 2, 7, true},  {3, 9, 7, true}, {4, 2, 7, false},  // it has the result
      {2, 2, 7, false},                                     // and this one is old
      {3, 2, 8, false},                                     // its former life may have handed the result on
      {3, 2, 6, false},                                     // and this one was not in that round
  };
  for (const Case& one : cases) {
    CAPTURE(one.epoch);
    CAPTURE(one.given_up);
    CAPTURE(one.incarnation);
    Swarm swarm({0});
    const auto scenario = [&]() -> Task<> {
      Record told;
      told.epoch = one.epoch;
      told.given_up = one.given_up;
      told.incarnation = one.incarnation;
      told.period_ms = 2000;
      told.unix_ms = swarm.world.clock().unix_ms();
      swarm.board.view_of(test::peer(9)).publish(std::string(kProgressKey), "", encode(told), 60s);
      co_await swarm.sleep_until(1);
      const Tracker& tracker = swarm.peers[0]->tracker;
      CHECK(tracker.has_given_up(test::peer(9), 3, 1, 7) == one.over);
      CHECK_FALSE(tracker.has_given_up(test::peer(8), 3, 1, 7));  // nothing is known of it
      co_await swarm.tasks.stop();
    };
    swarm.world.run(scenario());
  }
}

TEST_CASE("tracker: a round runs somewhere when two say so who take part, and who is silent stays recent for a while") {
  Swarm swarm({0});
  const auto scenario = [&]() -> Task<> {
    const auto show = [&](unsigned number, std::uint64_t epoch, bool takes_part, bool averaging) {
      Record told;
      told.epoch = epoch;
      told.taking_part = takes_part;
      told.averaging = averaging;
      told.period_ms = 500;
      told.unix_ms = swarm.world.clock().unix_ms();
      swarm.board.view_of(test::peer(number)).publish(std::string(kProgressKey), "", encode(told), 60s);
    };
    const Tracker& tracker = swarm.peers[0]->tracker;
    const PeerId self = test::peer(1);
    show(7, 3, true, true);
    show(8, 3, false, true);  // looks on
    show(9, 1, true, true);   // far behind
    co_await swarm.sleep_until(1);
    CHECK_FALSE(tracker.others_average(3));
    show(9, 2, true, true);  // in the last round of the epoch before
    co_await swarm.sleep_until(2);
    CHECK(tracker.others_average(3));
    CHECK_FALSE(tracker.others_average(4));
    CHECK(tracker.recent() == std::vector<PeerId>{self, test::peer(7), test::peer(9)});
    co_await swarm.sleep_until(8);  // too old to say anything
    CHECK_FALSE(tracker.others_average(3));
    CHECK(tracker.recent() == std::vector<PeerId>{self, test::peer(7), test::peer(9)});
    co_await swarm.sleep_until(15);
    CHECK(tracker.recent() == std::vector<PeerId>{self});
    co_await swarm.tasks.stop();
  };
  swarm.world.run(scenario());
}

TEST_CASE("tracker: a record of unknown shape is passed over, and its writer's next one counts") {
  Swarm swarm({0});
  std::size_t bad = 0;
  swarm.peers[0]->log.observe([&](LogLevel, std::string_view event, Log::Fields) {
    if (event == "progress.bad_record") ++bad;
  });
  const auto scenario = [&]() -> Task<> {
    auto& board = swarm.board.view_of(test::peer(5));
    co_await swarm.sleep_until(1);
    for (const std::string& text : {std::string(), std::string("?"), std::string(900, '\xff')}) {
      const auto raw = std::as_bytes(std::span(text));
      board.publish(std::string(kProgressKey), "", Bytes(raw.begin(), raw.end()), 60s);
      co_await swarm.sleep_until(swarm.now() + 0.5);
      CHECK(swarm.peers[0]->tracker.current_peers() == 1);
    }
    CHECK(bad >= 2);
    Record record;
    record.taking_part = true;
    record.period_ms = 1000;
    record.unix_ms = swarm.world.clock().unix_ms();
    board.publish(std::string(kProgressKey), "", encode(record), 60s);
    co_await swarm.sleep_until(swarm.now() + 0.5);
    CHECK(swarm.peers[0]->tracker.current_peers() == 2);
    co_await swarm.tasks.stop();
  };
  swarm.world.run(scenario());
}

}  // namespace collab::progress
