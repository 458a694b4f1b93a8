#pragma once
// `collab-sim nat`: who reaches whom from behind which boxes.

#include "node/config.hpp"

#include <string>

namespace collab::sim {

/// An exit code. `command` repeats the call, but for its seed. Throws `Failure(usage)`.
int run_nat(const node::Config& config, const std::string& command);

}  // namespace collab::sim
