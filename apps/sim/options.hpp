#pragma once
// The options of collab-sim, and the swarm they mean.

#include "cli/options.hpp"
#include "sim/swarm.hpp"

#include <string>

namespace collab::sim {

/// Throws `Failure(usage)`.
[[noreturn]] void refuse(const std::string& what, const std::string& remedy);

node::OptionTable sim_options();
cli::Synopsis sim_synopsis();

/// Throws `Failure(usage)`.
Crypto crypto_of(const node::Config& config);
/// `workload`: training or averaging. Throws `Failure(usage)`.
SwarmOptions swarm_options(const std::string& workload, const node::Config& config);

/// Which events `--trace` shows: "peer=3,room=averaging", any of both, in any order; "all".
struct TraceFilter {
  std::optional<std::size_t> peer;
  std::string room;  ///< first word of an event's name; empty: all
  bool shows(const TraceLine& line) const;
};
/// Throws `Failure(usage)`.
TraceFilter parse_trace(const std::string& text);

}  // namespace collab::sim
