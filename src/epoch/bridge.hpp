#pragma once
// The only door between the trainer's thread and the node's loop.

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/signal.hpp"
#include "epoch/trainer.hpp"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

namespace collab::epoch {

/// The loop asks for work, the trainer does it at the border of its microbatches, one piece after the other.
///
/// While held, the trainer stays at the border and only does what the loop asks: from hand-over to the step parameters
/// and gradients stand still. Work owns everything it touches (the loop's task may be cancelled while it runs).
class Bridge {
 public:
  using Work = std::function<void(Trainer&)>;

  explicit Bridge(asio::any_io_executor loop) : loop_(std::move(loop)), moved_(loop_) {}
  virtual ~Bridge() = default;
  Bridge(const Bridge&) = delete;
  Bridge& operator=(const Bridge&) = delete;

  // ---- on the loop ----
  /// Waits until the trainer has done `work`. Errors: `gone` when the trainer has left or leaves before.
  Task<Result<>> on_trainer(Work work);
  /// Like `on_trainer`, but no later than `deadline`: then `work` is done on the loop while the trainer computes, and
  /// may call only what Trainer allows beside a microbatch. False: it was done so.
  Task<Result<bool>> on_trainer_until(Clock& clock, TimePoint deadline, Work work);
  /// At the trainer's next border `work` is done, and nobody waits for it; when it has left before, not at all.
  void at_border(Work work) { enqueue(std::make_shared<Errand>(loop_, std::move(work))); }
  /// Waits until `workers` have done `work` while the trainer goes on: a step of a trainer that allows it. Errors:
  /// `gone` when the trainer has left.
  Task<Result<>> beside(asio::any_io_executor workers, Work work);
  /// Why the trainer waits from its next border on, until every reason is gone; work is still done.
  enum class Reason : std::uint8_t {
    epoch = 1,   ///< its gradients are being averaged, or its parameters replaced
    enough = 2,  ///< what it would compute now nobody could count
  };
  void hold(Reason why) { set_reasons(reasons_ | static_cast<unsigned>(why)); }
  void release(Reason why) { set_reasons(reasons_ & ~static_cast<unsigned>(why)); }
  /// Samples gathered for the present epoch, as of the trainer's last border or piece of work.
  std::uint64_t samples() const;
  /// Samples per second while computing; 0: unknown.
  double samples_per_s() const;
  /// Samples of the last microbatch; 0: none yet.
  std::uint64_t microbatch() const;
  /// Notified after each border that is not in a quiet time.
  Signal& moved() noexcept { return moved_; }
  /// Borders before `then` wake nobody: each costs this loop a turn, and with what it tells the loops of the others.
  void quiet_until(TimePoint then);

 protected:
  struct Errand {
    Errand(asio::any_io_executor loop, Work what) : work(std::move(what)), finished(std::move(loop)) {}
    Work work;
    bool done = false;  // written and read on the loop
    bool lost = false;
    Signal finished;
  };
  virtual void enqueue(std::shared_ptr<Errand> errand) = 0;
  /// Does a queued errand here and now; false when the trainer is at its border and comes to it, or has left.
  virtual bool overtake(const std::shared_ptr<Errand>& errand) = 0;
  virtual void set_held(bool held) = 0;
  /// Null when it has left, or has not come yet.
  virtual Trainer* trainer() = 0;
  /// Whether the loop hears of a border at `now`. Called with the lock held.
  bool is_heard(TimePoint now) const { return now >= quiet_until_; }

  asio::any_io_executor loop_;
  Signal moved_;
  mutable std::mutex mutex_;
  std::uint64_t samples_ = 0;
  double samples_per_s_ = 0;
  std::uint64_t microbatch_ = 0;
  TimePoint quiet_until_ = TimePoint::min();

 private:
  void set_reasons(unsigned reasons);

  unsigned reasons_ = 0;  // of Reason, on the loop
};

/// The trainer is a thread of its own, the user's.
class ThreadBridge final : public Bridge {
 public:
  using Bridge::Bridge;

  // ---- on the trainer's thread ----
  /// Between two microbatches: tells the loop how far we are, does what it asks, waits while held. Who is held may
  /// stand there for minutes, where nobody can be reached; `waiting` is asked ten times a second, and its false ends
  /// it.
  void border(Trainer& trainer, double samples_per_s, const std::function<bool()>& waiting = nullptr);
  /// Like `border`, but waits until `ready` says so or `deadline` passes; does what the loop asks meanwhile. The rate
  /// is 0, unknown, where nothing was computed.
  bool wait(Trainer& trainer, const std::function<bool()>& ready, TimePoint deadline, double samples_per_s = 0);
  /// No more borders: whatever the loop asks from now on fails with `gone`.
  void leave();

  // ---- on either ----
  /// The node stops: the trainer waits no longer.
  void open();

 private:
  void enqueue(std::shared_ptr<Errand> errand) override;
  bool overtake(const std::shared_ptr<Errand>& errand) override;
  void set_held(bool held) override;
  Trainer* trainer() override;
  bool arrive(Trainer& trainer, double samples_per_s);
  void tell();
  void finish(std::shared_ptr<Errand> errand, bool lost);
  /// Does everything queued. Called with the lock held, which it gives up while working.
  void work_off(Trainer& trainer, std::unique_lock<std::mutex>& lock);

  std::condition_variable changed_;
  std::deque<std::shared_ptr<Errand>> errands_;
  Trainer* computing_ = nullptr;  // between two borders; null at one, before the first and after the last
  Trainer* known_ = nullptr;      // from its first border on; null when it has left
  bool held_ = false;
  bool left_ = false;
  bool open_ = false;
};

}  // namespace collab::epoch
