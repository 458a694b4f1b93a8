#pragma once
// Figures of the papers that are no run of a swarm: doc/papers.md has them all, each with its command.

#include "node/config.hpp"

#include <string>

namespace collab::sim {

/// `collab-sim sweep`: one pass over --grid auto for every number of peers of --sizes, as arithmetic.
/// `command` repeats the call, but for its seeds. Each returns an exit code and throws `Failure(usage)`.
int run_sweep(const node::Config& config, const std::string& command);
/// `collab-sim deaths`: one pass in which a peer dies in each round.
int run_deaths(const node::Config& config, const std::string& command);
/// `collab-sim split`: one round of one group on --links, segments by lines against segments of one size.
int run_split(const node::Config& config, const std::string& command);
/// `collab-sim killed`: groups of 2 to 16 of which one is killed at a random byte of the round.
int run_killed(const node::Config& config, const std::string& command);

}  // namespace collab::sim
