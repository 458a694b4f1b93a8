#pragma once
// The swarm as one node sees it, ready to be shown: a pure function of what the other rooms know.

#include "crypto/hash.hpp"
#include "crypto/peer_id.hpp"

#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace collab::monitor {

inline constexpr std::size_t kRoundsMax = 50;
inline constexpr std::size_t kPeersMax = 4096;
inline constexpr std::size_t kNameBytesMax = 64;
inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

/// Who somebody says he is: his record under the directory's key "peer".
struct MemberFacts {
  PeerId id;
  std::string name;          ///< empty: shown by his id
  std::string role;          ///< full, client, auxiliary, monitor, coordinator
  std::string reachability;  ///< open, punchable, relayed, outbound_only, unknown
  std::string software;
};

/// How far somebody says he is: his record under the directory's key "progress".
struct ProgressFacts {
  PeerId id;
  std::uint64_t epoch = 0;
  std::uint64_t samples = 0;  ///< of this epoch
  double samples_per_s = 0;
  Digest parameter_hash{};
  std::int64_t unix_ms = 0;  ///< when he said so
};

/// The way to a peer, measured here. Unknown without a connection.
struct LinkFacts {
  PeerId id;
  double rtt_s = kUnknown;
  double up_bytes_per_s = kUnknown;
  double down_bytes_per_s = kUnknown;
  std::string path;              ///< what its bytes travel in and through: "tcp", "wss through a proxy"
  std::uint64_t bulk_bytes = 0;  ///< of tensors and states, both ways, since this node started
};

struct RoundMember {
  PeerId id;
  bool whole_id = true;  ///< else only the first 8 letters of its text mean something
  std::string role;
  double counted = 0;         ///< share of the values that its part is in
  std::uint64_t samples = 0;  ///< behind its part; 0: unknown, or it listened only
  std::string left_out;       ///< why its values are missing somewhere; empty: they are not
  std::uint64_t up_bytes = 0;
  std::uint64_t down_bytes = 0;
};

/// One round as one node lived through it.
struct RoundView {
  std::optional<PeerId> told_by;  ///< empty: this node
  std::uint64_t epoch = 0;
  std::uint32_t round = 0;
  std::string group;   ///< hexadecimal
  std::string result;  ///< committed, failed, behind
  std::string reason;  ///< of a failure
  std::int64_t ended_unix_ms = 0;
  double exchange_s = 0;  ///< until all results were here
  double commit_s = 0;
  double apply_s = 0;
  std::uint64_t samples = 0;
  std::uint64_t up_bytes = 0;
  std::uint64_t down_bytes = 0;
  std::vector<RoundMember> members;
};

/// The last `kRoundsMax` rounds, oldest first.
class Rounds {
 public:
  void add(RoundView round);
  const std::deque<RoundView>& kept() const noexcept { return kept_; }

 private:
  std::deque<RoundView> kept_;
};

/// Everything about the run that is no property of a single peer.
struct RunView {
  std::string run_id;
  PeerId self;
  bool connected = false;  ///< some directory server answers
  std::uint64_t epoch = 0;
  std::uint64_t samples = 0;  ///< of this epoch, all peers
  std::uint64_t target_batch_samples = 0;
  double eta_s = kUnknown;  ///< until the target batch is full
  double loss_train = kUnknown;
  double loss_heldout = kUnknown;
  std::uint64_t own_samples = 0;       ///< of this epoch
  double checkpoint_age_s = kUnknown;  ///< unknown: none was saved
  double clock_offset_s = kUnknown;    ///< of this machine from the swarm
  std::uint64_t last_event_id = 0;     ///< where to begin reading events
  std::string join_command;            ///< what a volunteer types; empty: this node does not invite
  std::string join_link;               ///< the same as a link; empty: no address is known that others can dial
};

/// What `view_swarm` makes a view of, as it was at `unix_ms`.
struct SwarmFacts {
  std::int64_t unix_ms = 0;
  RunView run;
  /// Of most voters at `run.epoch` (the tracker's verdict). Empty: nobody has one yet.
  std::optional<Digest> majority_hash;
  std::vector<MemberFacts> members;
  std::vector<ProgressFacts> progress;
  std::vector<LinkFacts> links;
};

struct PeerView {
  PeerId id;
  std::string name;
  std::string role;
  std::string reachability;
  std::string software;
  /// Empty, with the four fields below it: it has not published progress.
  std::optional<std::uint64_t> epoch;
  std::uint64_t samples = 0;
  double samples_per_s = 0;
  std::optional<bool> hash_ok;        ///< empty: of another epoch than the run's, or there is no majority
  std::optional<double> last_seen_s;  ///< since its progress record
  double rtt_s = kUnknown;
  double up_bytes_per_s = kUnknown;
  double down_bytes_per_s = kUnknown;
  std::string path;              ///< empty: not connected
  std::uint64_t bulk_bytes = 0;  ///< of tensors and states, both ways, since this node started
};

struct SwarmView {
  std::int64_t unix_ms = 0;
  RunView run;
  double samples_per_s = 0;          ///< all peers of the current epoch
  std::vector<PeerView> peers;       ///< by id; at most `kPeersMax`
  std::uint64_t peers_left_out = 0;  ///< beyond that
};

/// One entry for everybody with a member or a progress record. Of two records of one peer the last wins; texts of
/// others are cut to `kNameBytesMax`; rates that are not finite or negative count as 0.
SwarmView view_swarm(const SwarmFacts& facts);

}  // namespace collab::monitor
