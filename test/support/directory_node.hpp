#pragma once
// A node that has a directory and nothing else, on a message network.

#include "base/task_group.hpp"
#include "directory/peer_record.hpp"
#include "directory/swarm_directory.hpp"
#include "support/message_network.hpp"

#include <memory>
#include <string>
#include <vector>

namespace collab::test {

inline Identity test_identity(unsigned number) {
  Identity::Seed seed{};
  seed[0] = static_cast<unsigned char>(number);
  seed[1] = static_cast<unsigned char>(number >> 8U);
  return Identity::generate(seed);
}

inline Bytes text_bytes(const std::string& text) {
  const auto view = std::as_bytes(std::span(text));
  return {view.begin(), view.end()};
}

class DirectoryNode {
 public:
  struct Options {
    unsigned number = 0;  ///< makes the identity
    unsigned life = 0;    ///< of that identity: each has a memory of its own
    std::vector<PeerId> bootstrap;
    bool reachable = true;
    std::int64_t clock_behind_ms = 0;
    directory::RoutingOptions routing;
    VerifiedStatements* verified = nullptr;
  };

  DirectoryNode(sim::Simulation& world, MessageNetwork& network, Options options)
      : identity(test_identity(options.number)),
        world_(world),
        options_(options),
        endpoint(network.add_peer(identity.id())),
        server(endpoint, world.clock(), Random(options.number + 1'000'000 * options.life), log, world.executor(),
               server_options()),
        directory(endpoint, world.clock(), Random(options.number + 1000), log, world.executor(), world.executor(),
                  identity, server, contacts, {}),
        tasks_(world.executor(), rethrow) {}

  const PeerId& id() const { return identity.id(); }

  /// Says who it is and runs until stopped.
  void start() {
    directory::PeerRecord me;
    me.listen.push_back({"192.0.2." + std::to_string(options_.number % 250), 4600});
    me.reachable = options_.reachable;
    me.directory = is_bootstrap();
    directory.publish("peer", "", *encode(me), std::chrono::seconds(30));
    tasks_.spawn("server", server.run());
    tasks_.spawn("directory", directory.run());
  }
  Task<> stop() { return tasks_.stop(); }
  bool is_bootstrap() const {
    return std::find(options_.bootstrap.begin(), options_.bootstrap.end(), identity.id()) != options_.bootstrap.end();
  }
  /// How many records of `key` its readers see now.
  std::size_t sees(const std::string& key) const { return server.storage().records(key, server.unix_ms()).size(); }

  Identity identity;

 private:
  directory::ServerOptions server_options() {
    directory::ServerOptions made;
    made.storage.rules.run = "bengali";
    made.storage.rules.verified = options_.verified;
    made.bootstrap = options_.bootstrap;
    made.routing = options_.routing;
    made.unix_ms = [this] { return world_.clock().unix_ms() - options_.clock_behind_ms; };
    return made;
  }

  sim::Simulation& world_;
  Options options_;

 public:
  Log log;
  net::Endpoint& endpoint;
  directory::Contacts contacts;
  directory::Server server;
  directory::SwarmDirectory directory;

 private:
  TaskGroup tasks_;
};

}  // namespace collab::test
