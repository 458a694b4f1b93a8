#pragma once
// An HTTP proxy of a test: it answers what it was told to, and joins who asked to one port of this machine.

#include "base/task_group.hpp"
#include "net/proxy.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace collab::test {

/// On a thread of its own, from construction to destruction.
class TestProxy {
 public:
  /// `answer`: to each request; empty: none. `port`: of 127.0.0.1, joined behind the answer; 0: the connection is
  /// closed behind an answer, and kept open without one.
  explicit TestProxy(std::string answer, std::uint16_t port = 0)
      : answer_(std::move(answer)),
        port_(port),
        acceptor_(loop_, {asio::ip::address_v4::loopback(), 0}),
        tasks_(std::make_unique<TaskGroup>(loop_.get_executor(), rethrow)) {
    tasks_->spawn("accept", accept());
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~TestProxy() {
    asio::co_spawn(loop_, tasks_->stop(), asio::use_future).get();
    tasks_.reset();
    thread_.join();
  }
  TestProxy(const TestProxy&) = delete;
  TestProxy& operator=(const TestProxy&) = delete;

  net::Proxy where() const {
    net::Proxy proxy;
    proxy.at = net::Address{"127.0.0.1", acceptor_.local_endpoint().port()};
    return proxy;
  }
  /// The requests that came, each whole.
  std::vector<std::string> requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  using Socket = asio::ip::tcp::socket;

  Task<> accept() {
    for (;;) {
      auto [error, socket] = co_await acceptor_.async_accept(as_result);
      if (!error) tasks_->spawn("serve", serve(std::move(socket)));
    }
  }

  Task<> serve(Socket client) {
    std::string request;
    std::array<char, 4096> buffer{};
    while (request.find("\r\n\r\n") == std::string::npos) {
      const auto [error, size] = co_await client.async_read_some(asio::buffer(buffer), as_result);
      if (error) co_return;
      request.append(buffer.data(), size);
    }
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    co_await asio::async_write(client, asio::buffer(answer_), as_result);
    if (port_ == 0) {
      if (answer_.empty()) co_await client.async_read_some(asio::buffer(buffer), as_result);
      co_return;
    }
    Socket server(loop_);
    const asio::ip::tcp::endpoint there(asio::ip::address_v4::loopback(), port_);
    const auto [error] = co_await server.async_connect(there, as_result);
    if (error) co_return;
    const auto both = [&](TaskGroup& ways) -> Task<> {
      ways.spawn("up", copy(client, server));
      ways.spawn("down", copy(server, client));
      co_await ways.join();
    };
    auto scope = task_scope(rethrow, both);
    co_await std::move(scope);
  }

  /// Until one side ends; then both do.
  static Task<> copy(Socket& from, Socket& to) {
    std::vector<char> buffer(65536);
    for (;;) {
      const auto [error, size] = co_await from.async_read_some(asio::buffer(buffer), as_result);
      if (error) break;
      const auto [broken, sent] = co_await asio::async_write(to, asio::buffer(buffer.data(), size), as_result);
      if (broken || sent < size) break;
    }
    boost::system::error_code ignored;
    from.close(ignored);
    to.close(ignored);
  }

  std::string answer_;
  std::uint16_t port_;
  asio::io_context loop_{1};
  asio::ip::tcp::acceptor acceptor_;
  std::unique_ptr<TaskGroup> tasks_;
  std::thread thread_;
  std::mutex mutex_;
  std::vector<std::string> requests_;
};

}  // namespace collab::test
