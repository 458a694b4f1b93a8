#pragma once
// The workload state: how soon many joiners have the state of a run.

#include "node/config.hpp"

#include <string>

namespace collab::sim {

/// `command`: what repeats this call, without the seed. Prints a table and writes `--json`. Returns the exit code: 1
/// when a joiner did not get the state, or got other bytes. Throws `Failure(usage)`.
int run_state(const node::Config& config, const std::string& command);

}  // namespace collab::sim
