#include "net/throttle.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "support/doctest.hpp"

namespace collab::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr double kCap = 250e3;  // 2 Mbit/s

}  // namespace

TEST_CASE("throttle: those who wait get equal parts of the rate, to within half a percent in ten seconds") {
  Throttle throttle(kCap);
  const std::size_t quantum = throttle.quantum();
  CHECK(quantum == 5000);
  std::array<TimePoint, 3> next{};
  std::array<std::size_t, 3> moved{};
  const TimePoint begin = TimePoint(seconds(100));
  next.fill(begin);
  for (;;) {
    const auto first = std::min_element(next.begin(), next.end());
    if (*first >= begin + seconds(10)) break;
    *first = throttle.book(*first, quantum);
    moved[static_cast<std::size_t>(first - next.begin())] += quantum;
  }
  const double line = on_the_line(moved[0]) + on_the_line(moved[1]) + on_the_line(moved[2]);
  CHECK(line <= 1.007 * 10 * kCap);
  CHECK(line >= 0.995 * 10 * kCap);
  CHECK(*std::max_element(moved.begin(), moved.end()) - *std::min_element(moved.begin(), moved.end()) <=
        3 * quantum);  // all of the burst went to one
}

TEST_CASE("throttle: what nobody used is not made up for; that the cap is reached is known after a second of it") {
  Throttle throttle(kCap);
  TimePoint now = TimePoint(seconds(100));
  throttle.book(now, 1000);
  now += seconds(50);
  std::size_t at_once = 0;
  while (throttle.book(now, 1000) == now) at_once += 1000;
  CHECK(double(at_once) <= 1.1 * kCap * to_seconds(Throttle::kBurst));
  CHECK_FALSE(throttle.cap(now).reached);
  const TimePoint end = now + milliseconds(1500);
  while (now < end) now = throttle.book(now, 1000);
  CHECK(throttle.cap(now).reached);
  CHECK(throttle.cap(now).bytes_per_s == kCap);
  CHECK_FALSE(throttle.cap(now + seconds(61)).reached);
  CHECK_FALSE(Throttle(kUncapped).is_capped());
  CHECK(Throttle(kUncapped).book(now, 1 << 20U) == now);
}

}  // namespace collab::net
