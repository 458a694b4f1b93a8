#include "crowd.hpp"

#include "base/metrics.hpp"
#include "base/task_group.hpp"
#include "net/tcp.hpp"
#include "node/node.hpp"
#include "node/runtime.hpp"
#include "progress/tracker.hpp"

#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/write.hpp>
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <vector>

namespace collab::bench {
namespace {

constexpr auto kJoinTime = std::chrono::minutes(2);
constexpr auto kBetweenJoins = std::chrono::milliseconds(20);  // volunteers do not come in one instant
constexpr auto kStatePeriod = std::chrono::seconds(1);         // of monitor/web/live.js
constexpr std::uint64_t kTargetBatch = 4096;
constexpr double kMicrobatches = 16;  // of a peer in an epoch

Identity identity_of(std::size_t number) {
  Identity::Seed seed{};
  for (std::size_t i = 0; i < sizeof number; ++i) seed[i] = static_cast<unsigned char>(number >> (8 * i));
  seed.back() = 1;
  return Identity::generate(seed);
}

}  // namespace

struct Crowd::Inner {
  struct Peer {
    std::unique_ptr<node::Node> node;
    std::unique_ptr<progress::Tracker> tracker;
  };

  explicit Inner(CrowdOptions given)
      : options(std::move(given)),
        log(Log::Options{options.log_level, {}, 1, 1, {}}),
        network(runtime.loop(), runtime.clock()) {}

  Task<> live(std::size_t number);
  Task<> train(Peer& peer);
  Task<> get(std::string host, std::string port, std::string path);
  Task<> watch(std::string host, std::string port);
  node::NodeOptions node_options() const;
  auto keep() {
    return [this](std::string_view, std::exception_ptr what) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::move(what);
    };
  }

  CrowdOptions options;
  Log log;
  Metrics metrics;
  node::Runtime runtime{2};
  net::TcpNetwork network;
  std::vector<Peer> peers;
  std::unique_ptr<TaskGroup> tasks;
  node::Runtime browsers;  // a loop of their own: the peers' is busy
  std::unique_ptr<TaskGroup> views;
  TimePoint began = std::chrono::steady_clock::now();
  std::atomic<std::size_t> members = 0;
  std::atomic<std::uint64_t> dashboard_bytes = 0;
  std::mutex mutex;
  std::exception_ptr failure;
};

node::NodeOptions Crowd::Inner::node_options() const {
  node::NodeOptions out;
  out.run = node::parse_run_name(options.run);
  out.bootstrap = {node::parse_peer_address(options.address)};
  out.listen = net::parse_address("127.0.0.1:0", /*any_port=*/true).value();
  out.loopback_port = 0;
  out.software = "collab-bench";
  return out;
}

