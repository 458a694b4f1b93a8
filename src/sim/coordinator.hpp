#pragma once
// The simulated run's coordinator: the production node, and what it lends to those who only dial.

#include "epoch/auxiliary.hpp"
#include "node/node.hpp"
#include "sim/network.hpp"
#include "sim/peer.hpp"
#include "state/store.hpp"

#include <memory>
#include <string>

namespace collab::sim {

struct CoordinatorOptions {
  node::NodeOptions node;
  node::Manifest manifest;  ///< signed here
  std::uint64_t life = 0;   ///< how many it had before
  bool averages = false;    ///< where nobody can be dialled, and hands the state on
};

/// One life of it. Thread safety: none.
class Coordinator {
 public:
  /// `needs` and `host` outlive it. Founds the run.
  Coordinator(const PeerNeeds& needs, Host& host, CoordinatorOptions options);

  void start();
  /// The process ends at once; the host was killed before.
  Task<> kill();

  directory::SwarmDirectory& directory() { return node_->directory(); }
  /// Rounds in which it owned segments.
  std::uint64_t rounds() const { return auxiliary_ ? auxiliary_->rounds() : 0; }

  /// Also the key of the run's authority.
  static Identity identity(std::uint64_t seed, const SignatureScheme& scheme = ed25519());

 private:
  void make_auxiliary(const PeerNeeds& needs, Host& host);

  Log log_;
  Metrics metrics_;
  Random random_;
  std::unique_ptr<node::Node> node_;
  std::unique_ptr<progress::Tracker> tracker_;
  std::unique_ptr<state::Store> store_;
  std::unique_ptr<epoch::Auxiliary> auxiliary_;
  TaskGroup tasks_;
};

}  // namespace collab::sim
