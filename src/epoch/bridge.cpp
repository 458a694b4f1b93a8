#include "epoch/bridge.hpp"

#include "base/offload.hpp"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <utility>

namespace collab::epoch {
namespace {

constexpr Duration kLookAtUser = std::chrono::milliseconds(100);

}  // namespace

Task<Result<>> Bridge::on_trainer(Work work) {
  const auto errand = std::make_shared<Errand>(loop_, std::move(work));
  enqueue(errand);
  while (!errand->done) co_await errand->finished.wait();
  co_return errand->lost ? Result<>(Errc::gone) : Result<>();
}

Task<Result<bool>> Bridge::on_trainer_until(Clock& clock, TimePoint deadline, Work work) {
  const auto errand = std::make_shared<Errand>(loop_, std::move(work));
  enqueue(errand);
  bool in_time = true;
  while (!errand->done && in_time) in_time = co_await errand->finished.wait_until(clock, deadline);
  if (!errand->done && overtake(errand)) co_return false;
  while (!errand->done) co_await errand->finished.wait();  // the trainer is at it
  co_return errand->lost ? Result<bool>(Errc::gone) : Result<bool>(true);
}

Task<Result<>> Bridge::beside(asio::any_io_executor workers, Work work) {
  Trainer* const trainer = this->trainer();  // it stays: whoever ends it first waits for this task
  if (trainer == nullptr) co_return Errc::gone;
  const auto job = [trainer, &work] {
    work(*trainer);
    return true;
  };
  (void)co_await offload(workers, job);  // says nothing: what it throws passes through
  co_return Result<>();
}

void Bridge::set_reasons(unsigned reasons) {
  const bool was_held = std::exchange(reasons_, reasons) != 0;
  if (was_held != (reasons_ != 0)) set_held(reasons_ != 0);
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

void Bridge::quiet_until(TimePoint then) {
  const std::lock_guard lock(mutex_);
  quiet_until_ = then;
}

void ThreadBridge::border(Trainer& trainer, double samples_per_s, const std::function<bool()>& waiting) {
  if (arrive(trainer, samples_per_s)) tell();
  std::unique_lock lock(mutex_);
  work_off(trainer, lock);
  bool stays = true;
  while (held_ && !open_ && stays) {
    if (waiting) {
      changed_.wait_for(lock, kLookAtUser);
      lock.unlock();  // it may ask the loop, which asks us
      stays = waiting();
      lock.lock();
    } else {
      changed_.wait(lock);
    }
    work_off(trainer, lock);
  }
  if (!left_) computing_ = &trainer;
}

/// Whether the loop is to hear of it.
bool ThreadBridge::arrive(Trainer& trainer, double samples_per_s) {
  const std::lock_guard lock(mutex_);
  computing_ = nullptr;
  if (!left_) known_ = &trainer;
  const std::uint64_t samples = trainer.samples();
  if (samples > samples_) microbatch_ = samples - samples_;
  samples_ = samples;
  samples_per_s_ = samples_per_s;
  return is_heard(std::chrono::steady_clock::now());
}

/// Never with the lock: the loop may take our core at once, and would only wait for it.
void ThreadBridge::tell() {
  asio::post(loop_, [this] { moved_.notify(); });
}

bool ThreadBridge::wait(Trainer& trainer, const std::function<bool()>& ready, TimePoint deadline,
                        double samples_per_s) {
  (void)arrive(trainer, samples_per_s);
  tell();
  std::unique_lock lock(mutex_);
  bool in_time = true;
  bool is_ready = false;
  while (in_time && !is_ready) {
    work_off(trainer, lock);
    is_ready = open_ || (ready() && !held_);
    if (!is_ready) in_time = changed_.wait_until(lock, deadline) == std::cv_status::no_timeout;
  }
  if (!left_) computing_ = &trainer;
  return is_ready || ready();
}

void ThreadBridge::leave() {
  std::deque<std::shared_ptr<Errand>> lost;
  {
    const std::lock_guard lock(mutex_);
    left_ = true;
    computing_ = known_ = nullptr;
    lost = std::exchange(errands_, {});
  }
  for (auto& errand : lost) finish(std::move(errand), /*lost=*/true);
}

void ThreadBridge::open() {
  {
    const std::lock_guard lock(mutex_);
    open_ = true;
  }
  changed_.notify_all();
}

void ThreadBridge::enqueue(std::shared_ptr<Errand> errand) {
  bool left = false;
  {
    const std::lock_guard lock(mutex_);
    left = left_;
    if (!left) errands_.push_back(errand);
  }
  if (left) {
    finish(std::move(errand), /*lost=*/true);
  } else {
    changed_.notify_all();
  }
}

bool ThreadBridge::overtake(const std::shared_ptr<Errand>& errand) {
  // the lock keeps the trainer from its next border, and the errand from everybody else
  const std::lock_guard lock(mutex_);
  const auto queued = std::find(errands_.begin(), errands_.end(), errand);
  if (computing_ == nullptr || queued == errands_.end()) return false;
  errands_.erase(queued);
  errand->work(*computing_);
  errand->work = nullptr;
  samples_ = computing_->samples();
  return true;
}

Trainer* ThreadBridge::trainer() {
  const std::lock_guard lock(mutex_);
  return known_;
}

void ThreadBridge::set_held(bool held) {
  {
    const std::lock_guard lock(mutex_);
    held_ = held;
  }
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
