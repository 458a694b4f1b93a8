#pragma once
// The front of collab-peer: options, and every command that needs no model, so that none of them waits for libtorch.

#include "cli/options.hpp"
#include "node/config.hpp"

#include <functional>
#include <string>
#include <vector>

namespace collab::jobs {

/// What needs jobs: to train, doctor, export, eval. Returns an exit code, throws `Failure`.
using WithJobs = std::function<int(const node::Config& config, const cli::Parsed& parsed)>;

/// Reads `arguments`, the environment and the option files; then does what needs no jobs, and leaves the rest to
/// `with_jobs`. Returns an exit code, throws `Failure`.
int peer_front(const std::vector<std::string>& arguments, const WithJobs& with_jobs);

}  // namespace collab::jobs
