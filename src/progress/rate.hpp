#pragma once
// Samples per second, smoothed and honest from the first microbatch on.

#include "base/clock.hpp"

#include <cstdint>
#include <optional>

namespace collab::progress {

/// work = (1 - a) work + samples, time = (1 - a) time + seconds, rate = work / time: both sums start empty, so the
/// first value is already right. Time that is spent waiting does not count.
class Rate {
 public:
  explicit Rate(double alpha = 0.1) noexcept : keep_(1 - alpha) {}

  /// A microbatch of `samples` ended at `now`; it began when the last one ended, or at the end of the last pause.
  void add(std::uint64_t samples, TimePoint now) noexcept {
    if (since_) {
      work_ = keep_ * work_ + static_cast<double>(samples);
      time_ = keep_ * time_ + to_seconds(now - *since_);
    }
    since_ = now;
  }
  /// Nothing was computed from `from` to `to`.
  void pause(TimePoint from, TimePoint to) noexcept {
    if (since_) *since_ += to - from;
  }
  /// 0: unknown.
  double samples_per_s() const noexcept { return time_ > 0 ? work_ / time_ : 0; }

 private:
  double keep_;
  double work_ = 0;
  double time_ = 0;
  std::optional<TimePoint> since_;
};

}  // namespace collab::progress
