#pragma once
// One peer without training: finds its run, becomes a member, stays one, leaves.

#include "crypto/identity.hpp"
#include "node/membership.hpp"
#include "node/node_options.hpp"
#include "node/role.hpp"

#include <memory>
#include <optional>
#include <vector>

namespace collab::node {

/// Its life: `join` or `found`; then other rooms register their methods at `endpoint()`; then `run`; `leave` before
/// `run` is cancelled. Thread safety: none; belongs to the node's loop.
///
/// Until the manifest is known nothing is served: `join` dials with an endpoint of its own, which listens nowhere.
class Node {
 public:
  /// Reads what `home` keeps. Throws `Failure(incompatible)` when its manifest is damaged, `Failure(usage)` when a name
  /// is too long or the run id is none.
  Node(NodeNeeds needs, Identity identity, NodeOptions options);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// Looks for the run wherever it may be until `deadline`, waiting longer after each round and saying why once a
  /// minute; brings home its manifest, pins the authority's key and keeps both. Never founds a run. Opens the ports.
  /// Errors: `gone` when no member answered; `denied` when the run does not admit this peer, or its authority is not
  /// the pinned one (both keys are named); `bad_request` when versions or clocks do not fit. The reason is for a
  /// person. Throws `Failure(machine)` when no port can be had or the home cannot be written.
  Task<boost::system::result<Manifest, Refusal>> join(TimePoint deadline);
  /// What came of each place in the last round of `join`.
  const std::vector<Attempt>& attempts() const noexcept { return attempts_; }
  /// What a program whose join failed ends with.
  Failure join_failure(const Refusal& why) const;

  /// Where `join` looks, the local network asked: that takes `LanOptions::wait`.
  Task<std::vector<Place>> places() const;
  /// What `join` demands of a manifest.
  Expected expected() const;
  /// Why `join` would not even look: what the home holds is not of the run that was named.
  const std::optional<Refusal>& conflict() const noexcept { return conflict_; }
  /// What it says to strangers while it looks; it listens nowhere.
  net::EndpointOptions scout_options() const;
  /// What such an endpoint needs to ask for a manifest: the row, and this peer's token. Before it runs. Throws
  /// `Failure(usage)` when the token is none.
  void brief(net::PeerEndpoint& scout) const;

  /// Becomes the first member, or a coordinator that goes on with what its home holds. Opens the ports.
  /// Throws `Failure(usage)` when the statement is not of this run and the pinned key, or older than the home's;
  /// `Failure(machine)` as `join`.
  void found(const Signed& statement);
  /// What the home holds: verified, of this run. None: this home has never seen it.
  const std::optional<Signed>& stored() const noexcept { return stored_; }

  /// Runs with the node, and drains when it leaves. Before `run`.
  void add(Role& role);
  /// A member's life, until cancelled. After `join` or `found`. Throws `Failure(not_admitted)` when the run does not
  /// admit this node any more: banned, a token that has expired, taken from the list.
  Task<> run();
  /// Drains roles, withdraws the own record, says good-bye; at most `leave_time`. While `run` runs.
  Task<> leave();

  const PeerId& self() const noexcept { return identity_.id(); }
  const Identity& identity() const noexcept { return identity_; }
  const NodeNeeds& needs() const noexcept { return needs_; }
  const NodeOptions& options() const noexcept { return options_; }

  // only after `join` or `found`
  bool is_member() const noexcept { return membership_ != nullptr; }
  net::PeerEndpoint& endpoint() noexcept { return membership_->endpoint(); }
  directory::SwarmDirectory& directory() noexcept { return membership_->directory(); }
  const Manifest& manifest() const noexcept { return membership_->manifest().manifest(); }
  /// Offers a newer manifest, and tells when there is one.
  ManifestKeeper& manifest_keeper() noexcept { return membership_->manifest(); }
  const Access& access() const noexcept { return membership_->access(); }
  const nat::Reachability& reachability() const noexcept { return membership_->reachability(); }
  std::vector<net::Address> relays() const { return membership_->relays(); }
  const nat::MappingFinding& mapping() const { return membership_->mapping(); }
  const nat::PortMapping& port_mapping() const noexcept { return membership_->port_mapping(); }
  /// Who is in the run as the directory tells, sorted by id, this node too.
  std::vector<Member> members() const { return membership_->members(); }

 private:
  std::vector<Place> known_places() const;
  Task<> look_until(TimePoint deadline, std::optional<Found>& found);
  Task<Round> look(net::PeerEndpoint& scout);
  Task<> keep(Found found);
  Task<> remember_in_run_book(const Found& found);
  Task<> run_roles();
  Task<Result<>> say_goodbye(TimePoint deadline);
  void become_member(Signed statement, Manifest manifest, std::vector<PeerId> bootstrap);

  NodeNeeds needs_;
  Identity identity_;
  NodeOptions options_;
  std::optional<Signed> stored_;
  std::optional<Manifest> stored_manifest_;
  std::optional<Refusal> conflict_;  ///< between what the home holds and what is pinned
  directory::Contacts contacts_;
  std::vector<Attempt> attempts_;
  std::unique_ptr<Membership> membership_;
  std::vector<Role*> roles_;
};

}  // namespace collab::node
