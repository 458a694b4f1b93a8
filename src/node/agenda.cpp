#include "node/agenda.hpp"

#include "base/error.hpp"
#include "base/file.hpp"

#include <fmt/format.h>

#include <ctime>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>
#include <utility>

namespace collab::node {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSavePeriod = 30;  // seconds
constexpr std::int64_t kQuiet = 60;       // so long an occasion to rest must be over
constexpr double kWarnAt = 0.9;

fs::path traffic_file(const fs::path& home) {
  return home / "traffic";
}
fs::path pause_file(const fs::path& home) {
  return home / "paused";
}

/// Empty when there is no such file.
std::string words_in(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::string gigabytes(double bytes) {
  return fmt::format("{:.4g} GB", bytes / 1e9);
}

/// The end of the owner's pause; endless when nobody said. Nothing: there is none.
std::optional<std::int64_t> paused_until(const fs::path& home) {
  const std::string text = words_in(pause_file(home));
  if (text.empty()) return std::nullopt;
  std::int64_t until = 0;
  const bool said = static_cast<bool>(std::istringstream(text) >> until);
  return said ? until : std::numeric_limits<std::int64_t>::max();
}

}  // namespace

LocalTime local_time(std::int64_t unix_s) {
  const auto seconds = static_cast<std::time_t>(unix_s);
  std::tm local{};
  ::localtime_r(&seconds, &local);
  LocalTime time;
  time.unix_s = unix_s;
  time.year = local.tm_year + 1900;
  time.month = static_cast<unsigned>(local.tm_mon + 1);
  time.day = static_cast<unsigned>(local.tm_mday);
  const auto from_monday = static_cast<unsigned>((local.tm_wday + 6) % 7);
  time.minute_of_week = from_monday * kMinutesOfDay + static_cast<unsigned>(local.tm_hour * 60 + local.tm_min);
  return time;
}

Agenda::Agenda(Options options, std::function<void(const std::string&)> note, const LocalTime& now)
    : options_(std::move(options)), note_(std::move(note)), saved_at_(now.unix_s), shown_at_(options_.rest_on.size()) {
  load();
  turn(now);
}

void Agenda::load() {
  const fs::path file = traffic_file(options_.home);
  const std::string text = words_in(file);
  if (text.empty()) return;
  std::istringstream lines(text);
  Period day;
  Period month;
  if (lines >> day.name >> day.bytes >> month.name >> month.bytes) {
    day_ = day;
    month_ = month;
  } else {
    note_(fmt::format("{} is damaged: today's and this month's traffic is counted from nothing", file.string()));
  }
}

/// Another day, another month: nothing was carried in it yet.
void Agenda::turn(const LocalTime& now) {
  const std::string month = fmt::format("{:04}-{:02}", now.year, now.month);
  const std::string day = fmt::format("{}-{:02}", month, now.day);
  if (day_.name != day) day_ = {day};
  if (month_.name != month) month_ = {month};
}

void Agenda::count(std::uint64_t bytes, const LocalTime& now) {
  turn(now);
  day_.bytes += bytes;
  month_.bytes += bytes;
  warn(day_, options_.day_bytes_max, "--limit-day");
  warn(month_, options_.month_bytes_max, "--limit-month");
  if (now.unix_s - saved_at_ >= kSavePeriod) save(now);
}

void Agenda::warn(Period& period, double bytes_max, const char* option) const {
  const auto bytes = static_cast<double>(period.bytes);
  if (bytes_max <= 0 || bytes < kWarnAt * bytes_max || std::exchange(period.warned, true)) return;
  note_(fmt::format("{} of {} are used up: at the whole this peer leaves, and comes back by itself ({})",
                    gigabytes(bytes), gigabytes(bytes_max), option));
}

std::optional<Rest> Agenda::rest(const LocalTime& now) {
  turn(now);
  const auto used_up = [](const Period& period, double most) { return most > 0 && double(period.bytes) >= most; };
  if (const auto until = paused_until(options_.home); until && *until > now.unix_s) {
    const bool endless = *until == std::numeric_limits<std::int64_t>::max();
    return Rest{"its owner paused it", endless ? "collab-peer resume" : week_text(local_time(*until).minute_of_week)};
  }
  if (!options_.hours.open(now.minute_of_week)) {
    const auto later = options_.hours.until_change(now.minute_of_week);
    return Rest{"it takes part in its --hours only", later ? week_text(now.minute_of_week + *later) : "never"};
  }
  if (used_up(month_, options_.month_bytes_max))
    return Rest{fmt::format("the {} of --limit-month are used up", gigabytes(options_.month_bytes_max)),
                "the first of next month"};
  if (used_up(day_, options_.day_bytes_max))
    return Rest{fmt::format("the {} of --limit-day are used up", gigabytes(options_.day_bytes_max)), "midnight"};
  const Occasion* first = nullptr;
  for (std::size_t i = 0; i < options_.rest_on.size(); ++i) {
    const Occasion& occasion = options_.rest_on[i];
    if (occasion.shows()) shown_at_[i] = now.unix_s;
    if (first == nullptr && shown_at_[i] && now.unix_s - *shown_at_[i] < kQuiet) first = &occasion;
  }
  if (first == nullptr) return std::nullopt;
  return Rest{first->why, first->until};
}

void Agenda::save(const LocalTime& now) {
  saved_at_ = now.unix_s;
  try {
    write_file(traffic_file(options_.home),
               fmt::format("{} {}\n{} {}\n", day_.name, day_.bytes, month_.name, month_.bytes));
  } catch (const Failure& failure) {
    if (!std::exchange(told_not_saved_, true))
      note_(fmt::format("the traffic is counted in memory only: {}", failure.what()));
  }
}

void pause(const fs::path& home, std::optional<std::int64_t> until_unix_s) {
  write_file(pause_file(home), until_unix_s ? fmt::format("{}\n", *until_unix_s) : std::string("resume\n"));
}

bool resume(const fs::path& home) {
  std::error_code error;
  return fs::remove(pause_file(home), error);
}

}  // namespace collab::node
