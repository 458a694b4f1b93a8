#pragma once
// Time as a dependency: protocols ask a Clock, so the simulator can own time.

#include "base/duration.hpp"
#include "base/error.hpp"
#include "base/event_queue.hpp"
#include "base/task.hpp"
#include "base/wakeup.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace collab {

/// Monotonic time of one node. `now()` is constant between two suspensions in the simulator.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
  /// Milliseconds since 1970 as this machine believes: for expiry of signed things, never for measuring.
  virtual std::int64_t unix_ms() const = 0;
  /// Returns at or after `when`. Cancellation ends it early with `operation_aborted`.
  virtual Task<> sleep_until(TimePoint when) = 0;
  /// Waits in `alarm`, which nobody else uses meanwhile: true at or after `when`, false when somebody woke it first.
  /// Cancellation of the task looks like that too: the next co_await throws.
  virtual Task<bool> rings(Wakeup& alarm, TimePoint when) = 0;
};

/// Wakes whoever waits in `alarm` when its moment comes.
class Alarm final : public Event {
 public:
  Alarm(EventQueue& queue, Wakeup& alarm, TimePoint when) : Event(queue), alarm_(alarm) { set(when); }
  bool rang() const noexcept { return rang_; }

 private:
  void happen() override {
    rang_ = true;
    alarm_.wake();
  }

  Wakeup& alarm_;
  bool rang_ = false;
};

/// The machine's own time. `executor`: the node's loop. One timer of the system's for all who wait.
class RealClock final : public Clock {
 public:
  explicit RealClock(const asio::any_io_executor& executor);
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
  std::int64_t unix_ms() const override;
  Task<> sleep_until(TimePoint when) override;
  Task<bool> rings(Wakeup& alarm, TimePoint when) override;

 private:
  struct Hands;
  asio::any_io_executor executor_;
  Turns& turns_;
  std::shared_ptr<Hands> hands_;  // what the system calls back may be on its way when the clock goes
};

/// Runs `work` for as long as `deadline` allows, then cancels it and waits until it has unwound: false. Throws what
/// `work` throws before the deadline, at once.
Task<bool> ends_by(Clock& clock, TimePoint deadline, Task<> work);

namespace detail {

template <class T>
Task<> keep_result(Task<T> work, std::optional<T>& into) {
  T result = co_await std::move(work);
  into.emplace(std::move(result));
}

}  // namespace detail

/// The same of work that has a result. Errors: those of `work`, or `Errc::late`.
template <class T, class E>
Task<boost::system::result<T, E>> with_deadline(Clock& clock, TimePoint deadline,
                                                Task<boost::system::result<T, E>> work) {
  std::optional<boost::system::result<T, E>> result;
  auto kept = detail::keep_result(std::move(work), result);
  const bool in_time = co_await ends_by(clock, deadline, std::move(kept));
  if (!in_time) co_return E(Errc::late);
  co_return std::move(*result);
}

}  // namespace collab
