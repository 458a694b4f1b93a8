#pragma once
// Which units of work a round is made of, sender by sender: what travels, and what it comes to.

#include "averaging/members.hpp"
#include "averaging/wire.hpp"
#include "base/work.hpp"

#include <cstdint>
#include <map>
#include <vector>

namespace collab::averaging {

/// What each sender of a segment said it computed. Who named nothing is not in it.
using WorkOfSenders = std::map<Rank, Work>;

/// Of all senders together: so much fits the header of an Average.
inline constexpr std::size_t kRoundWorkRangesMax = matchmaking::kGroupSizeMax * kWorkRangesMax;

/// How many ranges one part may name: all voices share an Average, and a frame's list has at most 256 entries.
std::size_t work_ranges_max(std::size_t voices) noexcept;
std::size_t work_ranges_max(const Members& members) noexcept;
/// Whether a peer that may weigh `weight_max` can honestly have computed so much in round 1: it gathers while rounds
/// fail, and then its weight is cut but not what it did.
bool believable(const Work& work, std::uint64_t weight_max) noexcept;

/// Whether a part can name it: at most `ranges_max` ranges, none of more than 2^32 - 1 units.
bool fits_part(const Work& work, std::size_t ranges_max) noexcept;
/// `work`: fits some part.
std::vector<wire::WorkRun> to_wire(const Work& work);
std::vector<wire::SenderWork> to_wire(const WorkOfSenders& work);
/// From any message. Errors: `bad_request` for more than `ranges_max` ranges, or ranges not in their one form.
Result<Work> from_wire(const std::vector<wire::WorkRun>& runs, std::size_t ranges_max);
/// The same, and ranks must ascend and name something.
Result<WorkOfSenders> from_wire(const std::vector<wire::SenderWork>& senders, std::size_t ranges_max);

/// What a committed round counted.
struct RoundWork {
  /// Disjoint. Of two senders of one unit, each counted by other owners, the first in reduction order has it.
  std::vector<Work> by_rank;
  Work all() const;
};

/// `named`: of each segment. A sender that some segment lacks counts all the same: part of its work is in the result.
RoundWork attribute(const Members& members, const std::vector<WorkOfSenders>& named);

}  // namespace collab::averaging
