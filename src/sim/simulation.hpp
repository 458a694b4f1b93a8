#pragma once
// A loop on virtual time: everything that waits, waits here, and time jumps to the next who wakes.

#include "base/clock.hpp"
#include "base/task_group.hpp"

#include <boost/asio/io_context.hpp>

#include <cstdint>

namespace collab::sim {

/// Virtual time; moves only when every task waits. Starts at 0, which is 2030-01-01 of every peer's calendar.
class SimClock final : public Clock {
 public:
  explicit SimClock(const asio::any_io_executor& executor) : turns_(Turns::of(executor)) {}
  TimePoint now() const override { return now_; }
  std::int64_t unix_ms() const override;
  Task<> sleep_until(TimePoint when) override;
  Task<bool> rings(Wakeup& alarm, TimePoint when) override;
  /// Jumps to the earliest event and lets it happen. False when there is none.
  bool advance();
  EventQueue& events() noexcept { return events_; }
  const EventQueue& events() const noexcept { return events_; }

 private:
  Turns& turns_;
  TimePoint now_{};
  EventQueue events_;
};

/// One thread, one loop, one virtual clock.
class Simulation {
 public:
  Simulation() : clock_(loop_.get_executor()) {}
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  SimClock& clock() noexcept { return clock_; }
  const SimClock& clock() const noexcept { return clock_; }
  asio::any_io_executor executor() { return loop_.get_executor(); }
  /// Runs `scenario` to its end. Throws what the scenario threw; `std::logic_error` when every task waits and no timer
  /// is set (a hang), or after `events_max` wake-ups (a livelock).
  void run(Task<> scenario);
  /// Timers that are set: none after everybody has stopped.
  std::size_t timers() const noexcept { return clock_.events().size(); }

  std::uint64_t events_max = 50'000'000;

 private:
  void drain();

  asio::io_context loop_;
  SimClock clock_;
};

}  // namespace collab::sim
