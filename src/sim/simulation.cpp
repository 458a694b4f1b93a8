#include "sim/simulation.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/system_error.hpp>

#include <algorithm>
#include <iterator>
#include <stdexcept>

namespace collab::sim {
namespace {

constexpr std::int64_t kOriginUnixMs = 1'893'456'000'000;  // 2030-01-01

}  // namespace

struct SimClock::Sleeper {
  Sleeper(SimClock& owner, TimePoint when)
      : clock(owner),
        key(std::max(when, owner.now_), owner.next_ticket_++),
        wake(owner.executor_, asio::steady_timer::time_point::max()) {
    clock.sleepers_.emplace(key, this);
  }
  ~Sleeper() { clock.sleepers_.erase(key); }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  SimClock& clock;
  std::pair<TimePoint, std::uint64_t> key;
  asio::steady_timer wake;
  bool due = false;
};

std::int64_t SimClock::unix_ms() const {
  return kOriginUnixMs + std::chrono::duration_cast<std::chrono::milliseconds>(now_.time_since_epoch()).count();
}

Task<> SimClock::sleep_until(TimePoint when) {
  Sleeper sleeper(*this, when);
  co_await sleeper.wake.async_wait(as_result);
  if (!sleeper.due) throw boost::system::system_error(asio::error::operation_aborted);
}

std::size_t SimClock::sleepers() const noexcept {
  const auto for_ever = sleepers_.lower_bound({TimePoint::max(), 0});
  return static_cast<std::size_t>(std::distance(sleepers_.begin(), for_ever));
}

bool SimClock::advance() {
  if (sleepers_.empty() || sleepers_.begin()->first.first == TimePoint::max()) return false;
  const auto [key, sleeper] = *sleepers_.begin();
  sleepers_.erase(sleepers_.begin());
  now_ = key.first;
  sleeper->due = true;
  sleeper->wake.cancel();
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
