#pragma once
// A thread for a library that blocks: who waits for it never waits longer than he likes.

#include "base/signal.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <utility>

namespace collab::nat {

/// Runs one job after the other. A job owns all that it touches, since the thread may outlive whoever asked: it is let
/// go in the middle of a job, and what that job still brings is dropped. Thread safety: none; belongs to the node's
/// loop.
class WorkerThread {
 public:
  /// `loop` outlives this object. The thread starts with the first job.
  explicit WorkerThread(asio::any_io_executor loop);
  /// At once. A job that has begun goes on alone; those that wait are dropped.
  ~WorkerThread();
  WorkerThread(const WorkerThread&) = delete;
  WorkerThread& operator=(const WorkerThread&) = delete;

  /// What `job()` returns; nothing when it is not done by `deadline`.
  template <class T>
  Task<std::optional<T>> ask(Clock& clock, TimePoint deadline, std::function<T()> job) {
    struct Answer {
      explicit Answer(const asio::any_io_executor& executor) : there(executor) {}
      std::optional<T> value;  // touched on the loop only
      Signal there;
    };
    const auto answer = std::make_shared<Answer>(loop_);
    submit([answer, job = std::move(job)]() -> std::function<void()> {
      return [answer, value = job()]() mutable {
        answer->value = std::move(value);
        answer->there.notify();
      };
    });
    bool in_time = true;
    while (!answer->value && in_time) in_time = co_await answer->there.wait_until(clock, deadline);
    co_return std::move(answer->value);
  }

 private:
  struct Shared;
  /// On the thread; what it returns then runs on the loop.
  using Job = std::function<std::function<void()>()>;

  void submit(Job job);
  static void serve(const std::shared_ptr<Shared>& shared);

  asio::any_io_executor loop_;
  std::shared_ptr<Shared> shared_;
  bool started_ = false;
};

}  // namespace collab::nat
