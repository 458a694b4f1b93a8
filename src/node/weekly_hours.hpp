#pragma once
// When in a week something is allowed.

#include <bitset>
#include <optional>
#include <string>
#include <string_view>

namespace collab::node {

inline constexpr unsigned kMinutesOfDay = 24 * 60;
inline constexpr unsigned kMinutesOfWeek = 7 * kMinutesOfDay;

/// "22:00-07:00" (each night), "mon-fri 18:30-24:00; sat,sun" (and then all day). A span that ends before it begins
/// ends on the next day.
class WeeklyHours {
 public:
  /// Always.
  WeeklyHours() { open_.set(); }
  /// In any of these; none: always. Throws `Failure(usage)`.
  explicit WeeklyHours(std::string_view spans);

  /// `minute`: of the week, from Monday 0:00 on.
  bool open(unsigned minute) const { return open_[minute % kMinutesOfWeek]; }
  /// Minutes from `minute` on until that is otherwise; nothing: never.
  std::optional<unsigned> until_change(unsigned minute) const;

 private:
  void add(std::string_view span);

  std::bitset<kMinutesOfWeek> open_;
};

/// "Mon 07:00".
std::string week_text(unsigned minute);

}  // namespace collab::node
