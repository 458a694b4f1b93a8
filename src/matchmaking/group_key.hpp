#pragma once
// The Moshpit grid: who meets whom in which round, so that after one pass everybody's values have mixed (Moshpit SGD,
// arXiv 2103.03239, section 3.1). Pure; the same on every peer that knows the grid and the list of peers.
//
// A grid of d dimensions has radices m_1 … m_d whose product is at most the number of peers: every cell is filled, and
// surplus peers share cells. A peer's key has d - 1 digits; peers with equal keys form a group. After round t the
// oldest digit is dropped and the slot in that group appended, so no two groupmates meet again within a pass.

#include "matchmaking/group.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace collab::matchmaking {

inline constexpr std::size_t kDimensionsMax = 8;

struct Grid {
  Digest id{};                         ///< names it in keys
  std::vector<std::uint32_t> radices;  ///< m_1 … m_d, each at least 2; one: everybody is in one group
  std::size_t rounds() const noexcept { return radices.size(); }
  bool operator==(const Grid&) const = default;
};

/// The fewest dimensions whose groups, surplus peers included, keep `group_size_max` (2..64), for `peers` >= 1.
std::vector<std::uint32_t> radices_for(std::uint64_t peers, std::size_t group_size_max);
/// Errors: `bad_request` for no radix, more than kDimensionsMax, one under 2 or above kGroupSizeMax.
Result<> check_radices(std::span<const std::uint32_t> radices);

/// A key's digits, oldest first.
using Digits = std::vector<std::uint32_t>;

/// Where each of `peers` is before the first round, in their order: the rank in the list sorted by H(grid id, peer id),
/// written in the radices of dimensions 2 to d. No peer twice.
std::vector<Digits> first_digits(const Grid& grid, std::span<const PeerId> peers);

/// The slot in dimension `round` (1..d) that `rank` of a committed group of that round takes with it.
std::uint32_t slot_of(const Grid& grid, const Group& group, std::size_t rank);
/// The slot of a peer whose group did not commit.
std::uint32_t slot_without_group(const Grid& grid, const PeerId& peer, std::uint64_t epoch, std::uint32_t round);

/// After a round: what is dropped orders the sums of the next round.
struct Moved {
  Digits digits;
  std::uint32_t dropped = 0;
};
Moved advance(Digits digits, std::uint32_t slot);

/// `bundle`/grid id/digits: at most wire::kKeyBytesMax for bundles of up to 80 bytes.
std::string key_text(const std::string& bundle, const Grid& grid, const Digits& digits);

}  // namespace collab::matchmaking
