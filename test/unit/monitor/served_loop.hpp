#pragma once
// A real loop on its own thread, and blocking clients that talk to it: the sockets of this room are the system's.

#include "base/clock.hpp"
#include "base/task_group.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>

#include <functional>
#include <future>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

namespace collab::test {

/// Runs one service from `serve` to its own end.
class ServedLoop {
 public:
  ServedLoop() : clock(io_.get_executor()), guard_(io_.get_executor()), tasks_(io_.get_executor(), rethrow) {
    thread_ = std::thread([this] { io_.run(); });
  }
  ~ServedLoop() { stop(); }
  ServedLoop(const ServedLoop&) = delete;
  ServedLoop& operator=(const ServedLoop&) = delete;

  asio::any_io_executor executor() { return io_.get_executor(); }
  void on_loop(const std::function<void()>& work) { asio::post(io_, std::packaged_task<void()>(work)).get(); }
  void serve(Task<> task) {
    on_loop([&] { tasks_.spawn("service", std::move(task)); });
  }
  /// Cancels what is served and waits until it has unwound.
  void stop() {
    if (!thread_.joinable()) return;
    asio::co_spawn(io_, tasks_.stop(), asio::use_future).get();
    guard_.reset();
    thread_.join();
  }

 private:
  asio::io_context io_{1};

 public:
  RealClock clock;

 private:
  asio::executor_work_guard<asio::io_context::executor_type> guard_;
  TaskGroup tasks_;
  std::thread thread_;
};

/// A blocking TCP connection to 127.0.0.1. No read waits longer than 5 s.
class Client {
 public:
  explicit Client(std::uint16_t port);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// What the other side no longer takes is dropped.
  void send(std::string_view text);
  /// Up to and including `mark`; what came before the end when it never comes.
  std::string read_until(std::string_view mark);
  /// Everything until the other side closes; "timeout" instead when it does not within 5 s.
  std::string read_to_end();
  /// Head and body of one answer, by its Content-Length.
  std::string read_answer();

 private:
  bool read_more();

  int socket_;
  bool timed_out_ = false;
  std::string unread_;
};

}  // namespace collab::test
