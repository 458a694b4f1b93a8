#pragma once
// Many nodes that have a directory and nothing else.

#include "support/directory_node.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace collab::test {

/// A large swarm. Numbers of nodes are those of their identities; the first `bootstrap` are known to all. It is large
/// from 2 k nodes on, so most of these tests have a small k.
struct Crowd {
  explicit Crowd(std::uint64_t seed = 1, std::size_t k = 8) : network(simulation, seed) {
    routing.k = k;
    routing.replicas = k < 20 ? 4 : 5;
  }

  DirectoryNode& add(unsigned number, bool reachable = true) {
    DirectoryNode::Options options;
    options.number = number;
    options.bootstrap = bootstrap;
    options.reachable = reachable;
    options.routing = routing;
    options.verified = &verified;
    nodes.push_back(std::make_unique<DirectoryNode>(simulation, network, options));
    nodes.back()->start();
    return *nodes.back();
  }
  void add_many(unsigned first, unsigned count, bool reachable = true) {
    for (unsigned i = first; i < first + count; ++i) add(i, reachable);
  }
  void begin(unsigned bootstraps, unsigned count) {
    for (unsigned i = 1; i <= bootstraps; ++i) bootstrap.push_back(test_identity(i).id());
    add_many(1, count);
  }
  TimePoint in(Duration length) { return simulation.clock().now() + length; }
  Task<> sleep(Duration length) { return simulation.clock().sleep_until(in(length)); }
  Task<Duration> until(std::function<bool()> what, Duration limit) {
    const TimePoint start = simulation.clock().now();
    while (!what() && simulation.clock().now() - start < limit) co_await sleep(std::chrono::milliseconds(100));
    co_return std::min<Duration>(simulation.clock().now() - start, limit);
  }
  Task<> kill(std::size_t index) {
    network.kill(nodes[index]->id());
    dead.insert(index);
    co_await nodes[index]->stop();
  }
  Task<> stop() {
    for (auto& node : nodes) co_await node->stop();
  }
  bool alive(std::size_t index) const { return !dead.contains(index); }
  bool all_are(directory::Form form) const {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (alive(i) && nodes[i]->server.form() != form) return false;
    }
    return true;
  }
  /// Every living node says something under a key of its own, or all under one.
  void publish_all(const std::string& key, bool own_keys) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (alive(i))
        nodes[i]->directory.publish(own_keys ? key + std::to_string(i) : key, "", text_bytes("x"),
                                    std::chrono::seconds(90));
    }
  }
  /// Of the records of living nodes under keys of their own: how many another living node does not find.
  Task<std::size_t> missing(std::string key) {
    std::size_t missing = 0;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (!alive(i)) continue;
      std::size_t reader = (i + 7) % nodes.size();
      while (!alive(reader) || reader == i) reader = (reader + 1) % nodes.size();
      const auto got = co_await nodes[reader]->directory.get(key + std::to_string(i), in(std::chrono::seconds(20)));
      if (!got || got->size() != 1) ++missing;
    }
    co_return missing;
  }
  /// The living nodes that can be dialled, nearest first: what a look-up should find.
  std::vector<PeerId> nearest(const directory::Place& place, std::size_t count) const {
    std::vector<std::pair<directory::Place, PeerId>> all;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (alive(i) && nodes[i]->server.serves()) all.emplace_back(directory::place_of(nodes[i]->id()), nodes[i]->id());
    }
    std::sort(all.begin(), all.end(),
              [&](const auto& a, const auto& b) { return directory::nearer(place, a.first, b.first); });
    std::vector<PeerId> ids;
    for (std::size_t i = 0; i < std::min(count, all.size()); ++i) ids.push_back(all[i].second);
    return ids;
  }
  /// How many of the living nodes nearest to the key, who should keep its records, do.
  std::size_t replicas(const std::string& key) const {
    std::size_t found = 0;
    for (const PeerId& id : nearest(directory::place_of("bengali", key), routing.replicas)) {
      for (const auto& node : nodes) found += node->id() == id && node->sees(key) > 0 ? 1U : 0U;
    }
    return found;
  }
  void run(Task<> scenario) { simulation.run(std::move(scenario)); }

  directory::RoutingOptions routing;
  VerifiedStatements verified;
  sim::Simulation simulation;
  MessageNetwork network;
  std::vector<PeerId> bootstrap;
  std::vector<std::unique_ptr<DirectoryNode>> nodes;
  std::set<std::size_t> dead;
};

}  // namespace collab::test
