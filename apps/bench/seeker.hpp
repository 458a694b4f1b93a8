#pragma once
// What a peer of a measurement needs beside its endpoint to look for groups: a directory and a matchmaker.

#include "base/random.hpp"
#include "base/task_group.hpp"
#include "directory/swarm_directory.hpp"
#include "matchmaking/matchmaker.hpp"

#include <memory>

namespace collab::bench {

class Seeker {
 public:
  struct Needs {
    net::Endpoint& net;
    Clock& clock;
    Log& log;
    const Identity& identity;
    asio::any_io_executor loop;
    PeerId bootstrap;  ///< serves the directory to everybody
    std::size_t peers = 2;
  };

  /// On the loop, before the endpoint runs. What `needs` refers to outlives it.
  Seeker(const Needs& needs, std::uint64_t seed);

  /// Says where it listens; its services live in `tasks`.
  void start(TaskGroup& tasks, const net::Address& listens);
  /// The group of that round, of all peers: each has one sample, and the target batch is one of each.
  Task<Result<matchmaking::Group>> find_group(std::uint64_t round);
  directory::Directory& directory() noexcept { return directory_; }
  Task<> stop() { return matchmaker_.stop(); }

 private:
  Needs needs_;
  directory::Contacts contacts_;
  directory::Server server_;
  directory::SwarmDirectory directory_;
  matchmaking::Matchmaker matchmaker_;
};

}  // namespace collab::bench
