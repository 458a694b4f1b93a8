#include "base/clock.hpp"

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>

#include <exception>

namespace collab {
namespace {

/// `a || b` waits for one side that does not throw, so a failure would wait for the deadline and then be lost.
Task<> keep_failure(Task<> work, std::exception_ptr& failure) {
  try {
    co_await std::move(work);
  } catch (...) {  // given on as it is, cancellation too
    failure = std::current_exception();
  }
}

}  // namespace

std::int64_t RealClock::unix_ms() const {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(since_1970).count();
}

Task<> RealClock::sleep_until(TimePoint when) {
  if (when <= now()) {  // a turn for others needs no timer
    co_await asio::post(executor_, asio::use_awaitable);
    co_return;
  }
  asio::steady_timer timer(executor_, when);
  const auto [error] = co_await timer.async_wait(as_result);
  if (error) throw boost::system::system_error(error);
}

Task<bool> RealClock::rings(asio::steady_timer& alarm, TimePoint when) {
  alarm.expires_at(when);
  const auto [error] = co_await alarm.async_wait(as_result);
  co_return !error;
}

Task<bool> ends_by(Clock& clock, TimePoint deadline, Task<> work) {
  using namespace asio::experimental::awaitable_operators;
  std::exception_ptr failure;
  const auto first = co_await (keep_failure(std::move(work), failure) || clock.sleep_until(deadline));
  if (first.index() == 1) co_return false;
  if (failure) std::rethrow_exception(failure);
  co_return true;
}

}  // namespace collab
