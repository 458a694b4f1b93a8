#pragma once
// Brings what this node keeps to those who are to keep it from now on.

#include "base/clock.hpp"
#include "base/log.hpp"
#include "net/endpoint.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace collab::directory {

class Server;
enum class Form : std::uint8_t;

/// Owners put their records again at a third of their time, to whoever keeps them by then. This is for the time until
/// then, and for owners who are gone: when the nodes nearest to a key change (one came, one died, the swarm outgrew or
/// fell back to the first form), the nearest of those who kept it before brings it to those who did not.
/// Thread safety: none; belongs to the node's loop.
class HandOver {
 public:
  HandOver(net::Endpoint& net, Clock& clock, Log& log, Server& server)
      : net_(net), clock_(clock), log_(log), server_(server) {}

  /// Looks at every key once. Does nothing where the servers keep everything, for they compare.
  Task<> turn();

 private:
  struct Errand {
    std::string key;
    PeerId to;
  };

  std::vector<PeerId> keepers(const std::string& key) const;
  bool is_mine_to_give(const std::vector<PeerId>& keepers) const;
  std::vector<Errand> errands();
  Task<> bring(Errand errand);

  net::Endpoint& net_;
  Clock& clock_;
  Log& log_;
  Server& server_;
  std::map<std::string, std::vector<PeerId>> kept_;  ///< who kept each key at the last look, nearest first
  bool was_whole_ = true;
};

}  // namespace collab::directory
