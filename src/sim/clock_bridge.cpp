#include "sim/clock_bridge.hpp"

#include <algorithm>
#include <utility>

namespace collab::sim {
namespace {

constexpr Duration kUnitsStep = std::chrono::milliseconds(20);  // between two looks for units, as in optim::Optimizer

}  // namespace

ClockBridge::ClockBridge(asio::any_io_executor loop, Clock& clock, SimTrainer& trainer, const Pace& pace,
                         data::Leases* leases)
    : Bridge(loop), clock_(clock), trainer_(trainer), pace_(pace), leases_(leases), changed_(loop) {}

Task<> ClockBridge::run() {
  for (;;) {
    work_off();
    if (left_) co_return;
    if (held_ || !begun_) {
      co_await wait();
      continue;
    }
    if (leases_ != nullptr) units_ = leases_->take(pace_.microbatch);
    if (leases_ != nullptr && units_.empty()) {
      co_await wait_for_units();
    } else {
      co_await microbatch();
    }
  }
}

Task<> ClockBridge::wait() {
  const TimePoint from = clock_.now();
  co_await changed_.wait();
  co_await clock_.sleep_until(clock_.now());  // a frozen host does nothing, whoever wakes it
  rate_.pause(from, clock_.now());
}

/// At a border: what the loop asks comes first.
Task<> ClockBridge::wait_for_units() {
  const TimePoint from = clock_.now();
  while (units_.empty() && errands_.empty() && !held_ && !left_) {
    co_await leases_->ready().wait_until(clock_, clock_.now() + kUnitsStep);
    co_await clock_.sleep_until(clock_.now());  // as above
    if (errands_.empty() && !held_ && !left_) units_ = leases_->take(pace_.microbatch);
  }
  if (had_units_) units_wait_max_ = std::max(units_wait_max_, clock_.now() - from);
  rate_.pause(from, clock_.now());
  if (!units_.empty()) co_await microbatch();
}

Task<> ClockBridge::microbatch() {
  const std::uint64_t samples = leases_ != nullptr ? units_.count() : pace_.microbatch;
  const Duration length = from_seconds(static_cast<double>(samples) / pace_.samples_per_s);
  had_units_ = true;
  computes_ = true;
  co_await clock_.sleep_until(clock_.now() + length);
  computes_ = false;
  computing_ += length;
  if (leases_ != nullptr) {
    trainer_.compute(std::exchange(units_, {}));
  } else {
    trainer_.compute(samples);
  }
  rate_.add(samples, clock_.now());
  samples_ = trainer_.samples();
  samples_per_s_ = rate_.samples_per_s();
  microbatch_ = samples;
  if (leases_ != nullptr) leases_->speed(samples_per_s_);
  if (is_heard(clock_.now())) moved_.notify();
}

void ClockBridge::begin() {
  if (begun_) return;
  begun_ = true;
  begun_at_ = clock_.now();
  changed_.notify();
}

void ClockBridge::leave() {
  left_ = true;
  for (const auto& errand : std::exchange(errands_, {})) finish(*errand, /*lost=*/true);
  changed_.notify();
}

double ClockBridge::busy() const {
  const Duration all = clock_.now() - begun_at_;
  return begun_ && all > Duration() ? to_seconds(computing_) / to_seconds(all) : 1;
}

void ClockBridge::enqueue(std::shared_ptr<Errand> errand) {
  if (left_) return finish(*errand, /*lost=*/true);
  errands_.push_back(std::move(errand));
  changed_.notify();
}

bool ClockBridge::overtake(const std::shared_ptr<Errand>& errand) {
  if (!computes_ || std::erase(errands_, errand) == 0) return false;
  errand->work(trainer_);
  errand->work = nullptr;
  samples_ = trainer_.samples();
  return true;
}

void ClockBridge::set_held(bool held) {
  held_ = held;
  changed_.notify();
}

void ClockBridge::work_off() {
  while (!errands_.empty()) {
    const auto errand = std::move(errands_.front());
    errands_.pop_front();
    errand->work(trainer_);
    samples_ = trainer_.samples();
    finish(*errand, /*lost=*/false);
  }
}

void ClockBridge::finish(Errand& errand, bool lost) {
  errand.work = nullptr;
  errand.done = true;
  errand.lost = lost;
  errand.finished.notify();
}

}  // namespace collab::sim
