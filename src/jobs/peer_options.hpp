#pragma once
// The option table of collab-peer.

#include "cli/options.hpp"
#include "node/config.hpp"

namespace collab::jobs {

node::OptionTable peer_options();
cli::Synopsis peer_synopsis();

}  // namespace collab::jobs
