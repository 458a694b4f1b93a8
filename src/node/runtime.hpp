#pragma once
// The threads of one process: one loop for everything that talks, a few workers for heavy arithmetic.

#include "base/clock.hpp"
#include "base/task.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>

#include <functional>
#include <future>
#include <memory>
#include <thread>

namespace collab::node {

/// Runs a loop on its own thread from construction to destruction. An exception that leaves the loop is kept and given
/// to whoever asks next: nothing ends silently.
class Runtime {
 public:
  /// `workers`: threads for hashing, codecs and cryptography; at least 1.
  explicit Runtime(unsigned workers = 1);
  /// Joins the thread; tasks that still wait are destroyed. Stop services before.
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  asio::any_io_executor loop() { return loop_.get_executor(); }
  asio::any_io_executor workers() { return workers_.get_executor(); }
  Clock& clock() noexcept { return clock_; }

  /// Runs `task` on the loop and waits for its value or its exception. Not from the loop itself.
  template <class T>
  T call(Task<T> task) {
    return asio::co_spawn(loop_, std::move(task), asio::use_future).get();
  }
  /// Runs `work` on the loop and waits for it. Not from the loop itself.
  void on_loop(std::function<void()> work);

 private:
  asio::io_context loop_{1};
  asio::thread_pool workers_;
  RealClock clock_;
  asio::executor_work_guard<asio::io_context::executor_type> keep_;
  std::thread thread_;
};

}  // namespace collab::node
