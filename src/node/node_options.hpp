#pragma once
// What a node needs of its program, and what can be set.

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/metrics.hpp"
#include "base/random.hpp"
#include "directory/peer_record.hpp"
#include "directory/swarm_directory.hpp"
#include "nat/port_mapping.hpp"
#include "nat/reachability.hpp"
#include "nat/relay_server.hpp"
#include "net/network.hpp"
#include "node/join.hpp"
#include "node/lan_discovery.hpp"
#include "node/run_book.hpp"

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace collab::node {

/// All of it outlives the node. In the simulator `workers` is the loop, clock and network are a host's.
struct NodeNeeds {
  asio::any_io_executor loop;
  asio::any_io_executor workers;
  Clock& clock;
  net::Network& network;
  Random random;  ///< for ids, choices and back-off, not for keys
  Log& log;
  Metrics& metrics;
  VerifiedStatements* verified = nullptr;  ///< shared by the nodes of one loop, or null
};

struct NodeOptions {
  std::filesystem::path home;  ///< keeps manifest.signed and contacts; empty: nothing is kept
  RunName run;
  std::vector<PeerAddress> bootstrap;  ///< from flags or a join link; when there are any, we look nowhere else but at
                                       ///< coordinators and contacts that are known
  std::optional<RunBookEntry> run_book_entry;  ///< of this run
  std::filesystem::path run_book;              ///< where joining adds the entry; empty: nowhere

  std::uint16_t wss_port = 0;  ///< listens there for WebSockets too, at the host of `listen`; 0: does not
  bool behind_proxy = false;   ///< the network's dials go through one: this node can tell nobody who can be dialled
  std::optional<net::Address> listen;  ///< none: [::]:4600, else 4601 to 4619, else any port
  /// Where others may dial; empty: what dial-backs have proved. Names help in the manifest only, see net/address.hpp.
  std::vector<net::Address> announce;
  bool client = false;               ///< listens nowhere
  bool serve_directory = false;      ///< a bootstrap node: a server whatever its hash
  std::filesystem::path allow_list;  ///< enforced where the manifest asks for one; empty: others do it
  std::filesystem::path token_file;  ///< shown to others, and read again when it changes; empty: `home`/token
  nat::RelayMode relay = nat::RelayMode::signal;  ///< what it does for peers that nobody can dial, once others dial it
  double relay_bytes_per_s = 2.5e6;               ///< for each circuit that carries tensors; for all ten times as much
  std::string role = "full";        ///< "full", "client", "auxiliary", "monitor", "coordinator"; for people
  std::string name;                 ///< shown to others, at most 64 bytes
  std::string software = "collab";  ///< program and version, at most 64 bytes

  std::uint16_t loopback_port = kDefaultPort;  ///< where a coordinator on this machine may be; 0: do not look
  std::optional<LanOptions> lan;               ///< real network only; none: neither ask nor answer there

  /// Who is asked to map the listener's port, by `nat::real_gateways`; empty: nobody. Unless it listens at loopback
  /// only, or `announce` tells where others dial.
  std::function<nat::Gateways(const asio::any_io_executor&, Clock&)> gateways;
  std::function<std::optional<std::string>()> router =
      {};  ///< where the default route leads to, when `gateways` is set

  SearchOptions search;
  Duration retry_min = std::chrono::milliseconds(500);  ///< between two rounds of looking for the run, doubled
  Duration retry_max = std::chrono::seconds(15);
  Duration tell_every = std::chrono::seconds(60);    ///< how often it is said that the run is not found yet
  Duration touch_period = std::chrono::seconds(10);  ///< how often places that never answered are tried again
  Duration record_ttl = std::chrono::seconds(60);    ///< of this node's own record
  Duration leave_time = std::chrono::seconds(5);     ///< for a planned good-bye
  nat::Reachability::Options reachability;           ///< its port is filled in
  nat::PortMapping::Options port_mapping;            ///< its port and note are filled in
  directory::SwarmDirectoryOptions directory;        ///< its contacts file is filled in
};

/// "off", "signal" or "bulk". Throws `Failure(usage)` for anything else.
nat::RelayMode parse_relay_mode(const std::string& text);
/// The routers of this machine's own network may be asked to map a port.
void ask_own_router(NodeOptions& options);
/// Which port a router is asked to lead others to, of a node that listens at these addresses; 0: none is asked.
std::uint16_t port_for_router(const NodeOptions& options, const std::vector<net::Address>& listening);

/// Where this node's token is; empty: nowhere.
inline std::filesystem::path token_file(const NodeOptions& options) {
  if (!options.token_file.empty() || options.home.empty()) return options.token_file;
  return options.home / "token";
}

}  // namespace collab::node
