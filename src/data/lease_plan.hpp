#pragma once
// Which units a peer works on next: pure.

#include "base/work.hpp"
#include "crypto/peer_id.hpp"
#include "data/ledger.hpp"

#include <cstdint>
#include <limits>
#include <vector>

namespace collab::data {

inline constexpr std::uint64_t kRunUnitsMin = 16;
inline constexpr std::uint64_t kRunUnitsMax = 256;

/// What a choice depends on.
struct LeaseView {
  const Ledger& ledger;
  const Work& taken;                 ///< leased by anybody, or tried in vain a moment ago
  const std::vector<PeerId>& peers;  ///< who works, this peer included; sorted
  PeerId self;
  std::uint64_t units_per_pass = 0;  ///< > 0
};

constexpr std::uint64_t pass_of(std::uint64_t unit, std::uint64_t units_per_pass) noexcept {
  return unit / units_per_pass;
}

/// A run of kRunUnitsMin..kRunUnitsMax free units of one pass, or what is left of it; at most `wanted`, unless that is
/// less than a run.
///
/// Units go in order, so that the ledger stays short; among the next blocks every peer prefers its own (by a hash of
/// block and peer), so that claims rarely collide. The last units of a pass are shared out in small runs. A pass is
/// begun when nothing of the one before is free, not when that is committed: nobody waits for the slowest.
Work choose_run(const LeaseView& view, std::uint64_t wanted);

/// The same without storers, of units below `end`: only blocks that are this peer's by the hash, so that peers who know
/// the same peers never choose the same. Blocks are so small that each has some in every pass, if there are enough
/// units.
Work choose_own_run(const LeaseView& view, std::uint64_t wanted,
                    std::uint64_t end = std::numeric_limits<std::uint64_t>::max());

}  // namespace collab::data
