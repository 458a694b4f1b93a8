#pragma once
// What matchmaking hands over to averaging: who averages what with whom.

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "crypto/hash.hpp"
#include "crypto/peer_id.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace collab::matchmaking {

inline constexpr std::size_t kGroupSizeMax = 64;  ///< a set of groupmates fits into one 64-bit word

/// What a peer does in a round. A node sends, owns and receives; a client cannot be dialled, so it owns nothing; an
/// auxiliary owns and sends no part.
enum class Role : std::uint8_t { node, client, auxiliary };

struct Member {
  PeerId id;
  Role role = Role::node;
  std::uint64_t weight_max = 0;   ///< samples that it can honestly bring; more is refused
  Digest previous{};              ///< group it committed with in the round before; zero in round 1
  std::uint32_t units = 0;        ///< size of the segment it averages; 0 unless reachable
  std::uint8_t order = 0;         ///< place in the reduction order: a permutation of the ranks
  std::uint64_t incarnation = 0;  ///< its present life: what it promised in a former one it has forgotten
  bool operator==(const Member&) const = default;
};

using GroupId = Digest;

/// The peers and the plan of one round. Equal on every groupmate, or their ids differ: nobody can be shown two rosters
/// or two plans.
struct Group {
  GroupId id{};    ///< hash of everything below
  Digest topic{};  ///< of the conversation in which it was formed: the key it was searched under
  std::uint64_t epoch = 0;
  std::uint32_t round = 1;    ///< 1.. within the epoch
  std::uint32_t attempt = 0;  ///< counts the tries of one (epoch, round), so a failed group is never met again
  /// 2..kGroupSizeMax, sorted by id; a peer's index is its rank. One only for a peer that is the whole swarm: such a
  /// group never travels, so `check` refuses it.
  std::vector<Member> roster;
  std::uint32_t chunk_units = 16;
  std::uint64_t weight_min = 0;  ///< samples below which the round must not commit
  /// Current peers as the leader counted them, in the group or not: a commit needs more than half of so many, so that
  /// two groups of one round never both commit. 0, or fewer than the voters: more than half of the voters.
  std::uint32_t electorate = 0;
  Digest codec_map{};
  Digest schema{};

  std::optional<std::size_t> rank_of(const PeerId&) const;
};

/// Sorts the roster, fills in `order` and the id. Sums run in the order of (`dropped`, peer id): the grid digit that a
/// peer dropped after the round before, so that groups that hold the same values sum them alike. Absent: 0.
Group seal(Group group, const std::map<PeerId, std::uint32_t>& dropped = {});
/// Equal for all groups of one (key, epoch, round, attempt), whoever leads them: a peer is in one of them at most.
Digest occasion_of(const Group& group);
/// The id of what is there, whoever computed it.
GroupId compute_id(const Group& group);
/// What a plan must keep, whoever sent it. Errors: `bad_request` for a roster that is unsorted, too small or large or
/// without `self`; units that do not add up to a vector of `values`, or given to a client; chunks of no unit or of more
/// than 16; nobody who votes, or too few for a commit; an `order` that is no permutation; a node or client that may
/// bring nothing; an id that does not fit.
Result<> check(const Group& group, const PeerId& self, std::size_t values);

}  // namespace collab::matchmaking
