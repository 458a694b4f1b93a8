#pragma once
// One stay of collab-peer run: joins, trains until told to stop, leaves.

#include "epoch/delay.hpp"
#include "jobs/owner.hpp"
#include "jobs/peer_options.hpp"
#include "jobs/registry.hpp"
#include "node/config.hpp"
#include "node/mode.hpp"
#include "optim/collaboration.hpp"

#include <optional>
#include <string>

namespace collab::jobs {

/// `link`: a join link, or empty. Leaves as planned when `owner` wants it to rest. Throws `Failure`. Returns an exit
/// code.
int run_peer(const Registry& jobs, const node::Config& config, Owner& owner, const std::string& link);

/// What the options say of the run and of this peer. `link`: a join link, or empty. Throws `Failure(usage)`.
optim::RunOptions run_options_of(const node::Config& config, const std::string& link);
/// What of an epoch's end this peer does not wait for. Throws `Failure(usage)` for what is none of --delay's words.
epoch::Delay delay_of(const node::Config& config);
/// The mode that it insists on. Throws `Failure(usage)` for what is none.
std::optional<node::Mode> mode_of(const node::Config& config);
optim::Device device_of(const node::Config& config);

}  // namespace collab::jobs
