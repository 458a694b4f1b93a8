#include "base/clock.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>

#include <exception>

namespace collab {

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

/// Not `work || sleep`: the sleep would be one more task, and end by an exception each time that work is in time.
Task<bool> ends_by(Clock& clock, TimePoint deadline, Task<> work) {
  const auto executor = co_await asio::this_coro::executor;
  Wakeup alarm(Turns::of(executor));
  asio::cancellation_signal cancel;
  std::exception_ptr failure;
  bool ended = false;
  const auto end = [&](std::exception_ptr error) {
    failure = std::move(error);
    ended = true;
    alarm.wake();
  };
  asio::co_spawn(executor, std::move(work), asio::bind_cancellation_slot(cancel.slot(), end));
  co_await asio::this_coro::throw_if_cancelled(false);  // this frame stays until work has unwound
  const asio::cancellation_state ours = co_await asio::this_coro::cancellation_state;
  bool late = false;
  if (!ended && ours.cancelled() == asio::cancellation_type::none) late = co_await clock.rings(alarm, deadline);
  late = late && !ended;
  if (!ended) cancel.emit(asio::cancellation_type::terminal);
  while (!ended) co_await alarm.wait();
  co_await asio::this_coro::throw_if_cancelled(true);
  if (late) co_return false;
  if (failure) std::rethrow_exception(failure);  // when we are cancelled: that of work
  co_return true;
}

}  // namespace collab
