#pragma once
// A node of its own loop and thread over the machine's real TCP, for tests that cross threads.

#include "net/peer_endpoint.hpp"
#include "net/tcp.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>

#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>

namespace collab::test {

inline Identity identity_of(unsigned char number) {
  Identity::Seed seed{};
  seed[0] = number;
  return Identity::generate(seed);
}

/// Listens at 127.0.0.1. Everything but `in_loop` and the constructor happens on its thread.
class RealNode {
 public:
  explicit RealNode(unsigned char number, net::EndpointOptions options = {}, std::optional<net::Proxy> proxy = {})
      : clock_(loop_.get_executor()),
        network_(loop_.get_executor(), clock_, net::TcpNetwork::behind(std::move(proxy))),
        identity_(identity_of(number)),
        access_(Access::Options()),
        endpoint_(std::make_unique<net::PeerEndpoint>(needs(number), with_defaults(std::move(options)))) {}

  ~RealNode() { stop(); }
  RealNode(const RealNode&) = delete;
  RealNode& operator=(const RealNode&) = delete;

  net::PeerEndpoint& endpoint() { return *endpoint_; }
  Clock& clock() { return clock_; }
  asio::any_io_executor executor() { return loop_.get_executor(); }
  net::TcpNetwork& network() { return network_; }
  Metrics& metrics() { return metrics_; }
  const Identity& identity() const { return identity_; }
  const PeerId& id() const { return identity_.id(); }
  TimePoint in(Duration time) { return clock_.now() + time; }
  net::Address address() const { return address_; }

  void start() {
    endpoint_->listen();
    if (const auto listening = endpoint_->listening(); !listening.empty()) address_ = listening.front();
    tasks_ = std::make_unique<TaskGroup>(loop_.get_executor(), rethrow);
    tasks_->spawn("run", endpoint_->run());
    thread_ = std::thread([this] { loop_.run(); });
  }

  /// Runs `work` on the node's loop and waits for its value.
  template <class T>
  T in_loop(Task<T> work) {
    return asio::co_spawn(loop_, std::move(work), asio::use_future).get();
  }

  void stop() {
    if (!thread_.joinable()) return;
    in_loop(tasks_->stop());
    tasks_.reset();
    thread_.join();
  }

 private:
  net::PeerEndpoint::Needs needs(unsigned char number) {
    return {loop_.get_executor(), clock_, network_, Random(number), log_, metrics_, identity_, access_};
  }
  static net::EndpointOptions with_defaults(net::EndpointOptions options) {
    if (options.run.empty()) options.run = "test";
    net::Address any_port;
    any_port.host = "127.0.0.1";
    if (options.listen.empty()) options.listen.push_back(any_port);
    return options;
  }

  asio::io_context loop_{1};
  RealClock clock_;
  net::TcpNetwork network_;
  Identity identity_;
  Access access_;
  Log log_;
  Metrics metrics_;
  std::unique_ptr<net::PeerEndpoint> endpoint_;
  net::Address address_;
  std::unique_ptr<TaskGroup> tasks_;
  std::thread thread_;
};

}  // namespace collab::test
