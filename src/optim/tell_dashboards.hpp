#pragma once
// What a peer tells the dashboards of its run (monitor/wire.hpp), besides the progress that the protocol needs.

#include "epoch/run_epoch.hpp"
#include "optim/parts.hpp"

#include <cstdint>
#include <string>

namespace collab::optim {

// On the loop, all of them.

/// One peer tells of each round: the one with the lowest hash of those who take part (Tracker::is_lowest_of_epoch), so
/// a swarm of any size costs the directory one record an epoch.
void tell_round(Collaboration::Parts& parts, const epoch::EpochReport& report);
/// Whoever sees it; readers show it once.
void tell_failed_round(Collaboration::Parts& parts, std::uint64_t epoch, const std::string& reason);
/// `loss` on held-out text of the parameters of `epoch`; one that is not finite is not told.
void tell_evaluation(Collaboration::Parts& parts, std::uint64_t epoch, double loss);

}  // namespace collab::optim
