#include "node/weekly_hours.hpp"

#include "base/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <charconv>
#include <vector>

namespace collab::node {
namespace {

constexpr std::array<std::string_view, 7> kDays = {"mon", "tue", "wed", "thu", "fri", "sat", "sun"};
using Days = std::bitset<7>;

[[noreturn]] void refuse_hours(std::string_view span, std::string_view why) {
  throw Failure(ExitCode::usage, fmt::format("\"{}\" are no hours: {}", span, why),
                "--hours 22:00-07:00, or --hours \"mon-fri 18:00-24:00; sat,sun\"");
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

unsigned day_named(std::string_view name, std::string_view span) {
  const auto found = std::find(kDays.begin(), kDays.end(), name);
  if (found == kDays.end()) refuse_hours(span, fmt::format("no day \"{}\" (mon tue wed thu fri sat sun)", name));
  return static_cast<unsigned>(found - kDays.begin());
}

Days parse_days(std::string_view text, std::string_view span) {
  Days days;
  for (const std::string_view part : split(text, ',')) {
    const auto ends = split(part, '-');
    if (ends.size() > 2) refuse_hours(span, "days are mon, mon-fri or sat,sun");
    const unsigned last = day_named(ends.back(), span);
    for (unsigned day = day_named(ends.front(), span); days.set(day), day != last;) day = (day + 1) % 7;
  }
  return days;
}

unsigned parse_number(std::string_view text, std::string_view span) {
  unsigned number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.size() != 2 || error != std::errc() || end != text.data() + text.size())
    refuse_hours(span, "a time is HH:MM");
  return number;
}

/// Minutes of a day.
unsigned parse_time(std::string_view text, std::string_view span) {
  const auto parts = split(text, ':');
  if (parts.size() != 2) refuse_hours(span, "a time is HH:MM");
  const unsigned hours = parse_number(parts[0], span);
  const unsigned minutes = parse_number(parts[1], span);
  if (minutes > 59 || hours * 60 + minutes > kMinutesOfDay) refuse_hours(span, "a day ends at 24:00");
  return hours * 60 + minutes;
}

}  // namespace

WeeklyHours::WeeklyHours(std::string_view spans) {
  if (spans.empty()) {
    open_.set();
    return;
  }
  for (const std::string_view span : split(spans, ';'))
    add(span.substr(std::min(span.find_first_not_of(' '), span.size())));
}

void WeeklyHours::add(std::string_view span) {
  auto words = split(span, ' ');
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  Days days = Days().set();
  if (words[0].empty() || !is_digit(words[0].front())) {
    days = parse_days(words[0], span);
    words.erase(words.begin());
  }
  if (words.size() > 1) refuse_hours(span, "days, a space, and one span");
  unsigned begin = 0;
  unsigned end = kMinutesOfDay;
  if (!words.empty()) {
    const auto ends = split(words[0], '-');
    if (ends.size() != 2) refuse_hours(span, "a span is HH:MM-HH:MM");
    begin = parse_time(ends[0], span);
    end = parse_time(ends[1], span);
  }
  if (begin == end) refuse_hours(span, "they end where they begin");
  if (end < begin) end += kMinutesOfDay;
  for (unsigned day = 0; day < 7; ++day)
    for (unsigned minute = begin; days[day] && minute < end; ++minute)
      open_.set((day * kMinutesOfDay + minute) % kMinutesOfWeek);
}

std::optional<unsigned> WeeklyHours::until_change(unsigned minute) const {
  for (unsigned later = 1; later < kMinutesOfWeek; ++later)
    if (open(minute + later) != open(minute)) return later;
  return std::nullopt;
}

std::string week_text(unsigned minute) {
  const unsigned of_day = minute % kMinutesOfDay;
  std::string day(kDays[minute % kMinutesOfWeek / kMinutesOfDay]);
  day.front() = static_cast<char>(day.front() - 'a' + 'A');
  return fmt::format("{} {:02}:{:02}", day, of_day / 60, of_day % 60);
}

}  // namespace collab::node
