#pragma once
// "Something changed": how tasks of one loop wait for each other.

#include "base/clock.hpp"

#include <boost/asio/steady_timer.hpp>

namespace collab {

/// Wakes every task that waits. Carries no value: a waiter looks again at whatever it waits for, in a loop.
/// Must outlive its waiters. Thread safety: none; belongs to the node's loop.
class Signal {
 public:
  explicit Signal(asio::any_io_executor executor)
      : timer_(std::move(executor), asio::steady_timer::time_point::max()) {}
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;

  void notify() { timer_.cancel(); }

  /// Returns after the next `notify()`. A notification before the call is not seen, so test the condition first.
  Task<> wait();
  /// The same until `deadline`: false when it passed first.
  Task<bool> wait_until(Clock& clock, TimePoint deadline);

 private:
  asio::steady_timer timer_;
};

}  // namespace collab
