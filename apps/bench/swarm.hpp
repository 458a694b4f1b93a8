#pragma once
// The peers of a measurement, seen from the process that started them.

#include "child.hpp"
#include "crypto/peer_id.hpp"
#include "matchmaking/group.hpp"
#include "workload.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace collab::bench {

/// What one round cost. Per peer: in the order in which they were started.
struct RoundFigures {
  double seconds = 0;                     ///< from "go" to the last "done", in this process
  std::vector<double> seconds_of_peer;    ///< of all_reduce, in each peer
  std::vector<double> cpu_s;              ///< user and system time of the process, with serving groupmates afterwards
  std::vector<std::uint64_t> bytes_sent;  ///< frames to all others
  double exchange_s = 0;                  ///< of the slowest peer, like the next two
  double commit_s = 0;
  double apply_s = 0;
  double counted = 1;       ///< share of the values in which all inputs are, as the peers know
  std::uint32_t views = 1;  ///< plans that were needed; more than one: somebody was taken for lost
};

/// What the peers are after the last round.
struct Results {
  std::vector<std::string> digests;  ///< of the values, in hexadecimal
  bool equal_bytes = false;
  double max_relative_error = 0;        ///< the largest of all peers
  std::uint64_t peak_memory_bytes = 0;  ///< resident set of the largest process
  std::uint64_t descriptors = 0;        ///< open in the process with most
};

/// Every failure is thrown: `Failure(machine)` names the peer that died, was late or could not average.
class Swarm {
 public:
  /// Starts the processes and connects each to all others.
  Swarm(const Workload& workload, const std::string& log_level);

  /// One round with its own inputs. `number` > 0, each once.
  RoundFigures average(std::uint64_t number);
  /// Of the round before.
  Results results();

 private:
  matchmaking::Group group_of(std::uint64_t round) const;
  std::string name(std::size_t index) const;

  Workload workload_;
  CodecMap codecs_;
  Children peers_;
  std::vector<PeerId> ids_;
};

}  // namespace collab::bench
