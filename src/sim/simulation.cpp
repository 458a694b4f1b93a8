#include "sim/simulation.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/system_error.hpp>

#include <algorithm>
#include <cassert>
#include <stdexcept>

namespace collab::sim {
namespace {

constexpr std::int64_t kOriginUnixMs = 1'893'456'000'000;  // 2030-01-01

}  // namespace

void Event::set(TimePoint when) {
  assert(!key_);
  if (when == TimePoint::max()) return;
  key_.emplace(std::max(when, clock_.now_), clock_.next_ticket_++);
  clock_.events_.emplace(*key_, this);
}

void Event::call_off() {
  if (key_) clock_.events_.erase(*key_);
  key_.reset();
}

/// Ends the wait of a task.
class SimClock::Alarm final : public Event {
 public:
  Alarm(SimClock& clock, asio::steady_timer& timer, TimePoint when) : Event(clock), timer_(timer) { set(when); }
  bool rang() const noexcept { return rang_; }

 private:
  void happen() override {
    rang_ = true;
    timer_.cancel();
  }

  asio::steady_timer& timer_;
  bool rang_ = false;
};

std::int64_t SimClock::unix_ms() const {
  return kOriginUnixMs + std::chrono::duration_cast<std::chrono::milliseconds>(now_.time_since_epoch()).count();
}

Task<> SimClock::sleep_until(TimePoint when) {
  asio::steady_timer timer(executor_, asio::steady_timer::time_point::max());
  const bool rang = co_await rings(timer, when);
  if (!rang) throw boost::system::system_error(asio::error::operation_aborted);
}

Task<bool> SimClock::rings(asio::steady_timer& timer, TimePoint when) {
  const Alarm alarm(*this, timer, when);
  co_await timer.async_wait(as_result);
  co_return alarm.rang();
}

bool SimClock::advance() {
  if (events_.empty()) return false;
  const auto [key, event] = *events_.begin();
  now_ = key.first;
  event->call_off();
  event->happen();
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
