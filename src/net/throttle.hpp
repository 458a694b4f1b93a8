#pragma once
// So many bytes a second, for all who share them. No I/O, no clock of its own.

#include "base/clock.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>

namespace collab::net {

inline constexpr double kUncapped = std::numeric_limits<double>::infinity();

/// What the owner of a machine allows of its line in one direction.
struct Cap {
  double bytes_per_s = kUncapped;  ///< on the line: with the headers of packets
  bool reached = false;            ///< within the last minute, so the line can do that much
};
struct Caps {
  Cap up;
  Cap down;
};

/// Deals a rate out in slots of time, one after the other in the order in which they are booked: who has one slot at a
/// time of `quantum()` or less gets as much as everybody else who waits. What nobody has booked is lost, but for
/// `kBurst`; so it carries its rate over any ten seconds to within half a percent. Thread safety: none.
class Throttle {
 public:
  static constexpr Duration kBurst = std::chrono::milliseconds(50);

  explicit Throttle(double bytes_per_s) : bytes_per_s_(bytes_per_s) {}

  bool is_capped() const noexcept { return bytes_per_s_ < kUncapped; }
  /// What anybody should book at once: 20 ms of the rate, so that who comes next waits for little.
  std::size_t quantum() const {
    return static_cast<std::size_t>(std::clamp(bytes_per_s_ * to_seconds(kSlot), double(kSlotMin), double(kSlotMax)));
  }
  /// From when on so many bytes of a stream may travel; now or later.
  TimePoint book(TimePoint now, std::size_t bytes);
  /// How many have booked a slot that has not come, if all book `quantum()`.
  double waiting(TimePoint now) const;
  Cap cap(TimePoint now) const { return {bytes_per_s_, reached_ && now - *reached_ < kRemembered}; }

 private:
  static constexpr Duration kSlot = std::chrono::milliseconds(20);
  static constexpr Duration kRemembered = std::chrono::minutes(1);
  static constexpr std::size_t kSlotMin = 2 * 1440;  // less than a packet is mostly headers
  static constexpr std::size_t kSlotMax = 64 * 1024;

  double bytes_per_s_;
  TimePoint free_{};                  ///< the end of the last slot
  TimePoint idle_{};                  ///< when somebody last came who did not have to wait
  std::optional<TimePoint> reached_;  ///< when everybody had waited for a second
};

/// What `bytes` of a stream are on the line: IP and TCP put some 60 before each packet of 1,440.
inline double on_the_line(std::size_t bytes) {
  constexpr std::size_t kPacket = 1440;
  constexpr std::size_t kHeaders = 60;
  return static_cast<double>(bytes + (bytes + kPacket - 1) / kPacket * kHeaders);
}

}  // namespace collab::net
