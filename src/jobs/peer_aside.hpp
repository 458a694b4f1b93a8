#pragma once
// collab-peer --role aux and --role monitor: in a run without computing gradients.

#include "jobs/owner.hpp"
#include "jobs/registry.hpp"
#include "node/config.hpp"

#include <cstdint>
#include <string>

namespace collab::jobs {

enum class PeerRole : std::uint8_t { trainer, auxiliary, monitor };
/// What --role says. Throws `Failure(usage)`.
PeerRole role_of(const node::Config& config);

/// Reduces for others (`auxiliary`) or only looks (`monitor`) until told to stop. `link`: a join link, or empty. Throws
/// `Failure`. Returns an exit code.
int run_aside(const Registry& jobs, const node::Config& config, Owner& owner, const std::string& link, PeerRole role);

}  // namespace collab::jobs
