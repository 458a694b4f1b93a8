#pragma once
// The door between a trainer and the loop when both live on virtual time.

#include "data/leases.hpp"
#include "epoch/bridge.hpp"
#include "progress/rate.hpp"
#include "sim/trainer.hpp"

#include <cstdint>
#include <deque>
#include <memory>

namespace collab::sim {

/// Computes one microbatch after the other, each taking `samples / speed` seconds of its host's time, and does the
/// loop's errands at the borders between them, as epoch::ThreadBridge does for a thread.
class ClockBridge final : public epoch::Bridge {
 public:
  struct Pace {
    double samples_per_s = 1;
    std::uint64_t microbatch = 1;
  };

  /// `clock`: the host's. `pace` may change between microbatches. All outlive it. `leases`: where its units come from;
  /// null: its samples are its own.
  ClockBridge(asio::any_io_executor loop, Clock& clock, SimTrainer& trainer, const Pace& pace, data::Leases* leases);

  /// The trainer's life: errands only until `begin`, microbatches from then on. Until cancelled, or `leave`.
  Task<> run();
  /// The peer is in step: what is computed now counts.
  void begin();
  /// No more borders: whatever the loop asks from now on fails with `gone`.
  void leave();
  /// Of the time since `begin`, the part that was spent computing; 1 when nothing has begun.
  double busy() const;
  /// The longest time that it waited for units, but for the first ones.
  Duration units_wait_max() const noexcept { return units_wait_max_; }

 private:
  void enqueue(std::shared_ptr<Errand> errand) override;
  bool overtake(const std::shared_ptr<Errand>& errand) override;
  void set_held(bool held) override;
  epoch::Trainer* trainer() override { return left_ ? nullptr : &trainer_; }
  void work_off();
  static void finish(Errand& errand, bool lost);
  Task<> wait();
  Task<> microbatch();
  Task<> wait_for_units();

  Clock& clock_;
  SimTrainer& trainer_;
  const Pace& pace_;
  data::Leases* leases_;
  collab::Work units_;  ///< of the microbatch to come
  bool had_units_ = false;
  Duration units_wait_max_{};
  progress::Rate rate_;
  std::deque<std::shared_ptr<Errand>> errands_;
  Signal changed_;
  bool computes_ = false;
  bool held_ = false;
  bool begun_ = false;
  bool left_ = false;
  TimePoint begun_at_{};
  Duration computing_{};
};

}  // namespace collab::sim
