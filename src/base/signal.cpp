#include "base/signal.hpp"

#include <boost/asio/error.hpp>
#include <boost/system/system_error.hpp>

namespace collab {

/// In the list of those who wait for as long as it lives, or until it is notified.
struct Signal::Waiter {
  explicit Waiter(Signal& of) : signal(of), alarm(of.turns_) {
    before = signal.last_;
    (before != nullptr ? before->after : signal.first_) = this;
    signal.last_ = this;
  }
  ~Waiter() { leave(); }
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  void leave() {
    if (notified) return;
    (before != nullptr ? before->after : signal.first_) = after;
    (after != nullptr ? after->before : signal.last_) = before;
  }

  Signal& signal;
  Wakeup alarm;
  Waiter* before = nullptr;
  Waiter* after = nullptr;
  bool notified = false;
};

void Signal::notify() {
  while (first_ != nullptr) {
    Waiter& waiter = *first_;
    waiter.leave();
    waiter.notified = true;
    waiter.alarm.wake();
  }
}

Task<bool> Signal::wait() {
  Waiter waiter(*this);
  co_await waiter.alarm.wait();
  co_return waiter.notified;
}

Task<bool> Signal::wait_until(Clock& clock, TimePoint deadline) {
  if (clock.now() >= deadline) co_return false;
  Waiter waiter(*this);
  const bool rang = co_await clock.rings(waiter.alarm, deadline);
  if (!rang && !waiter.notified) throw boost::system::system_error(asio::error::operation_aborted);
  co_return waiter.notified;
}

}  // namespace collab
