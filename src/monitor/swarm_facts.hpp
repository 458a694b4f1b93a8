#pragma once
// From the records of the directory to the facts of a view.

#include "directory/record.hpp"
#include "monitor/swarm_view.hpp"
#include "net/endpoint.hpp"
#include "progress/standing.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace collab::monitor {

/// Where the facts come from. Everything is read during the call only.
struct FactSources {
  const std::vector<directory::Record>& members;      ///< under `directory::kPeerKey`: of a watch
  const std::vector<progress::Standing>& standings;   ///< fresh ones: `Tracker::all()`
  std::function<net::LinkState(const PeerId&)> link;  ///< of the endpoint
  std::int64_t unix_ms = 0;
};

/// `known`: what only the caller knows (run id, self, connected, target batch, losses, own samples, …). Epoch, samples
/// and ETA follow from the standings, so a coordinator that computes nothing shows them too. A member record that
/// cannot be read is left out: its peer may still show progress.
SwarmFacts gather_facts(RunView known, const FactSources& sources);

}  // namespace collab::monitor
