#include "base/signal.hpp"

#include <boost/asio/experimental/awaitable_operators.hpp>

namespace collab {

Task<> Signal::wait() {
  // the timer never fires: an aborted wait is a notification, unless we are being cancelled (the next co_await throws)
  co_await timer_.async_wait(as_result);
}

Task<bool> Signal::wait_until(Clock& clock, TimePoint deadline) {
  using namespace asio::experimental::awaitable_operators;
  if (clock.now() >= deadline) co_return false;
  const auto first = co_await (wait() || clock.sleep_until(deadline));
  co_return first.index() == 0;
}

}  // namespace collab
