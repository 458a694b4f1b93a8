#pragma once
// The option table of collab-coordinator.

#include "cli/options.hpp"
#include "node/config.hpp"

namespace collab::coordinator {

node::OptionTable coordinator_options();
cli::Synopsis coordinator_synopsis();

}  // namespace collab::coordinator
