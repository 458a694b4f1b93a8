#include "base/clock.hpp"

#include <boost/asio/error.hpp>
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

/// The events, and the system's timer for the earliest of them.
struct RealClock::Hands {
  explicit Hands(const asio::any_io_executor& executor) : timer(executor) {}

  static void look(const std::shared_ptr<Hands>& hands) {
    const auto next = hands->events.next();
    if (!next || *next >= hands->armed) return;
    hands->armed = *next;
    hands->timer.expires_at(*next);
    hands->timer.async_wait([still = std::weak_ptr(hands)](const boost::system::error_code& error) {
      const auto there = still.lock();
      if (error || !there) return;
      there->armed = TimePoint::max();
      for (auto due = there->events.next(); due && *due <= std::chrono::steady_clock::now(); due = there->events.next())
        there->events.happen_next();
      look(there);
    });
  }

  /// A timer that is set keeps the loop from ending.
  void rest() {
    if (events.size() > 0 || armed == TimePoint::max()) return;
    armed = TimePoint::max();
    timer.cancel();
  }

  EventQueue events;
  asio::steady_timer timer;
  TimePoint armed = TimePoint::max();
};

RealClock::RealClock(const asio::any_io_executor& executor)
    : executor_(executor), turns_(Turns::of(executor)), hands_(std::make_shared<Hands>(executor)) {}

std::int64_t RealClock::unix_ms() const {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(since_1970).count();
}

Task<> RealClock::sleep_until(TimePoint when) {
  if (when <= now()) {  // a turn for others needs no timer
    co_await asio::post(executor_, asio::use_awaitable);
    co_return;
  }
  Wakeup alarm(turns_);
  const bool rang = co_await rings(alarm, when);
  if (!rang) throw boost::system::system_error(asio::error::operation_aborted);
}

Task<bool> RealClock::rings(Wakeup& alarm, TimePoint when) {
  Alarm ringing(hands_->events, alarm, when);
  Hands::look(hands_);
  co_await alarm.wait();
  ringing.call_off();
  hands_->rest();
  co_return ringing.rang();
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
