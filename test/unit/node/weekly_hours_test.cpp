#include "node/weekly_hours.hpp"

#include "base/error.hpp"

#include <string_view>

#include "support/doctest.hpp"

namespace collab::node {
namespace {

constexpr unsigned at(unsigned day, unsigned hour, unsigned minute = 0) {
  return day * kMinutesOfDay + hour * 60 + minute;
}

WeeklyHours hours(std::string_view spans) {
  return WeeklyHours(spans);
}

}  // namespace

TEST_CASE("hours: nights, working days and weekends") {
  const WeeklyHours nights = hours("22:00-07:00");
  for (unsigned day = 0; day < 7; ++day) {
    CHECK(nights.open(at(day, 0)));
    CHECK(nights.open(at(day, 6, 59)));
    CHECK_FALSE(nights.open(at(day, 7)));
    CHECK_FALSE(nights.open(at(day, 21, 59)));
    CHECK(nights.open(at(day, 22)));
  }
  const WeeklyHours spare = hours("mon-fri 18:30-24:00; sat,sun");
  CHECK_FALSE(spare.open(at(0, 18, 29)));
  CHECK(spare.open(at(0, 18, 30)));
  CHECK(spare.open(at(4, 23, 59)));
  CHECK(spare.open(at(5, 0)));
  CHECK(spare.open(at(6, 23, 59)));
  CHECK_FALSE(spare.open(at(0, 0)));
  CHECK(hours("fri 22:00-07:00").open(at(5, 6)));  // Saturday morning
  CHECK(hours("sun 22:00-07:00").open(at(0, 6)));  // the week goes round
  const WeeklyHours round = hours("sat-mon 10:00-11:00");
  CHECK(round.open(at(0, 10)));
  CHECK_FALSE(round.open(at(1, 10)));
}

TEST_CASE("hours: how long until they change; always has no end") {
  const WeeklyHours nights = hours("22:00-07:00");
  CHECK(nights.until_change(at(2, 7)) == 15 * 60);
  CHECK(nights.until_change(at(6, 23)) == 8 * 60);
  CHECK_FALSE(WeeklyHours().until_change(0));
  CHECK_FALSE(hours("mon-sun").until_change(77));
  CHECK(WeeklyHours().open(at(3, 3)));
  CHECK(week_text(at(0, 7)) == "Mon 07:00");
  CHECK(week_text(at(6, 23, 5)) == "Sun 23:05");
}

TEST_CASE("hours: what are none is refused, and says why") {
  for (const char* text : {" ", "22:00", "22:00-07:00;", "22-07", "24:01-25:00", "7:00-8:00", "10:60-11:00",
                           "10:00-10:00", "someday", "mon-", "mon,", "mon tue", "mon 10:00-11:00 x",
                           "10:00-11:00,12:00-13:00", "10:00 - 11:00", "-", "00:00-00:00"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(hours(text), Failure);
  }
}

}  // namespace collab::node
