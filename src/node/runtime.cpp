#include "node/runtime.hpp"

#include <boost/asio/post.hpp>

#include <algorithm>

namespace collab::node {

Runtime::Runtime(unsigned workers)
    : workers_(std::max(workers, 1U)), clock_(loop_.get_executor()), keep_(loop_.get_executor()) {
  thread_ = std::thread([this] { loop_.run(); });
}

Runtime::~Runtime() {
  keep_.reset();
  loop_.stop();
  thread_.join();
  workers_.join();
}

void Runtime::on_loop(std::function<void()> work) {
  std::promise<void> done;
  asio::post(loop_, [&] {
    try {
      work();
      done.set_value();
    } catch (...) {
      done.set_exception(std::current_exception());
    }
  });
  done.get_future().get();
}

}  // namespace collab::node
