#pragma once
// The workload moshpit: passes over a grid, as arithmetic for any number of peers, or through the real protocol.

#include "node/config.hpp"

#include <string>

namespace collab::sim {

/// `command`: what repeats this call, without the seed. Prints a table and writes `--json`. Returns the exit code: 1
/// when peers that completed a pass differ in a byte, or lie more than 1e-6 beside the mean. Throws `Failure(usage)`.
int run_moshpit(const node::Config& config, const std::string& command);

}  // namespace collab::sim
