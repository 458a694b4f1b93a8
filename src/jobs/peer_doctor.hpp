#pragma once
// collab-peer doctor: what keeps this machine from the run, measured, with what to do about it.

#include "base/error.hpp"
#include "jobs/registry.hpp"
#include "node/config.hpp"

#include <string>

namespace collab::jobs {

/// Prints a line for each check, or with --json one object, and returns the exit code of the worst finding. At most
/// about half a minute. Looks at the run that the options name as `run` would; without one, at this machine and at what
/// --bootstrap names. Changes nothing. `link`: a join link, or empty. Options that no start could use are the one
/// finding.
int examine(const Registry& jobs, const node::Config& config, const std::string& link);

/// For a start that failed with `failure`: says on stderr what a quick look at this machine finds wrong, and returns
/// the failure with the doctor among its remedies; of other failures than 3, 4, 5 and 6 just the failure.
Failure after_failed_start(const node::Config& config, const std::string& link, const Failure& failure);

}  // namespace collab::jobs
