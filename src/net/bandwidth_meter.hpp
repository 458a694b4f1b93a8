#pragma once
// How fast a link is, from stretches in which nothing but the link was slow.

#include "base/clock.hpp"

#include <cmath>
#include <cstddef>

namespace collab::net {

/// One direction. Stretches of at least 100 ms and 256 kB count, of a slow line those of 2 s and 16 kB; older ones lose
/// half their weight in 30 s.
class BandwidthMeter {
 public:
  /// Bytes begin to leave and more wait behind them.
  void begin(TimePoint now) {
    if (!running_) start(now);
    running_ = true;
  }
  /// `bytes` have left since the last call.
  void add(TimePoint now, std::size_t bytes) {
    if (!running_) return;
    bytes_ += bytes;
    const bool is_long = now - since_ >= kStretch && bytes_ >= kBytes;
    if (is_long || (now - since_ >= kSlowStretch && bytes_ >= kSlowBytes)) {
      sample(now);
      start(now);
    }
  }
  /// Nothing is left to send, or only the reader's credit is missing: the link is no longer the limit.
  void pause() { running_ = false; }

  /// 0: nothing measured yet.
  double bytes_per_s() const noexcept { return weight_ > 0 ? sum_ / weight_ : 0; }

 private:
  static constexpr Duration kStretch = std::chrono::milliseconds(100);
  static constexpr Duration kSlowStretch = std::chrono::seconds(2);
  static constexpr std::size_t kSlowBytes = 16 * 1024;
  static constexpr Duration kHalfLife = std::chrono::seconds(30);
  static constexpr std::size_t kBytes = 256 * 1024;

  void start(TimePoint now) {
    since_ = now;
    bytes_ = 0;
  }
  void sample(TimePoint now) {
    const double age = std::exp2(-to_seconds(now - sampled_) / to_seconds(kHalfLife));
    const double seconds = to_seconds(now - since_);
    sum_ = sum_ * age + static_cast<double>(bytes_);
    weight_ = weight_ * age + seconds;
    sampled_ = now;
  }

  bool running_ = false;
  TimePoint since_{};
  TimePoint sampled_{};
  std::size_t bytes_ = 0;
  double sum_ = 0;
  double weight_ = 0;
};

}  // namespace collab::net
