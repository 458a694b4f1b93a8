#include "base/clock.hpp"

#include <boost/asio/steady_timer.hpp>
#include <boost/system/system_error.hpp>

namespace collab {

std::int64_t RealClock::unix_ms() const {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(since_1970).count();
}

Task<> RealClock::sleep_until(TimePoint when) {
  asio::steady_timer timer(executor_, when);
  const auto [error] = co_await timer.async_wait(as_result);
  if (error) throw boost::system::system_error(error);
}

}  // namespace collab
