#pragma once
// The Moshpit grid: who meets whom in which round, so that after one pass everybody's values have mixed (Moshpit SGD,
// arXiv 2103.03239, section 3.1). Pure; the same on every peer that knows the grid and the list of peers.
//
// A grid of d dimensions has radices m_1 … m_d whose product is at most the number of peers: every cell is filled, and
// surplus peers share cells. A peer's key in a round has d - 1 digits; peers with equal keys form a group. After each
// round the oldest digit is dropped and the slot in that group appended, so no two groupmates meet again within a pass.
//
// The slot is the place among all who belong to the cell, not among those who came: whoever is missing leaves its own
// place empty and shifts nobody. So the whole pass can be foreseen, and its groups need not find each other.
//
// Two who only dial do not reach each other, so every cell needs somebody who can be dialled, to lead it and to own
// segments. Who can be dialled is dealt out first, and as evenly as possible, over the cells of each round.

#include "matchmaking/group.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
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

/// Of those who can be dialled, `dialled` in number, every cell of every round has at least so many: of surplus peers
/// none is counted.
std::uint64_t dialled_per_cell(std::span<const std::uint32_t> radices, std::uint64_t dialled);

/// "4x3" as radices, "auto" as none of them. Errors: `bad_request` for anything else.
Result<std::vector<std::uint32_t>> parse_grid(std::string_view text);

/// The first eight bytes of an id: enough to tell the peers of a run apart, and in the order of the ids.
using Seat = std::uint64_t;
Seat seat_of(const PeerId& peer) noexcept;

/// A key's digits, oldest first.
using Digits = std::vector<std::uint32_t>;

/// Where everybody is in each round of one pass: a function of grid, peers and epoch. Peers are told apart by their
/// seats, so that it can be asked about a peer whose whole id was not known when it was made.
class Schedule {
 public:
  /// No peer twice; their order does not matter. `clients`: the seats of those who only dial, ascending.
  Schedule(const Grid& grid, std::vector<PeerId> peers, std::uint64_t epoch, const std::vector<Seat>& clients = {});

  std::uint32_t rounds() const noexcept { return static_cast<std::uint32_t>(places_.size()); }
  bool contains(const PeerId& peer) const { return index_of(peer).has_value(); }
  std::size_t peers() const noexcept { return peers_.size(); }
  /// Of a peer of the list, in `round` (from 1).
  const Digits& digits(const PeerId& peer, std::uint32_t round) const;
  /// The digit that it dropped after the round before: orders the sums of this one. 0 in round 1.
  std::uint32_t dropped(const PeerId& peer, std::uint32_t round) const;
  /// Who has the same digits in that round, itself included, sorted by id.
  std::vector<PeerId> group(const PeerId& peer, std::uint32_t round) const;
  /// All groups of that round, in the order of their digits.
  std::vector<std::vector<PeerId>> groups(std::uint32_t round) const;

 private:
  struct Place {
    Digits digits;
    std::uint32_t dropped = 0;
  };
  std::optional<std::size_t> index_of(const PeerId& peer) const;

  std::vector<PeerId> peers_;               // sorted by id
  std::vector<std::vector<Place>> places_;  // by round, by index
};

/// `bundle`/grid id/digits: at most wire::kKeyBytesMax for bundles of up to 80 bytes.
std::string key_text(const std::string& bundle, const Grid& grid, const Digits& digits);

}  // namespace collab::matchmaking
