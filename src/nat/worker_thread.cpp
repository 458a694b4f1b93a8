#include "nat/worker_thread.hpp"

#include <boost/asio/post.hpp>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace collab::nat {

struct WorkerThread::Shared {
  explicit Shared(asio::any_io_executor executor) : loop(std::move(executor)) {}

  asio::any_io_executor loop;
  std::mutex mutex;  // of what follows; also held while a result is handed to the loop, which may be gone afterwards
  std::condition_variable changed;
  std::deque<Job> jobs;
  bool let_go = false;
};

WorkerThread::WorkerThread(asio::any_io_executor loop)
    : loop_(std::move(loop)), shared_(std::make_shared<Shared>(loop_)) {}

WorkerThread::~WorkerThread() {
  const std::lock_guard lock(shared_->mutex);
  shared_->let_go = true;
  shared_->loop = asio::any_io_executor();  // the thread may be there when the loop is not
  shared_->changed.notify_one();
}

void WorkerThread::submit(Job job) {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->jobs.push_back(std::move(job));
  }
  shared_->changed.notify_one();
  if (!std::exchange(started_, true)) std::thread(&WorkerThread::serve, shared_).detach();
}

void WorkerThread::serve(const std::shared_ptr<Shared>& shared) {
  std::unique_lock lock(shared->mutex);
  for (;;) {
    shared->changed.wait(lock, [&] { return shared->let_go || !shared->jobs.empty(); });
    if (shared->let_go) return;
    Job job = std::move(shared->jobs.front());
    shared->jobs.pop_front();
    lock.unlock();
    std::function<void()> deliver = job();
    lock.lock();
    if (!shared->let_go) asio::post(shared->loop, std::move(deliver));
  }
}

}  // namespace collab::nat
