#include "progress/self_report.hpp"

#include "base/random.hpp"

#include <algorithm>

#include "support/doctest.hpp"

namespace collab::progress {
namespace {

constexpr std::int64_t kStart = 1'000'000;
constexpr std::uint64_t kMicrobatch = 16;

/// One peer's records as they come in, each with a sequence of its own.
struct Told {
  SelfReport report;
  Record record;
  Yardstick yardstick{100, kMicrobatch, 64, false};
  std::uint64_t sequence = 0;

  Told() {
    record.period_ms = 1000;
    record.taking_part = true;
    record.microbatch = kMicrobatch;
    record.samples_per_s = 100;
  }
  /// Returns what is not believed of a record that says `samples` at `ms`, and arrives then.
  std::uint64_t at(std::int64_t ms, std::uint64_t samples) { return arrives(ms, ms, samples); }
  std::uint64_t arrives(std::int64_t seen_ms, std::int64_t dated_ms, std::uint64_t samples) {
    record.unix_ms = kStart + dated_ms;
    record.samples = samples;
    return report.see(record, ++sequence, yardstick, kStart + seen_ms);
  }
  std::uint64_t believed() const { return report.believed().samples; }
};

}  // namespace

TEST_CASE(
    "self-report: a steady peer is believed to the sample, whatever its microbatches and the way of its records") {
  for (const std::uint64_t microbatch : {1, 16, 64, 400}) {
    CAPTURE(microbatch);
    Told told;
    told.record.microbatch = microbatch;
    std::int64_t way_ms = 0;
    for (std::int64_t ms = 500; ms < 120'000; ms += 500) {
      way_ms = (way_ms * 7 + 130) % 900;
      const std::uint64_t samples = 100 * static_cast<std::uint64_t>(ms) / 1000 / microbatch * microbatch;
      CHECK(told.arrives(ms + way_ms, ms, samples) == 0);
      CHECK(told.believed() == samples);
    }
  }
}

TEST_CASE(
    "self-report: what one leaves its heir may have, once, in that epoch; what a liar leaves is what it could have") {
  for (const std::uint64_t left : {1000U, 1'000'000'000U}) {
    CAPTURE(left);
    Told leaver;
    Told heir;
    for (std::int64_t ms = 500; ms <= 10'000; ms += 500) {
      leaver.at(ms, 100 * static_cast<std::uint64_t>(ms) / 1000);
      heir.at(ms, 100 * static_cast<std::uint64_t>(ms) / 1000);
    }
    CHECK(!leaver.report.left());
    leaver.record.taking_part = false;
    leaver.record.heir.emplace() = {7};
    leaver.record.left = left;
    CHECK((leaver.at(10'500, 0) == 0) == (left == 1000));
    REQUIRE(leaver.report.left());
    const std::uint64_t believed = leaver.report.left()->samples;
    CHECK(believed >= 1000);
    CHECK(believed <= 1000 + 150 + kMicrobatch);
    CHECK(leaver.believed() == 0);
    CHECK(leaver.report.samples_max(0, kStart + 10'500) <= 2 * kMicrobatch);

    heir.report.inherit(0, believed);
    CHECK(heir.report.samples_max(0, kStart + 10'000) >= 1000 + believed);
    CHECK(heir.at(10'500, 1050) == 0);  // as far as it goes, growth is its own
    CHECK(heir.at(11'000, 1100 + believed) == 0);
    CHECK(heir.at(11'500, 1150 + 2 * believed) > believed / 2);
    heir.record.epoch = 1;
    CHECK(heir.at(12'000, 50) == 0);
    CHECK(heir.at(12'500, 100 + believed) > 0);
  }
}

TEST_CASE("self-report: who has left what it had does not get it back, however often it says so") {
  Told leaver;
  for (std::int64_t ms = 500; ms <= 10'000; ms += 500) leaver.at(ms, 100 * static_cast<std::uint64_t>(ms) / 1000);
  leaver.record.heir.emplace() = {7};
  leaver.record.left = 1000;
  leaver.record.taking_part = false;
  for (std::int64_t ms = 10'500; ms < 12'000; ms += 500) CHECK(leaver.at(ms, 0) == 0);
  CHECK(leaver.report.left()->samples == 1000);
  leaver.record.heir.reset();
  leaver.record.left = 0;
  leaver.record.taking_part = true;
  CHECK(leaver.at(12'500, 1000) > 800);
}

TEST_CASE("self-report: who computes in bursts and shows no rate may bring a share of the target batch at once") {
  for (const double others : {0.0, 100.0}) {
    CAPTURE(others);
    Told told;
    told.yardstick = {others, 0, 64, false};
    told.record.samples_per_s = 0;
    told.record.microbatch = 0;  // nothing computed yet
    told.at(0, 0);
    CHECK(told.report.samples_max(0, kStart) == 64);
    CHECK(told.report.samples_max(1, kStart) == 64);
    told.record.microbatch = 1000;
    told.at(500, 0);
    CHECK(told.report.samples_max(1, kStart + 500) == 64);
  }
}

TEST_CASE("self-report: a peer that waits comes to believe the only other one, which computes") {
  Told told;
  told.record.samples_per_s = 0;
  told.at(0, 0);
  told.yardstick = {0, kMicrobatch, 64, false};  // we compute no more
  told.record.samples_per_s = 500;
  told.at(500, 208);
  CHECK(told.believed() < 208);
  // it has paused because it is full, and tells the same from now on
  CHECK(told.report.samples_max(0, kStart + 2500) >= 128);
}

TEST_CASE("self-report: records that are some seconds on their way, each another time, are no reason for doubt") {
  for (const std::uint64_t seed : test::seeds(8)) {
    CAPTURE(seed);
    Random random(seed);
    Told told;  // one of two hundred: 20.48 samples of 4096 in an epoch of a minute, in 16 microbatches
    told.yardstick = {0.68, 2, 20, false};
    told.record.samples_per_s = 20.48 / 60;
    told.record.microbatch = 2;
    std::int64_t seen_ms = 0;
    for (std::int64_t ms = 0; ms < 600'000; ms += told.record.period_ms) {
      told.record.period_ms = static_cast<std::uint32_t>(5000 + random.below(2500));
      told.record.epoch = static_cast<std::uint64_t>(ms) / 60'000;
      seen_ms = std::max(seen_ms, ms + 50 + static_cast<std::int64_t>(random.below(8000)));  // one after the other
      const std::int64_t computed_ms = ms % 60'000 / 3750 * 3750;
      CHECK(told.arrives(seen_ms, ms, static_cast<std::uint64_t>(computed_ms) * 2048 / 6'000'000) == 0);
    }
  }
}

TEST_CASE("self-report: dates that run ahead make ten seconds of work at most") {
  Told told;
  told.record.period_ms = 10'000;
  CHECK(told.at(0, 0) == 0);
  const std::uint64_t much = 1'000'000;
  for (std::int64_t ms = 500; ms <= 20'000; ms += 500) CHECK(told.arrives(ms, 40 * ms, much) > 0);
  CHECK(told.believed() <= 150 * (20 + 10) + kMicrobatch);
  CHECK(told.believed() >= 150 * 20);
}

TEST_CASE("self-report: a lie counts as what a peer like the others would have, and its growth is bounded too") {
  Told told;
  told.record.samples_per_s = 1e9;
  told.record.microbatch = std::uint64_t(1) << 40U;
  const std::uint64_t much = 1'000'000'000'000;
  CHECK(told.at(0, much) > 0);
  // two periods at the yardstick's rate, and four seconds of it for a microbatch
  CHECK(told.believed() <= 300 + 400);
  CHECK(told.report.believed().samples_per_s == 100);
  const std::uint64_t before = told.believed();
  CHECK(told.at(1000, much) > 0);
  CHECK(told.believed() - before <= 160);
  CHECK(told.report.samples_max(0, kStart + 2000) <= static_cast<double>(told.believed()) + 1.1 * (150 + 400));
}

TEST_CASE("self-report: who goes on during a round has what it gathered then in the next epoch, and no more") {
  Told told;
  for (std::int64_t ms = 500; ms <= 10'000; ms += 500) CHECK(told.at(ms, static_cast<std::uint64_t>(ms) / 10) == 0);
  for (std::int64_t ms = 500; ms <= 5'000; ms += 500) {  // handed over, and the round takes five seconds
    CHECK(told.at(10'000 + ms, static_cast<std::uint64_t>(ms) / 10) == 0);
  }
  ++told.record.epoch;
  CHECK(told.at(15'500, 550) == 0);
  ++told.record.epoch;
  CHECK(told.at(16'000, 550) > 400);  // nothing was handed over before this one
}

TEST_CASE("self-report: what was handed over to a round that failed is believed when it is back, and only once") {
  Told told;
  for (std::int64_t ms = 500; ms <= 10'000; ms += 500) CHECK(told.at(ms, static_cast<std::uint64_t>(ms) / 10) == 0);
  CHECK(told.report.handed_over() == 0);
  CHECK(told.at(10'500, 20) == 0);
  CHECK(told.report.handed_over() == 1000);
  CHECK(told.at(11'000, 70) == 0);  // nothing of it yet
  CHECK(told.report.handed_over() == 1000);
  CHECK(told.at(11'500, 1120) == 0);
  CHECK(told.report.handed_over() == 0);
  CHECK(told.at(12'000, 2170) > 800);
  ++told.record.epoch;
  CHECK(told.at(12'500, 0) == 0);
  CHECK(told.report.handed_over() == 0);
}

TEST_CASE("self-report: to a round that is tried again a peer may bring what it handed over to the one before") {
  Told told;
  for (std::int64_t ms = 500; ms <= 10'000; ms += 500) CHECK(told.at(ms, static_cast<std::uint64_t>(ms) / 10) == 0);
  told.record.handed_over = 1000;
  CHECK(told.at(10'500, 0) == 0);
  const std::uint64_t epoch = told.record.epoch;
  CHECK(told.report.samples_max(epoch, kStart + 11'000) >= 1000);
  CHECK(told.report.samples_max(epoch, kStart + 11'000) < 1200);
  CHECK(told.report.samples_max(epoch + 1, kStart + 11'000) < 200);  // what comes back is of this epoch
}

TEST_CASE("self-report: of what was handed over before we looked as much is believed as of samples, and by and by") {
  Told told;
  told.yardstick.first_look = true;
  told.record.handed_over = 100;
  CHECK(told.at(0, 10) == 0);
  CHECK(told.report.handed_over() == 100);

  Told liar;
  liar.yardstick.first_look = true;
  liar.record.handed_over = 1'000'000;
  const double first = 64 + kMicrobatch + 2 * 150;  // a share, a microbatch, and two periods of growth
  CHECK(liar.at(0, 0) == 0);
  CHECK(liar.report.handed_over() <= first);
  for (std::int64_t ms = 1000; ms <= 10'000; ms += 1000) CHECK(liar.at(ms, 0) == 0);
  CHECK(liar.report.handed_over() > 1000);
  CHECK(liar.report.handed_over() <= first + 10 * 150);
  CHECK(liar.at(11'000, 1000) > 800);  // and what it handed over it has not
}

TEST_CASE("self-report: what was gathered between the last record and the hand-over is in it") {
  Told told;
  CHECK(told.at(1000, 100) == 0);
  CHECK(told.at(2000, 200) == 0);
  told.record.handed_over = 260;
  CHECK(told.at(3000, 0) == 0);
  CHECK(told.report.handed_over() == 260);
  told.record.handed_over = 0;  // its pass has come to nothing
  CHECK(told.at(4000, 260) == 0);
  CHECK(told.report.handed_over() == 0);
}

TEST_CASE("self-report: what is told twice, or by an older date, grows nothing") {
  Told told;
  CHECK(told.at(1000, 50) == 0);
  told.record.samples = 5000;
  CHECK(told.report.see(told.record, told.sequence, told.yardstick, kStart + 60'000) == 0);
  CHECK(told.believed() == 50);
  CHECK(told.arrives(1500, 500, 5000) > 0);
  CHECK(told.believed() <= 50 + 300 + kMicrobatch);
}

TEST_CASE("self-report: a newcomer, and a peer that comes back after a pause, are believed") {
  Told told;
  told.record.samples_per_s = 0;  // before its second microbatch
  CHECK(told.at(0, kMicrobatch) == 0);
  told.record.samples_per_s = 80;
  CHECK(told.at(1000, 80) == 0);
  CHECK(told.at(600'000, 80) == 0);  // it paused
  CHECK(told.at(601'000, 160) == 0);
  told.record.epoch = 9;
  CHECK(told.at(602'000, 96) == 0);
}

TEST_CASE("self-report: with nothing to measure by a peer counts for a share, and no history comes of it") {
  Told told;
  told.yardstick.samples_per_s = 0;
  told.record.samples_per_s = 1e9;
  CHECK(told.at(0, 1'000'000) == 0);
  CHECK(told.believed() == 64);
  told.yardstick.samples_per_s = 100;
  CHECK(told.at(1000, 1'000'000) > 0);
  CHECK(told.believed() <= 64 + 16 + 300 + 400);
  CHECK(told.report.believed().samples_per_s == 100);
  CHECK(told.at(2000, 1'000'000) > 0);
  CHECK(told.report.believed().samples_per_s < 105);
}

TEST_CASE("self-report: a peer that is faster than all others is believed whole within a minute") {
  Told told;
  told.record.samples_per_s = 1000;
  double believed = 0;
  for (std::int64_t ms = 0; ms <= 60'000; ms += 1000) {
    told.record.epoch = static_cast<std::uint64_t>(ms) / 2000;
    told.at(ms, ms % 2000 == 0 ? 0 : 1000);
    believed = told.report.believed().samples_per_s;
  }
  CHECK(believed == doctest::Approx(1000));
  CHECK(told.at(61'000, 1000) == 0);
}

TEST_CASE("self-report: a clock that is wrong is read by ours from the second record on, one set right at once") {
  for (const std::int64_t wrong_ms : {-30'000, 30'000}) {
    CAPTURE(wrong_ms);
    Told told;
    CHECK(told.arrives(20, wrong_ms, 0) == 0);
    for (std::int64_t ms = 1000; ms < 20'000; ms += 1000) {
      CHECK(told.arrives(ms + 20, ms + wrong_ms, static_cast<std::uint64_t>(ms) / 10) == 0);
      CHECK(told.report.believed().unix_ms == doctest::Approx(static_cast<double>(kStart + ms + 20)).epsilon(1e-9));
    }
    CHECK(told.arrives(20'020, 20'000, 2000) == 0);
    CHECK(told.report.believed().unix_ms == kStart + 20'000);
  }
}

}  // namespace collab::progress
