#pragma once
// The option table of collab-peer.

#include "cli/options.hpp"
#include "node/config.hpp"

#include <filesystem>

namespace collab::jobs {

node::OptionTable peer_options();
cli::Synopsis peer_synopsis();

/// Where a run keeps key, contacts, caches and checkpoints when nobody says otherwise: $XDG_DATA_HOME or
/// ~/.local/share, then collab/<run>.
std::filesystem::path default_home(const std::string& run_id);

}  // namespace collab::jobs
