#include "sim/simulation.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/system/system_error.hpp>

#include <stdexcept>

namespace collab::sim {
namespace {

constexpr std::int64_t kOriginUnixMs = 1'893'456'000'000;  // 2030-01-01

}  // namespace

std::int64_t SimClock::unix_ms() const {
  return kOriginUnixMs + std::chrono::duration_cast<std::chrono::milliseconds>(now_.time_since_epoch()).count();
}

Task<> SimClock::sleep_until(TimePoint when) {
  Wakeup alarm(turns_);
  const Alarm ringing(events_, alarm, when);
  co_await alarm.wait();
  if (!ringing.rang()) throw boost::system::system_error(asio::error::operation_aborted);
}

Task<bool> SimClock::rings(Wakeup& alarm, TimePoint when) {
  const Alarm ringing(events_, alarm, when);
  co_await alarm.wait();
  co_return ringing.rang();
}

bool SimClock::advance() {
  const auto when = events_.next();
  if (!when) return false;
  now_ = *when;
  events_.happen_next();
  return true;
}

void Simulation::drain() {
  loop_.restart();
  loop_.poll();
}

void Simulation::run(Task<> scenario) {
  std::exception_ptr failure;
  bool done = false;
  const auto finish = [&](std::exception_ptr error) {
    failure = std::move(error);
    done = true;
  };
  asio::co_spawn(loop_, std::move(scenario), finish);
  drain();
  std::uint64_t events = 0;
  while (!done) {
    if (++events > events_max) throw std::logic_error("simulation: too many events");
    if (!clock_.advance()) throw std::logic_error("simulation: every task waits and no timer is set");
    drain();  // may set `done`
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace collab::sim
