#pragma once
// The option table of collab-peer, and what it says of the run.

#include "cli/options.hpp"
#include "node/config.hpp"

#include <filesystem>
#include <string>

namespace collab::jobs {

node::OptionTable peer_options();
cli::Synopsis peer_synopsis();

/// From --home, else the run's default place. Throws `Failure(usage)` when the run is not named.
std::filesystem::path home_of(const node::Config& config);
/// Without the pinned key.
std::string run_id_of(const node::Config& config);

}  // namespace collab::jobs
