#include "epoch/bridge.hpp"

#include <boost/asio/post.hpp>

#include <utility>

namespace collab::epoch {

Task<Result<>> Bridge::on_trainer(Work work) {
  const auto errand = std::make_shared<Errand>(loop_, std::move(work));
  enqueue(errand);
  while (!errand->done) co_await errand->finished.wait();
  co_return errand->lost ? Result<>(Errc::gone) : Result<>();
}

std::uint64_t Bridge::samples() const {
  const std::lock_guard lock(mutex_);
  return samples_;
}

double Bridge::samples_per_s() const {
  const std::lock_guard lock(mutex_);
  return samples_per_s_;
}

std::uint64_t Bridge::microbatch() const {
  const std::lock_guard lock(mutex_);
  return microbatch_;
}

void ThreadBridge::border(Trainer& trainer, double samples_per_s) {
  std::unique_lock lock(mutex_);
  const std::uint64_t samples = trainer.samples();
  if (samples > samples_) microbatch_ = samples - samples_;
  samples_ = samples;
  samples_per_s_ = samples_per_s;
  asio::post(loop_, [this] { moved_.notify(); });
  work_off(trainer, lock);
  while (held_ && !open_) {
    changed_.wait(lock);
    work_off(trainer, lock);
  }
}

bool ThreadBridge::wait(Trainer& trainer, const std::function<bool()>& ready, TimePoint deadline) {
  std::unique_lock lock(mutex_);
  samples_per_s_ = 0;
  asio::post(loop_, [this] { moved_.notify(); });
  for (;;) {
    work_off(trainer, lock);
    if (open_ || (ready() && !held_)) return true;
    if (changed_.wait_until(lock, deadline) == std::cv_status::timeout) return ready();
  }
}

void ThreadBridge::leave() {
  std::deque<std::shared_ptr<Errand>> lost;
  {
    const std::lock_guard lock(mutex_);
    left_ = true;
    lost = std::exchange(errands_, {});
  }
  for (auto& errand : lost) finish(std::move(errand), /*lost=*/true);
}

void ThreadBridge::open() {
  const std::lock_guard lock(mutex_);
  open_ = true;
  changed_.notify_all();
}

void ThreadBridge::enqueue(std::shared_ptr<Errand> errand) {
  {
    const std::lock_guard lock(mutex_);
    if (!left_) {
      errands_.push_back(std::move(errand));
      changed_.notify_all();
      return;
    }
  }
  finish(std::move(errand), /*lost=*/true);
}

void ThreadBridge::set_held(bool held) {
  const std::lock_guard lock(mutex_);
  held_ = held;
  changed_.notify_all();
}

void ThreadBridge::finish(std::shared_ptr<Errand> errand, bool lost) {
  errand->work = nullptr;
  // the errand's timer belongs to the loop, so the last reference is let go there
  asio::post(loop_, [errand = std::move(errand), lost] {
    errand->done = true;
    errand->lost = lost;
    errand->finished.notify();
  });
}

void ThreadBridge::work_off(Trainer& trainer, std::unique_lock<std::mutex>& lock) {
  while (!errands_.empty()) {
    auto errand = std::move(errands_.front());
    errands_.pop_front();
    lock.unlock();
    errand->work(trainer);
    lock.lock();
    samples_ = trainer.samples();  // before the loop hears of it: a hand-over leaves none
    lock.unlock();
    finish(std::move(errand), /*lost=*/false);
    lock.lock();
  }
}

}  // namespace collab::epoch
