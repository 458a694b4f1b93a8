#pragma once
// `collab-sim nat --seeds N`: the same again and again, on ways of several lengths.

#include "node/config.hpp"

#include <string>

namespace collab::sim {

/// An exit code. `command` repeats the call, but for its seed. Throws `Failure(usage)`.
int run_nat_matrix(const node::Config& config, const std::string& command);

}  // namespace collab::sim
