#pragma once
// One simulated peer: a host, what it keeps on disk, and one process after the other.

#include "crypto/identity.hpp"
#include "epoch/member.hpp"
#include "node/node.hpp"
#include "sim/clock_bridge.hpp"
#include "sim/disk.hpp"
#include "sim/fake_crypto.hpp"
#include "sim/liar.hpp"
#include "sim/network.hpp"
#include "sim/plant.hpp"
#include "sim/trainer.hpp"
#include "sim/witness.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace collab::sim {

/// What all peers of a swarm share. Outlives them.
struct PeerNeeds {
  asio::any_io_executor loop;
  Clock& world;  ///< its time, whatever a peer's own clock shows
  std::uint64_t seed = 0;
  const Quadratic& problem;
  epoch::MemberOptions member;  ///< role, incarnation and guard are the peer's own
  state::StoreOptions store;
  std::string run_id;
  std::vector<node::PeerAddress> bootstrap;
  StepOptions step;
  Plant plant = Plant::none;
  Witness& witness;
  VerifiedStatements& verified;      ///< of all peers: what one has verified, no other verifies again
  const SignatureScheme& scheme;     ///< of all peers' signatures
  bool leave_at_end = false;         ///< a peer that has had the last epoch leaves the run, as programs do
  std::uint64_t units_per_pass = 0;  ///< of the data that all lease units of; 0: each has samples of its own
  bool boxes = false;  ///< some peers are behind one: all listen at 443, and who is not dialled back is a client
  std::uint64_t checkpoint_every = 0;  ///< epochs, and when it leaves; 0: what it has is on its disk at once
  bool equal_split = false;            ///< no peer knows how fast its line is
};

/// The production node, tracker, store and member on one host. Thread safety: none.
class Peer {
 public:
  /// `number`: its place in the swarm; makes its key.
  Peer(const PeerNeeds& needs, Host& host, std::size_t number, ClockBridge::Pace pace, bool client);
  ~Peer();

  /// A new process. `blank`: with an empty disk. Not while one runs.
  void start(bool blank = false);
  /// The process ends at once, as by kill -9; the host was killed before.
  Task<> kill();
  /// A planned leave, at most 10 s, then the process ends.
  Task<> leave();

  bool running() const noexcept { return life_ != nullptr; }
  std::size_t number() const noexcept { return number_; }
  Host& host() noexcept { return host_; }
  const PeerId& id() const noexcept { return id_; }
  bool client() const noexcept { return client_; }
  Disk& disk() noexcept { return disk_; }
  const Disk& disk() const noexcept { return disk_; }
  const SimTrainer& trainer() const noexcept { return trainer_; }
  const ClockBridge::Pace& pace() const noexcept { return pace_; }
  // of the process that runs
  bool in_step() const;
  /// The last epoch of the run has ended for it.
  bool finished() const;
  bool dismissed() const;           ///< told that it is not admitted: its node has ended by itself
  std::size_t tasks() const;        ///< of its own, the node's among them
  std::size_t connections() const;  ///< to other peers
  double busy() const;              ///< share of its time in step that it computed
  std::uint64_t progress_records() const;
  Duration units_wait_max() const;  ///< the longest time that its trainer had no units, after its first
  std::uint64_t unleased() const;   ///< units that it took without a lease
  /// The round's last decision waits while true: every attempt of this peer fails.
  void abort_rounds(bool on) noexcept { aborting_ = on; }
  /// Whose address it was told, instead of what everybody was.
  void told_of(std::vector<node::PeerAddress> bootstrap) { bootstrap_ = std::move(bootstrap); }
  /// Computes at a `factor`th of its pace; 1: as fast as it can.
  void slow(double factor) noexcept { pace_.samples_per_s = samples_per_s_ / factor; }
  /// One of its parameters changes. Returns their hash.
  Digest spoil() { return trainer_.spoil(); }
  void spoil_ledger() { trainer_.spoil_ledger(); }
  /// What it tells others is distorted so from now on; nothing: it is honest again.
  void lie(std::optional<Lie> about);
  bool lies() const noexcept { return lie_.has_value(); }
  /// Until then, to be told that it is not admitted is an error of the run.
  void banned(bool is) noexcept { banned_ = is; }

  static Identity identity_of(std::uint64_t seed, std::size_t number, const SignatureScheme& scheme = ed25519());

 private:
  struct Life;
  class Slots;
  Task<> live(Life& life);
  /// What is in hand, when somebody takes it.
  Task<> hand_on(Life& life, TimePoint deadline);
  Task<> say_good_bye(Life& life, TimePoint deadline);
  void make_leases(Life& life);
  void boot(bool blank);
  void happened(Life& life, const epoch::MemberEvent& event);
  Task<Result<std::shared_ptr<const state::Snapshot>>> snapshot(std::uint64_t epoch);
  Task<net::Answer> take_on(PeerId from, Frame request, TimePoint deadline);
  Task<net::Answer> was_counted(PeerId from, Frame request);
  node::NodeOptions node_options() const;

  const PeerNeeds& needs_;
  Host& host_;
  std::size_t number_;
  ClockBridge::Pace pace_;
  double samples_per_s_;  // unless slowed
  bool client_;
  PeerId id_;
  SimTrainer trainer_;
  Disk disk_;
  std::unique_ptr<Slots> slots_;
  ArrivalOrder arrival_order_;
  std::uint64_t lives_ = 0;
  std::vector<node::PeerAddress> bootstrap_;  // empty: as everybody
  bool aborting_ = false;
  bool banned_ = false;
  std::optional<Lie> lie_;
  std::unique_ptr<Life> life_;
};

}  // namespace collab::sim
