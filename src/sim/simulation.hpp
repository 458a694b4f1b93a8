#pragma once
// A loop on virtual time: everything that waits, waits here, and time jumps to the next who wakes.

#include "base/clock.hpp"
#include "base/task_group.hpp"

#include <boost/asio/io_context.hpp>

#include <cstdint>
#include <map>
#include <memory>

namespace collab::sim {

/// Virtual time; moves only when every task waits. Starts at 0, which is 2030-01-01 of every peer's calendar.
class SimClock final : public Clock {
 public:
  explicit SimClock(asio::any_io_executor executor) : executor_(std::move(executor)) {}
  TimePoint now() const override { return now_; }
  std::int64_t unix_ms() const override;
  Task<> sleep_until(TimePoint when) override;
  /// Jumps to the earliest sleeper and wakes it. False when nobody sleeps.
  bool advance();
  /// Who sleeps now; those who wait for ever are not counted.
  std::size_t sleepers() const noexcept;

 private:
  struct Sleeper;
  asio::any_io_executor executor_;
  TimePoint now_{};
  std::uint64_t next_ticket_ = 0;
  std::map<std::pair<TimePoint, std::uint64_t>, Sleeper*> sleepers_;  // ties wake in the order they slept
};

/// One thread, one loop, one virtual clock.
class Simulation {
 public:
  Simulation() : clock_(loop_.get_executor()) {}
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  Clock& clock() noexcept { return clock_; }
  const Clock& clock() const noexcept { return clock_; }
  asio::any_io_executor executor() { return loop_.get_executor(); }
  /// Runs `scenario` to its end. Throws what the scenario threw; `std::logic_error` when every task waits and no timer
  /// is set (a hang), or after `events_max` wake-ups (a livelock).
  void run(Task<> scenario);
  /// Timers that are set: none after everybody has stopped.
  std::size_t sleepers() const noexcept { return clock_.sleepers(); }

  std::uint64_t events_max = 50'000'000;

 private:
  void drain();

  asio::io_context loop_;
  SimClock clock_;
};

}  // namespace collab::sim
