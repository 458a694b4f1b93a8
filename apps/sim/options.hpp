#pragma once
// The options of collab-sim, and the swarm they mean.

#include "cli/options.hpp"
#include "sim/swarm.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace collab::sim {

/// Throws `Failure(usage)`.
[[noreturn]] void refuse(const std::string& what, const std::string& remedy);

node::OptionTable sim_options();
cli::Synopsis sim_synopsis();

inline constexpr std::size_t kNetworkPeersMax = 1024;  ///< with real connections

/// `--latency`, `--up`, `--down`, `--loss` and `--jitter`. Throws `Failure(usage)`.
void read_links(const node::Config& config, LinkOptions& links, LineOptions& line);
/// `--links` of so many peers, which replaces the above; empty when it is not given. Throws `Failure(usage)`.
std::vector<LineOptions> read_lines(const node::Config& config, std::size_t peers, LinkOptions& links);
/// `--grid` of so many peers. Throws `Failure(usage)`.
std::vector<std::uint32_t> read_grid(const node::Config& config, std::size_t peers);
/// Nothing for people to stdout: it was not wanted, or `--json -` is there.
bool is_quiet(const node::Config& config);
/// To the file of `--json`, or stdout; nowhere when it was not asked for.
void write_json(const node::Config& config, const nlohmann::json& result);
/// Throws `Failure(usage)`.
Crypto crypto_of(const node::Config& config);
/// `workload`: training or averaging. Throws `Failure(usage)`.
SwarmOptions swarm_options(const std::string& workload, const node::Config& config);

/// Which events `--trace` shows: "peer=3,room=averaging", any of both, in any order;
/// "peer=coordinator"; "all".
struct TraceFilter {
  std::optional<std::size_t> peer;
  std::string room;  ///< first word of an event's name; empty: all
  bool shows(const TraceLine& line) const;
};
/// Throws `Failure(usage)`.
TraceFilter parse_trace(const std::string& text);

}  // namespace collab::sim
