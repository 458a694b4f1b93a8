#pragma once
// Spans and points of time, for whoever only names them.

#include <chrono>

namespace collab {

using Duration = std::chrono::nanoseconds;
/// Nanoseconds since the clock's own origin. Never sent to another peer.
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

/// Seconds as a number, for rates and reports.
inline double to_seconds(Duration duration) noexcept {
  return std::chrono::duration<double>(duration).count();
}
inline Duration from_seconds(double seconds) noexcept {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace collab
