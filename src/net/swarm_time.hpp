#pragma once
// What time it is, as the swarm agrees.

#include "base/clock.hpp"

#include <cstdint>
#include <vector>

namespace collab::net {

/// Own steady clock plus the median skew of this and the connected peers: a calendar that jumps, or is somewhat off,
/// changes nothing while somebody is connected. Whoever comes takes the time of those who are there: so those with the
/// largest errors of both signs, who could not agree with each other, agree with everybody. Milliseconds since 1970.
class SwarmTime {
 public:
  explicit SwarmTime(Clock& clock) : clock_(clock), unix_at_start_(clock.unix_ms()), started_(clock.now()) {}

  /// By our own clock: the calendar as it was read last, and the steady clock since.
  std::int64_t own_ms() const { return unix_at_start_ + since_start_ms(); }
  std::int64_t swarm_ms() const { return own_ms() + skew_ms_; }
  /// Of a connected peer: its swarm time minus our own clock, and whether we came to it.
  struct Skew {
    std::int64_t ms = 0;
    bool dialled = false;
  };
  /// At most `kSkewMaxMs` from our own clock. Of two the one that dialled follows the other. False: it is further than
  /// anybody's may be who connects, and by more than clocks drift. Then ours is not the swarm's any more.
  bool agree(const std::vector<Skew>& skews);
  /// For while nobody is connected, when there is no swarm time to keep steady: a calendar that was corrected, or went
  /// on while this machine slept, is believed. Else a node that slept for a minute could never join again. Without a
  /// jump, what was agreed on is kept: a node that was cut off is the swarm's still.
  void read_calendar();

 private:
  std::int64_t since_start_ms() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(clock_.now() - started_).count();
  }

  Clock& clock_;
  std::int64_t unix_at_start_;
  TimePoint started_;
  std::int64_t skew_ms_ = 0;
};

}  // namespace collab::net
