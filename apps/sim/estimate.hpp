#pragma once
// `collab-sim estimate`: what a swarm gives, by the plans of the production code and no run.

#include "node/config.hpp"
#include "sim/swarm.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace collab::sim {

struct EstimateOptions {
  std::vector<LineOptions> lines;  ///< by peer
  Duration latency{};              ///< one way, of the mean pair
  std::size_t values = 1;
  double bytes_per_value = 2;       ///< of averages, and of parts after round 1
  double part_bytes_per_value = 2;  ///< of parts in round 1
  std::uint64_t target_batch = 1;
  double samples_per_s = 0;            ///< of all peers
  std::vector<std::uint32_t> radices;  ///< of the grid
  std::uint64_t seed = 1;
};

struct Estimate {
  double compute_s = 0;      ///< until the target batch is there
  double rounds_s = 0;       ///< of averaging, by the slowest group of each round, with its search and commit
  double up_bytes_mean = 0;  ///< of a peer in an epoch
  double up_bytes_max = 0;
  double down_bytes_max = 0;
};
/// Groups are drawn once; each round is as long as its slowest group's plan. Search and commit take three round trips.
Estimate estimate(const EstimateOptions& options);

/// An exit code. Throws `Failure(usage)`.
int run_estimate(const node::Config& config, const std::string& command);

}  // namespace collab::sim
