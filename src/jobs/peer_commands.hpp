#pragma once
// The sub-commands of collab-peer that need no model. Each returns an exit code and throws `Failure`; all but
// `show_config` want a run that is named.

#include "node/config.hpp"

#include <string>
#include <vector>

namespace collab::jobs {

/// keys create, show; token and revoke for who has the run's key.
int peer_keys(const node::Config& config, std::vector<std::string> words);
/// What each option is set to, and by whom.
int show_config(const node::Config& config);
/// Asks the peer that runs in this home how it is doing. Exit 3 when none runs.
int show_status(const node::Config& config);
/// Asks the peer that runs in this home to leave as planned.
int ask_to_leave(const node::Config& config);
/// The peer of this home, whether it runs or not, takes no part for `words` ("2h"), or until it is resumed.
int pause_peer(const node::Config& config, const std::vector<std::string>& words);
int resume_peer(const node::Config& config);

}  // namespace collab::jobs
