#include "node/agenda.hpp"

#include "base/error.hpp"
#include "base/file.hpp"
#include "support/temp_folder.hpp"

#include <string>
#include <vector>

#include "support/doctest.hpp"

namespace collab::node {
namespace {

constexpr std::uint64_t kGigabyte = 1'000'000'000;

/// 2026-11-27 is a Friday.
LocalTime friday(unsigned hour, unsigned minute = 0) {
  LocalTime time;
  time.year = 2026;
  time.month = 11;
  time.day = 27;
  time.minute_of_week = 4 * kMinutesOfDay + hour * 60 + minute;
  time.unix_s = 1'795'000'000 + 60 * std::int64_t(hour * 60 + minute);
  return time;
}
LocalTime saturday() {
  LocalTime time = friday(0);
  time.day = 28;
  time.minute_of_week += kMinutesOfDay;
  time.unix_s += 60 * kMinutesOfDay;
  return time;
}

struct Owner {
  Agenda agenda(Agenda::Options options, const LocalTime& now = friday(12)) {
    options.home = folder.path();
    return Agenda(
        std::move(options), [this](const std::string& text) { notes.push_back(text); }, now);
  }
  test::TempFolder folder;
  std::vector<std::string> notes;
};

}  // namespace

TEST_CASE("agenda: without wishes a peer always takes part; hours are kept, and their end is told") {
  Owner owner;
  Agenda free = owner.agenda({});
  CHECK_FALSE(free.rest(friday(12)));
  Agenda::Options nights;
  nights.hours = WeeklyHours("22:00-07:00");
  Agenda agenda = owner.agenda(nights);
  const auto rest = agenda.rest(friday(12));
  REQUIRE(rest);
  CHECK(rest->until == "Fri 22:00");
  CHECK_FALSE(agenda.rest(friday(22)));
}

TEST_CASE(
    "agenda: of a day's and a month's bytes it warns once at nine tenths and rests at the whole, until the next") {
  Owner owner;
  Agenda::Options options;
  options.day_bytes_max = 2e9;
  options.month_bytes_max = 3e9;
  Agenda agenda = owner.agenda(options);
  agenda.count(kGigabyte, friday(12));
  CHECK(owner.notes.empty());
  agenda.count(kGigabyte * 9 / 10, friday(13));
  CHECK(owner.notes.size() == 1);
  CHECK_FALSE(agenda.rest(friday(13)));
  agenda.count(kGigabyte / 10, friday(14));
  CHECK(owner.notes.size() == 1);
  const auto rest = agenda.rest(friday(14));
  REQUIRE(rest);
  CHECK(rest->until == "midnight");
  CHECK_FALSE(agenda.rest(saturday()));
  agenda.count(kGigabyte, saturday());
  CHECK(owner.notes.size() == 2);
  const auto until_december = agenda.rest(saturday());
  REQUIRE(until_december);
  CHECK(until_december->until == "the first of next month");
  LocalTime december = saturday();
  december.month = 12;
  december.day = 1;
  CHECK_FALSE(agenda.rest(december));
}

TEST_CASE("agenda: what was carried is known after a restart; a damaged count is told, and begins anew") {
  Owner owner;
  {
    Agenda agenda = owner.agenda({});
    agenda.count(kGigabyte, friday(12));
    agenda.save(friday(12));
  }
  {
    Agenda agenda = owner.agenda({});
    CHECK(agenda.bytes_today() == kGigabyte);
    CHECK(owner.notes.empty());
  }
  CHECK(owner.agenda({}, saturday()).bytes_today() == 0);
  CHECK(owner.agenda({}, saturday()).bytes_this_month() == kGigabyte);
  write_file(owner.folder.path() / "traffic", std::string("2026-11-27 much\n"));
  CHECK(owner.agenda({}).bytes_this_month() == 0);
  CHECK(owner.notes.size() == 1);
}

TEST_CASE("agenda: what is counted is on disk within half a minute") {
  Owner owner;
  Agenda agenda = owner.agenda({});
  agenda.count(1000, friday(12));
  agenda.count(1000, friday(12, 1));
  CHECK(owner.agenda({}).bytes_today() == 2000);
}

TEST_CASE("agenda: an owner's pause ends at its time, or when it is resumed") {
  Owner owner;
  Agenda agenda = owner.agenda({});
  pause(owner.folder.path(), friday(14).unix_s);
  CHECK(agenda.rest(friday(13, 59)));
  CHECK_FALSE(agenda.rest(friday(14)));
  pause(owner.folder.path(), std::nullopt);
  const auto rest = agenda.rest(saturday());
  REQUIRE(rest);
  CHECK(rest->until == "collab-peer resume");
  CHECK(resume(owner.folder.path()));
  CHECK_FALSE(resume(owner.folder.path()));
  CHECK_FALSE(agenda.rest(saturday()));
}

TEST_CASE("agenda: it rests on an occasion that its owner named, until a minute after that was last seen") {
  Owner owner;
  bool battery = false;
  bool load = false;
  Agenda::Options options;
  options.rest_on.push_back({"on battery", "plugged in", [&] { return battery; }});
  options.rest_on.push_back({"others need it", "done", [&] { return load; }});
  Agenda agenda = owner.agenda(options);
  CHECK_FALSE(agenda.rest(friday(12)));
  load = true;
  CHECK(agenda.rest(friday(12))->until == "done");
  battery = true;
  CHECK(agenda.rest(friday(12))->why == "on battery");
  battery = load = false;
  CHECK(agenda.rest(friday(12))->until == "plugged in");
  CHECK_FALSE(agenda.rest(friday(12, 1)));
  CHECK_FALSE(owner.agenda({}).rest(friday(12)));
}

TEST_CASE("agenda: the owner's day and week are those of the machine's time zone") {
  const LocalTime time = local_time(1'795'788'000);
  const LocalTime later = local_time(1'795'788'000 + 24 * 3600);
  CHECK(time.year == 2026);
  CHECK((time.minute_of_week + kMinutesOfDay) % kMinutesOfWeek == later.minute_of_week);
}

}  // namespace collab::node
