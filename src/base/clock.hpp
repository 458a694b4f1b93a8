#pragma once
// Time as a dependency: protocols ask a Clock, so the simulator can own time.

#include "base/duration.hpp"
#include "base/error.hpp"
#include "base/task.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>

#include <chrono>
#include <cstdint>
#include <exception>
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
};

/// The machine's own time. `executor`: the node's loop.
class RealClock final : public Clock {
 public:
  explicit RealClock(asio::any_io_executor executor) : executor_(std::move(executor)) {}
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
  std::int64_t unix_ms() const override;
  Task<> sleep_until(TimePoint when) override;

 private:
  asio::any_io_executor executor_;
};

namespace detail {

/// Keeps how `work` ended: `a || b` waits for one side that does not throw, so a failure would wait for the deadline
/// and then be lost.
template <class T>
Task<> keep_end(Task<T> work, std::optional<T>& value, std::exception_ptr& failure) {
  try {
    T end = co_await std::move(work);
    value.emplace(std::move(end));
  } catch (...) {  // given on as it is, cancellation too
    failure = std::current_exception();
  }
}

}  // namespace detail

/// Runs `work` for as long as `deadline` allows, then cancels it and waits until it has unwound.
/// Errors: those of `work`, or `Errc::late`. Throws what `work` throws before the deadline, at once.
template <class T, class E>
Task<boost::system::result<T, E>> with_deadline(Clock& clock, TimePoint deadline,
                                                Task<boost::system::result<T, E>> work) {
  using namespace asio::experimental::awaitable_operators;
  std::optional<boost::system::result<T, E>> value;
  std::exception_ptr failure;
  const auto first = co_await (detail::keep_end(std::move(work), value, failure) || clock.sleep_until(deadline));
  if (first.index() == 1) co_return E(Errc::late);
  if (failure) std::rethrow_exception(failure);
  co_return std::move(*value);
}

}  // namespace collab