Task<> Crowd::Inner::live(std::size_t number) {
  Clock& clock = runtime.clock();
  co_await clock.sleep_until(clock.now() + number * kBetweenJoins);
  Peer& peer = peers[number];
  const node::NodeNeeds needs{runtime.loop(), runtime.workers(), clock, network, Random(number).derive("node"), log,
                              metrics};
  node::NodeOptions own = node_options();
  own.name = fmt::format("bench-{}", number);
  peer.node = std::make_unique<node::Node>(needs, identity_of(number), std::move(own));
  const auto joined = co_await peer.node->join(clock.now() + kJoinTime);
  if (!joined) throw peer.node->join_failure(joined.error());
  progress::TrackerOptions tracking;
  tracking.target_batch = kTargetBatch;
  peer.tracker = std::make_unique<progress::Tracker>(
      progress::Tracker::Needs{peer.node->directory(), clock, log, Random(number).derive("tracker"), runtime.loop(),
                               peer.node->self(), &metrics},
      tracking);
  const auto body = [this, &peer](TaskGroup& life) -> Task<> {
    life.spawn("node", peer.node->run());
    life.spawn("progress", peer.tracker->run());
    ++members;
    co_await train(peer);
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
}

/// What its records would say if it did.
Task<> Crowd::Inner::train(Peer& peer) {
  Clock& clock = runtime.clock();
  const double share = static_cast<double>(kTargetBatch) / static_cast<double>(options.peers);
  progress::Record own;
  own.taking_part = true;
  own.samples_per_s = share / options.epoch_seconds;
  own.loss = 5;
  own.microbatch = static_cast<std::uint64_t>(std::ceil(share / kMicrobatches));  // or the larger are doubted
  for (;;) {
    const double epochs = to_seconds(clock.now() - began) / options.epoch_seconds;
    own.epoch = static_cast<std::uint64_t>(epochs);
    own.samples = static_cast<std::uint64_t>(share * (epochs - std::floor(epochs)));
    peer.tracker->show(own);
    co_await clock.sleep_until(clock.now() + from_seconds(options.epoch_seconds / kMicrobatches));
  }
}

/// Asks for `path` and counts what comes until the other side closes.
Task<> Crowd::Inner::get(std::string host, std::string port, std::string path) {
  asio::ip::tcp::resolver resolver(browsers.loop());
  asio::ip::tcp::socket socket(browsers.loop());
  const auto places = co_await resolver.async_resolve(host, port, asio::use_awaitable);
  co_await asio::async_connect(socket, places, asio::use_awaitable);
  const std::string question =
      fmt::format("GET {} HTTP/1.1\r\nHost: {}:{}\r\nConnection: close\r\n\r\n", path, host, port);
  co_await asio::async_write(socket, asio::buffer(question), asio::use_awaitable);
  std::array<char, 16384> bytes{};
  boost::system::error_code ended;
  while (!ended) {
    auto token = asio::redirect_error(asio::use_awaitable, ended);
    dashboard_bytes += co_await socket.async_read_some(asio::buffer(bytes), token);
  }
}

/// The page follows the events, and looks at the whole state now and then.
Task<> Crowd::Inner::watch(std::string host, std::string port) {
  views->spawn("events", get(host, port, "/api/v1/events"));
  for (;;) {
    co_await get(host, port, "/api/v1/state");
    co_await browsers.clock().sleep_until(browsers.clock().now() + kStatePeriod);
  }
}

Crowd::Crowd(CrowdOptions options) : inner_(std::make_unique<Inner>(std::move(options))) {
  Inner& inner = *inner_;
  inner.peers.resize(inner.options.peers);
  inner.runtime.on_loop([&inner] {
    inner.tasks = std::make_unique<TaskGroup>(inner.runtime.loop(), inner.keep());
    for (std::size_t i = 0; i < inner.peers.size(); ++i) inner.tasks->spawn("peer", inner.live(i));
  });
}

Crowd::~Crowd() {
  Inner& inner = *inner_;
  const auto stop = [&inner]() -> Task<> {
    co_await inner.tasks->stop();
    inner.peers.clear();
    inner.tasks.reset();
  };
  const auto close = [&inner]() -> Task<> {
    co_await inner.views->stop();
    inner.views.reset();
  };
  if (inner.views) inner.browsers.call(close());
  inner.runtime.call(stop());
}

void Crowd::check() {
  const std::lock_guard lock(inner_->mutex);
  if (inner_->failure) std::rethrow_exception(inner_->failure);
}

std::size_t Crowd::members() const noexcept {
  return inner_->members;
}
std::uint64_t Crowd::dashboard_bytes() const noexcept {
  return inner_->dashboard_bytes;
}

void Crowd::watch(const std::string& dashboard) {
  const auto colon = dashboard.rfind(':');
  Inner& inner = *inner_;
  inner.browsers.on_loop([&] {
    if (!inner.views) inner.views = std::make_unique<TaskGroup>(inner.browsers.loop(), inner.keep());
    inner.views->spawn("watch", inner.watch(dashboard.substr(0, colon), dashboard.substr(colon + 1)));
  });
}

}  // namespace collab::bench
