#pragma once
// What time it is, as the swarm agrees.

#include "base/clock.hpp"

#include <cstdint>
#include <vector>

namespace collab::net {

/// Own steady clock plus the median skew of the connected peers: a calendar that jumps, or is somewhat off, changes
/// nothing while somebody is connected. Milliseconds since 1970.
class SwarmTime {
 public:
  explicit SwarmTime(Clock& clock) : clock_(clock), unix_at_start_(clock.unix_ms()), started_(clock.now()) {}

  /// By our own clock: the calendar as it was read last, and the steady clock since.
  std::int64_t own_ms() const { return unix_at_start_ + since_start_ms(); }
  std::int64_t swarm_ms() const { return own_ms() + skew_ms_; }
  /// `skews`: of the connected peers, theirs minus ours. Our own 0 is one of them; at most `kSkewMaxMs` off.
  void agree(std::vector<std::int64_t> skews);
  /// For while nobody is connected, when there is no swarm time to keep steady: a calendar that was corrected, or went
  /// on while this machine slept, is believed. Else a node that slept for a minute could never join again.
  void read_calendar() { unix_at_start_ = clock_.unix_ms() - since_start_ms(); }

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
