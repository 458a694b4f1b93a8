#pragma once
// "Something changed": how tasks of one loop wait for each other.

#include "base/clock.hpp"

namespace collab {

/// Wakes every task that waits. Carries no value: a waiter looks again at whatever it waits for, in a loop.
/// Must outlive its waiters. Thread safety: none; belongs to the node's loop.
class Signal {
 public:
  explicit Signal(const asio::any_io_executor& executor) : turns_(Turns::of(executor)) {}
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;

  /// Wakes them in the order in which they began to wait.
  void notify();

  /// True after the next `notify()`. A notification before the call is not seen, so test the condition first. False
  /// when the task was cancelled: its next co_await throws, and a task that has nothing to undo better just returns.
  Task<bool> wait();
  /// The same until `deadline`: false when it passed first.
  Task<bool> wait_until(Clock& clock, TimePoint deadline);

 private:
  struct Waiter;

  Turns& turns_;
  Waiter* first_ = nullptr;
  Waiter* last_ = nullptr;
};

}  // namespace collab
