#include "net/throttle.hpp"

namespace collab::net {

TimePoint Throttle::book(TimePoint now, std::size_t bytes) {
  if (!is_capped()) return now;
  const TimePoint begin = std::max(free_, now - kBurst);
  free_ = begin + from_seconds(on_the_line(bytes) / bytes_per_s_);
  constexpr Duration kSustained = std::chrono::seconds(1);
  if (begin <= now) idle_ = now;
  if (now - idle_ >= kSustained) reached_ = now;
  return std::max(begin, now);
}

double Throttle::waiting(TimePoint now) const {
  if (!is_capped() || free_ <= now) return 0;
  return to_seconds(free_ - now) * bytes_per_s_ / on_the_line(quantum());
}

}  // namespace collab::net
