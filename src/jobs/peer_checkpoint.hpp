#pragma once
// The sub-commands of collab-peer that look at its newest checkpoint. Each returns an exit code and throws `Failure`.

#include "jobs/registry.hpp"
#include "node/config.hpp"

namespace collab::jobs {

/// Copies the newest checkpoint's model to --to.
int export_checkpoint(const node::Config& config);
/// Loss of the newest checkpoint on the held-out text, beside the unigram baseline.
int evaluate_checkpoint(const Registry& jobs, const node::Config& config);

}  // namespace collab::jobs
