#pragma once
// Whom a peer that is behind asks for a round.

#include "base/random.hpp"
#include "crypto/peer_id.hpp"

#include <functional>
#include <vector>

namespace collab::epoch {

struct RoundDonors {
  std::vector<PeerId> ahead;  ///< past that round by their records: they have it
  std::vector<PeerId> all;    ///< these too: records are late, so others may have it by now
  std::size_t others_max = 0;
};

/// Of those ahead all that can be reached, then some of the others, drawn at random. Where most only dial, a choice
/// among all would often miss the one that has it. Whom nobody here can reach is asked through relays, when `relayed`
/// says that there are such: all ahead while none of them can be reached, some of the others only when nobody is ahead.
std::vector<PeerId> choose_donors(RoundDonors from, const std::function<bool(const PeerId&)>& can_reach, bool relayed,
                                  Random& random);

}  // namespace collab::epoch
