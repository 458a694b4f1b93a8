#pragma once
// A loop on virtual time: everything that waits, waits here, and time jumps to the next who wakes.

#include "base/clock.hpp"
#include "base/task_group.hpp"

#include <boost/asio/io_context.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

namespace collab::sim {

class SimClock;

/// Something that happens once at a moment of virtual time, unless it is called off or destroyed before.
class Event {
 public:
  explicit Event(SimClock& clock) : clock_(clock) {}
  virtual ~Event() { call_off(); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  /// At `when`, or now if that has passed; TimePoint::max(): never. Not while it is set.
  void set(TimePoint when);
  void call_off();

 private:
  friend class SimClock;
  virtual void happen() = 0;

  SimClock& clock_;
  std::optional<std::pair<TimePoint, std::uint64_t>> key_;
};

/// Virtual time; moves only when every task waits. Starts at 0, which is 2030-01-01 of every peer's calendar.
class SimClock final : public Clock {
 public:
  explicit SimClock(asio::any_io_executor executor) : executor_(std::move(executor)) {}
  TimePoint now() const override { return now_; }
  std::int64_t unix_ms() const override;
  Task<> sleep_until(TimePoint when) override;
  Task<bool> rings(asio::steady_timer& alarm, TimePoint when) override;
  /// Jumps to the earliest event and lets it happen. False when there is none.
  bool advance();
  /// Of those that are set.
  std::size_t events() const noexcept { return events_.size(); }

 private:
  friend class Event;
  class Alarm;
  asio::any_io_executor executor_;
  TimePoint now_{};
  std::uint64_t next_ticket_ = 0;
  std::map<std::pair<TimePoint, std::uint64_t>, Event*> events_;  // ties happen in the order they were set
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
  std::size_t timers() const noexcept { return clock_.events(); }

  std::uint64_t events_max = 50'000'000;

 private:
  void drain();

  asio::io_context loop_;
  SimClock clock_;
};

}  // namespace collab::sim
