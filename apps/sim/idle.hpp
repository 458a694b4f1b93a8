#pragma once
// The workloads idle and day: a swarm gathers nothing over the hours, whether it trains or not.

#include "node/config.hpp"

#include <string>

namespace collab::sim {

enum class Day { idle, training };

/// `command`: what repeats this call, without the seed. A day, unless `--minutes` says otherwise. Prints what the run
/// holds at moments of it and writes `--json`. Returns the exit code: 1 when memory, tasks, timers, connections or
/// streams grew from the second quarter to the last, or an invariant broke. Throws `Failure(usage)`.
int run_day(Day day, const node::Config& config, const std::string& command);

}  // namespace collab::sim
