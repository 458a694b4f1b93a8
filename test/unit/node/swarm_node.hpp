#pragma once
// Whole nodes on simulated hosts.

#include "base/task_group.hpp"
#include "manifests.hpp"
#include "node/node.hpp"
#include "sim/network.hpp"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace collab::test {

/// One node and what its program would own.
class SwarmNode {
 public:
  SwarmNode(sim::Simulation& world, sim::Host& where, unsigned char number, node::NodeOptions options)
      : host(where), executor_(world.executor()) {
    const node::NodeNeeds needs{executor_, executor_, host.clock(), host, Random(1000 + number), log, metrics};
    node = std::make_unique<node::Node>(needs, identity(number), std::move(options));
  }
  void start() {
    tasks_ = std::make_unique<TaskGroup>(executor_, rethrow);
    tasks_->spawn("node", node->run());
  }
  /// Cancels `run()`, as the end of a process does; nothing is said to anybody.
  Task<> stop() {
    if (tasks_) co_await tasks_->stop();
    tasks_.reset();
  }

  sim::Host& host;
  Log log;
  Metrics metrics;
  std::unique_ptr<node::Node> node;

 private:
  asio::any_io_executor executor_;
  std::unique_ptr<TaskGroup> tasks_;
};

/// A run named "demo" whose coordinator, of identity 1, is at "coordinator:4600".
struct SimRun {
  explicit SimRun(std::uint64_t seed = 1) : network(world, seed) {}

  node::NodeOptions options(const std::string& bootstrap = "coordinator:4600") {
    node::NodeOptions options;
    options.run.run_id = "demo";
    if (!bootstrap.empty()) options.bootstrap.push_back(node::parse_peer_address(bootstrap));
    options.loopback_port = 0;
    return options;
  }
  SwarmNode& add(unsigned char number, const std::string& host, node::NodeOptions what) {
    sim::Host& where = network.add_host(host);
    nodes.push_back(std::make_unique<SwarmNode>(world, where, number, std::move(what)));
    return *nodes.back();
  }
  /// Founded and running.
  SwarmNode& add_coordinator(std::function<void(node::Manifest&)> change = {}, std::filesystem::path allow_list = {}) {
    node::NodeOptions what = options("");
    what.serve_directory = true;
    what.role = "coordinator";
    what.allow_list = std::move(allow_list);
    SwarmNode& coordinator = add(1, "coordinator", std::move(what));
    node::Manifest manifest = manifest_of(identity(1));
    if (change) change(manifest);
    coordinator.node->found(node::sign_manifest(identity(1), manifest));
    coordinator.start();
    return coordinator;
  }
  Task<> sleep(Duration length) { return world.clock().sleep_until(world.clock().now() + length); }
  TimePoint in(Duration length) { return world.clock().now() + length; }
  /// How long until `what` holds; `limit` if it does not.
  Task<Duration> until(std::function<bool()> what, Duration limit) {
    const TimePoint start = world.clock().now();
    while (!what() && world.clock().now() - start < limit) co_await sleep(std::chrono::milliseconds(50));
    co_return std::min<Duration>(world.clock().now() - start, limit);
  }
  Task<> kill(SwarmNode& node) {
    network.kill(node.host);
    co_await node.stop();
  }
  void run(std::function<Task<>()> scenario) {
    const auto all = [&]() -> Task<> {
      co_await scenario();
      for (auto& node : nodes) co_await node->stop();
      network.stop();
    };
    world.run(all());
  }

  sim::Simulation world;
  sim::SimNetwork network;
  std::vector<std::unique_ptr<SwarmNode>> nodes;
};

}  // namespace collab::test
