#pragma once
// When this machine's owner lets it take part: hours, traffic, pauses.

#include "node/weekly_hours.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace collab::node {

/// The owner's calendar and clock.
struct LocalTime {
  std::int64_t unix_s = 0;
  int year = 1970;
  unsigned month = 1;
  unsigned day = 1;
  unsigned minute_of_week = 3 * kMinutesOfDay;  ///< from Monday 0:00 on
};
LocalTime local_time(std::int64_t unix_s);

/// What a peer that takes no part for now tells its owner.
struct Rest {
  std::string why;
  std::string until;  ///< "Mon 22:00", "midnight", "the first of next month", "collab-peer resume"
};

/// What an owner may wish a peer to rest for, while it shows.
struct Occasion {
  std::string why;              ///< "this machine runs on its battery"
  std::string until;            ///< "a minute after it is plugged in"
  std::function<bool()> shows;  ///< asked every second
};

/// A planned leave is due when it begins to rest, and a new start when it no longer does. Bytes are counted by calendar
/// day and month of the owner's time, in a file of the home, so that a restart forgets none; who is killed loses those
/// of half a minute. Thread safety: none.
class Agenda {
 public:
  struct Options {
    WeeklyHours hours;
    double day_bytes_max = 0;    ///< both ways together; 0: no limit
    double month_bytes_max = 0;  ///< the same
    std::vector<Occasion> rest_on;
    std::filesystem::path home;
  };

  /// Reads what was counted. `note`: is told what the owner should read.
  Agenda(Options options, std::function<void(const std::string&)> note, const LocalTime& now);

  /// So many bytes were carried since the last call. At least every few seconds, and at the end.
  void count(std::uint64_t bytes, const LocalTime& now);
  /// Why it should not take part now; nothing: it may. An occasion to rest must have been over for a minute.
  std::optional<Rest> rest(const LocalTime& now);
  /// What cannot be written is told once, and counted on in memory.
  void save(const LocalTime& now);

  std::uint64_t bytes_today() const noexcept { return day_.bytes; }
  std::uint64_t bytes_this_month() const noexcept { return month_.bytes; }

 private:
  struct Period {
    std::string name;  ///< "2026-11-28", "2026-11"
    std::uint64_t bytes = 0;
    bool warned = false;
  };

  void load();
  void turn(const LocalTime& now);
  void warn(Period& period, double bytes_max, const char* option) const;

  Options options_;
  std::function<void(const std::string&)> note_;
  Period day_;
  Period month_;
  std::int64_t saved_at_ = 0;
  bool told_not_saved_ = false;
  std::vector<std::optional<std::int64_t>> shown_at_;  ///< of each occasion: last
};

/// The owner says so, for this home: until `unix_s`, or until resume(). A peer that runs there leaves as planned.
void pause(const std::filesystem::path& home, std::optional<std::int64_t> until_unix_s);
/// False: nothing was paused.
bool resume(const std::filesystem::path& home);

}  // namespace collab::node
