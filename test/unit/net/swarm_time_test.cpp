#include "net/swarm_time.hpp"

#include "support/doctest.hpp"

namespace collab::net {
namespace {

/// Its steady clock stands still; its calendar is what the test says.
struct Calendar final : Clock {
  TimePoint now() const override { return TimePoint(); }
  std::int64_t unix_ms() const override { return ms; }
  Task<> sleep_until(TimePoint) override { co_return; }
  Task<bool> rings(Wakeup&, TimePoint) override { co_return false; }
  std::int64_t ms = 1'000'000;
};

}  // namespace

TEST_CASE("swarm time: of two who come to a third, 110 s apart, each takes its time, and it keeps its own") {
  for (const std::int64_t first_ms : {-55'000, 55'000}) {
    CAPTURE(first_ms);
    Calendar calendar;
    SwarmTime there(calendar);
    there.agree({{first_ms, false}});
    CHECK(there.swarm_ms() == calendar.ms);
    there.agree({{0, false}, {-first_ms, false}});
    CHECK(there.swarm_ms() == calendar.ms);
    SwarmTime comes(calendar);
    comes.agree({{-first_ms, true}});
    CHECK(comes.swarm_ms() == calendar.ms - first_ms);
  }
}

TEST_CASE("swarm time: the lower median of own and others' time, at most 60 s from the own clock") {
  Calendar calendar;
  SwarmTime time(calendar);
  time.agree({{40'000, false}, {40'000, true}, {-10'000, true}});
  CHECK(time.swarm_ms() - calendar.ms == 0);
  time.agree({{40'000, false}, {40'000, true}});
  CHECK(time.swarm_ms() - calendar.ms == 40'000);
  time.agree({{5'000, false}, {5'000, true}, {-10'000, true}});
  CHECK(time.swarm_ms() - calendar.ms == 5'000);
  CHECK(time.agree({{65'000, true}}));
  CHECK(time.swarm_ms() - calendar.ms == 60'000);
}

TEST_CASE("swarm time: who is further from all than anybody may be has no time in common with them") {
  Calendar calendar;
  SwarmTime time(calendar);
  CHECK_FALSE(time.agree({{-87'000, true}}));
  CHECK(time.swarm_ms() == calendar.ms);
  CHECK_FALSE(time.agree({{90'000, true}, {90'000, false}}));
  CHECK(time.agree({{90'000, true}, {1000, false}, {0, true}}));  // one liar
}

TEST_CASE("swarm time: who is cut off from all keeps it, unless its calendar jumps") {
  Calendar calendar;
  SwarmTime time(calendar);
  time.agree({{-50'000, true}});
  time.agree({});
  calendar.ms += 300;  // set right little by little
  time.read_calendar();
  CHECK(time.swarm_ms() == 950'000);
  calendar.ms += 30'000;  // it has slept, or was corrected
  time.read_calendar();
  CHECK(time.swarm_ms() == calendar.ms);
}

}  // namespace collab::net
