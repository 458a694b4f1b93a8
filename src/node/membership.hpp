#pragma once
// A node inside its run: everything that can exist only when the manifest is known.

#include "base/signal.hpp"
#include "crypto/access.hpp"
#include "crypto/identity.hpp"
#include "directory/contacts.hpp"
#include "directory/server.hpp"
#include "directory/swarm_directory.hpp"
#include "nat/circuit_network.hpp"
#include "nat/dial_back.hpp"
#include "nat/mapping_kind.hpp"
#include "nat/port_mapping.hpp"
#include "nat/punch.hpp"
#include "nat/reachability.hpp"
#include "nat/relay_client.hpp"
#include "nat/relay_server.hpp"
#include "net/peer_endpoint.hpp"
#include "net/tls_context.hpp"
#include "node/admission_keeper.hpp"
#include "node/manifest_keeper.hpp"
#include "node/node_options.hpp"

#include <memory>
#include <string>
#include <vector>

namespace collab::node {

/// One member as the directory tells of it.
struct Member {
  PeerId peer;
  directory::PeerRecord record;
};

/// The /24 or /48 that a host belongs to, for quotas; empty for names, loopback and private addresses, whose owners
/// share one by chance.
std::string origin_of(const std::string& host);

/// The value of a node's own record. Others tell where it may be dialled: when that cannot be said, the rest is.
Bytes publishable(directory::PeerRecord record, Log& log);

/// Built in order, unwound in reverse. Thread safety: none; belongs to the node's loop.
class Membership {
 public:
  /// All references outlive it. `contacts`: kept from earlier. `bootstrap`: who the user says serves the directory,
  /// beside the manifest's coordinators. Opens the ports: throws `Failure(machine)` when none can be had.
  Membership(const NodeNeeds& needs, const Identity& identity, const NodeOptions& options, Signed statement,
             Manifest manifest, directory::Contacts contacts, std::vector<PeerId> bootstrap);
  ~Membership();
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  /// Until cancelled. `places`: where members may be; those that have not answered are tried again, all of them while
  /// no server of the directory answers.
  Task<> run(std::vector<Place> places);
  /// Withdraws this node's record, ends its own questions and closes all connections in order. `run` goes on, with
  /// nothing left to do, until it is cancelled.
  Task<> leave();
  /// Somebody of the run: introduced and asked.
  void meet(const PeerId& peer, const net::Address& address);
  std::vector<Member> members() const;

  net::PeerEndpoint& endpoint() noexcept { return *endpoint_; }
  directory::SwarmDirectory& directory() noexcept { return *directory_; }
  ManifestKeeper& manifest() noexcept { return *keeper_; }
  const nat::Reachability& reachability() const noexcept { return *reachability_; }
  const nat::PortMapping& port_mapping() const noexcept { return *port_mapping_; }
  /// How the router translates what this node dials; unknown while others can dial it.
  const nat::MappingFinding& mapping() const noexcept { return mapping_probe_->finding(); }
  /// Where relays lead others to this node; empty: nowhere.
  std::vector<net::Address> relays() const { return relay_client_->addresses(); }
  const directory::Contacts& contacts() const noexcept { return contacts_; }
  Access& access() noexcept { return access_; }
  AdmissionKeeper& admission() noexcept { return *admission_; }

 private:
  void listen();
  net::EndpointOptions endpoint_options(const std::optional<net::Address>& listen) const;
  std::uint16_t port() const;
  void make_reachability(bool knows_others);
  void make_relays();
  void make_punching();
  std::vector<nat::RelayClient::Candidate> relay_candidates() const;
  std::vector<net::Address> onward_relays() const;
  Task<> follow_relays();
  Task<> follow_mapping();
  bool asks_router() const;
  void obey(const Manifest& manifest);
  directory::PeerRecord own_record() const;
  bool is_perhaps_translated() const;
  Task<> live(std::vector<Place> places);
  Task<> notice_moves();
  Task<> publish_self();
  std::unique_ptr<nat::PortMapping> make_port_mapping(std::uint16_t port, const std::string& name);
  Task<> follow_port_mapping();
  Task<> follow_web_port_mapping();
  Task<> unmap_ports();
  void explain_once();
  void tell_way_out_once();
  Task<> follow_manifest();
  Task<> keep_in_touch(std::vector<Place> places);
  Task<bool> wait_to_touch(Duration& alone_pause);

  NodeNeeds needs_;
  const Identity& identity_;
  const NodeOptions& options_;
  std::uint64_t incarnation_;
  Access access_;
  net::TlsContext tls_;
  directory::Contacts contacts_;
  nat::CircuitNetwork circuits_;
  std::unique_ptr<net::PeerEndpoint> endpoint_;
  std::unique_ptr<AdmissionKeeper> admission_;
  std::unique_ptr<ManifestKeeper> keeper_;
  std::unique_ptr<nat::DialBackServer> dial_back_;
  std::unique_ptr<nat::Reachability> reachability_;
  std::unique_ptr<nat::PortMapping> port_mapping_;
  std::unique_ptr<nat::PortMapping> web_port_mapping_;  // for WebSockets
  std::unique_ptr<nat::RelayServer> relay_server_;
  std::unique_ptr<nat::RelayClient> relay_client_;
  std::unique_ptr<nat::MappingProbe> mapping_probe_;
  std::unique_ptr<nat::Puncher> puncher_;
  TimePoint mapping_settled_ = TimePoint::max();
  bool explained_ = false;
  bool told_way_out_ = false;
  std::unique_ptr<directory::Server> server_;
  std::unique_ptr<directory::SwarmDirectory> directory_;
  std::unique_ptr<directory::Watch> members_;
  bool leaving_ = false;
  bool living_ = false;
  Signal life_;  ///< one of the two has changed
};

}  // namespace collab::node
