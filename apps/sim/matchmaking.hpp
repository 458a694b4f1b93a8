#pragma once
// The workload matchmaking: how soon everybody is in a full group.

#include "node/config.hpp"

#include <string>

namespace collab::sim {

/// `command`: what repeats this call, without the seed. Prints a table and writes `--json`. Returns the exit code: 1
/// when, of connected peers, fewer than 99 % are in full groups by the end of their window, or one of these groups
/// began later than two round trips and 50 ms after its last member had declared. Throws `Failure(usage)`.
int run_matchmaking(const node::Config& config, const std::string& command);

}  // namespace collab::sim
