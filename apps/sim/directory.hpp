#pragma once
// The workload directory: what it costs to store and to find a record in a swarm of any size.

#include "node/config.hpp"

#include <string>

namespace collab::sim {

/// `command`: what repeats this call, without the seed. Prints a table and writes `--json`. Returns the exit code: 1
/// when a record of a living owner is not found, at once after the deaths or after the repair. Throws `Failure(usage)`.
int run_directory(const node::Config& config, const std::string& command);

}  // namespace collab::sim
