#pragma once
// A group of peers that average once on a simulated network, with faults, and what must hold afterwards.

#include "averaging/all_reduce.hpp"
#include "base/random.hpp"
#include "support/message_network.hpp"
#include "support/stream_network.hpp"

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

/// Where in a round a peer is: its first frame of a kind has left it, or has come to it.
enum class Moment : std::uint8_t {
  scatter,  ///< a part has left it
  reduce,   ///< a part has come
  gather,   ///< an average has left it
  hold,     ///< a Hold has left it, or has come
  view,     ///< an Ask
  commit,   ///< a Commit
  done,     ///< its Done has left it
  count
};

struct RoundsOptions {
  CodecOptions codecs = CodecOptions::all(CodecId::float32);
  std::uint32_t chunk_units = 1;
  std::uint64_t weight_min = 0;
  std::vector<Digest> previous;  ///< by player; empty: round 1
  LinkOptions links;
  /// Over production connections instead of whole frames: 5 to 40 ms one way, 12.5 MB/s a line. Faults by `at` and
  /// `kill_at` are not for these.
  bool streams = false;
  bool serve_to_the_end = false;  ///< those who live are stopped when they serve nobody any more
  averaging::AllReduceOptions all_reduce;
};

class Rounds {
 public:
  Rounds(std::uint64_t seed, std::vector<Player> players, RoundsOptions options);
  ~Rounds();

  /// `when` after the start of the round; `ranks` are indices of the roster.
  void at(Duration when, std::function<void(MessageNetwork&)> fault);
  void kill_at(Duration when, std::size_t rank);
  void kill_in(Moment moment, std::size_t rank);
  /// When so many bytes of the round have left it; before that, when it has ended the round. On streams only.
  void kill_at_byte(std::uint64_t byte, std::size_t rank);
  /// It is in another group of the same occasion, and has no part in this round.
  void goes_elsewhere(std::size_t rank);
  /// From then on it hears nothing, or nobody hears it; what is said waits. On streams only.
  void deafen_at(Duration when, std::size_t rank) { block_at(when, rank, false, true); }
  void mute_at(Duration when, std::size_t rank) { block_at(when, rank, true, false); }
  /// What a peer has to send in a round without faults, but for a few control messages.
  std::uint64_t bytes_to_send(std::size_t rank) const;
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
  Duration finished_at(std::size_t rank) const;  ///< since the start of the round
  const matchmaking::Group& group() const noexcept { return group_; }
  const CodecMap& codecs() const noexcept { return codecs_; }
  const averaging::Members& members() const noexcept { return members_; }
  std::uint64_t fingerprint() const { return network_->fingerprint(); }
  /// When the last of those who live served nobody any more; with `serve_to_the_end`.
  Duration served_at() const noexcept { return served_at_; }
  /// Of the last death.
  Duration died_at() const noexcept { return died_at_; }

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
  void kill(Peer& peer);
  Task<> participate(Peer& peer);
  Task<> kill_later(Peer& peer, std::uint64_t byte);
  void block_at(Duration when, std::size_t rank, bool out, bool in);
  Task<> strike(Duration when, std::function<void()> fault);

  sim::Simulation world_;
  RoundsOptions options_;
  CodecMap codecs_;
  matchmaking::Group group_;
  averaging::Members members_;
  std::unique_ptr<MessageNetwork> network_;  // unless `streams`
  std::unique_ptr<StreamNetwork> streams_;
  TimePoint started_{};
  Duration died_at_{};
  Duration served_at_{};
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank
  std::vector<std::size_t> rank_of_player_;
  std::vector<std::pair<Duration, std::function<void()>>> faults_;
  std::vector<std::pair<std::size_t, std::uint64_t>> kills_at_byte_;  // rank, byte
};

/// `count` players with random values of `units` units in all, the last one short; at least one is a node. Roles are
/// mixed when `mixed`.
std::vector<Player> draw_players(Random& random, std::size_t count, bool mixed);

}  // namespace collab::test
