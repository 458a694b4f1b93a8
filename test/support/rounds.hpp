#pragma once
// A group of peers that average once on a message network, with faults, and what must hold afterwards.

#include "averaging/all_reduce.hpp"
#include "base/random.hpp"
#include "support/message_network.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace collab::test {

/// What one peer brings to the round.
struct Player {
  matchmaking::Role role = matchmaking::Role::node;
  std::uint64_t weight = 1;
  std::uint64_t weight_max = 1000;
  Work work;  ///< that it names; at most `weight` units
  std::uint32_t units = 1;
  std::vector<float> values;  ///< empty for an auxiliary
  /// Rewrites what it sends: a peer that lies. Null: honest.
  std::function<std::vector<Frame>(const PeerId& to, Frame frame)> rewrite;
};

struct RoundsOptions {
  CodecOptions codecs = CodecOptions::all(CodecId::float32);
  std::uint32_t chunk_units = 1;
  std::uint64_t weight_min = 0;
  std::vector<Digest> previous;  ///< by player; empty: round 1
  LinkOptions links;
  averaging::AllReduceOptions all_reduce;
};

class Rounds {
 public:
  Rounds(std::uint64_t seed, std::vector<Player> players, RoundsOptions options);
  ~Rounds();

  /// `when` after the start of the round; `ranks` are indices of the roster.
  void at(Duration when, std::function<void(MessageNetwork&)> fault);
  void kill_at(Duration when, std::size_t rank);
  void run();

  std::size_t size() const noexcept { return peers_.size(); }
  const PeerId& id(std::size_t rank) const;
  /// Players are given in any order; peers are sorted by id.
  std::size_t rank_of_player(std::size_t player) const;
  const Player& player(std::size_t rank) const;
  bool dead(std::size_t rank) const;
  bool committed(std::size_t rank) const;
  Errc error(std::size_t rank) const;
  const std::vector<float>& values(std::size_t rank) const;
  const std::vector<float>& before(std::size_t rank) const;
  const averaging::RoundReport& report(std::size_t rank) const;
  const averaging::CommittedRound* proof(std::size_t rank) const;
  Duration finished_at(std::size_t rank) const;
  const matchmaking::Group& group() const noexcept { return group_; }
  const CodecMap& codecs() const noexcept { return codecs_; }
  const averaging::Members& members() const noexcept { return members_; }
  std::uint64_t fingerprint() const { return network_->fingerprint(); }

  /// Empty, or the first invariant that is broken: committed values equal to the bit (agree), everyone else's unchanged
  /// (atomic), the values those of the rule over the senders that the result names (mean), and its work theirs
  /// (ledger).
  std::string broken() const;
  /// The live peers could commit: a quorum of voters, and someone who can be dialled.
  bool live_quorum() const;

 private:
  struct Peer;
  std::string wrong_mean(const averaging::CommittedRound& round) const;
  std::string wrong_work(const averaging::CommittedRound& round) const;
  Task<> participate(Peer& peer);
  Task<> strike(Duration when, std::function<void(MessageNetwork&)> fault);

  sim::Simulation world_;
  RoundsOptions options_;
  CodecMap codecs_;
  matchmaking::Group group_;
  averaging::Members members_;
  std::unique_ptr<MessageNetwork> network_;
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank
  std::vector<std::size_t> rank_of_player_;
  std::vector<std::pair<Duration, std::function<void(MessageNetwork&)>>> faults_;
};

/// `count` players with random values of `units` units in all, the last one short; at least one is a node. Roles are
/// mixed when `mixed`.
std::vector<Player> draw_players(Random& random, std::size_t count, bool mixed);

}  // namespace collab::test
