#pragma once
// The facts of a group that every part of a round needs, as sets of ranks.

#include "matchmaking/group.hpp"

#include <bit>
#include <cstdint>
#include <vector>

namespace collab::averaging {

using Rank = std::uint8_t;
/// Bit i: roster[i].
using Ranks = std::uint64_t;

constexpr Ranks bit(std::size_t rank) noexcept {
  return Ranks(1) << rank;
}
constexpr bool contains(Ranks ranks, std::size_t rank) noexcept {
  return rank < 64 && (ranks >> rank & 1U) != 0;
}
/// The lowest of them; `ranks` is not empty.
constexpr Rank first(Ranks ranks) noexcept {
  return static_cast<Rank>(std::countr_zero(ranks));
}
constexpr std::size_t count(Ranks ranks) noexcept {
  return static_cast<std::size_t>(std::popcount(ranks));
}

struct Members {
  /// `group` has passed matchmaking::check.
  static Members of(const matchmaking::Group& group);

  std::size_t size = 0;
  Ranks all = 0;
  Ranks reachable = 0;  ///< can be dialled: may own segments and coordinate. Never empty
  Ranks voters = 0;     ///< nodes and clients: who sends parts and receives results
  std::size_t electorate =
      0;  ///< the voters, or all current peers where they are more: a quorum is more than half of it
  std::vector<Rank> segments;   ///< ranks that own values in view 0, ascending: the entries of a manifest
  std::vector<Rank> order;      ///< the ranks in reduction order
  std::vector<Ranks> previous;  ///< by rank: the voters that committed with it in the round before, itself included

  /// Nobody else can dial between two clients, so they have no link.
  Ranks linked(std::size_t rank) const noexcept { return (contains(reachable, rank) ? all : reachable) & ~bit(rank); }
  Rank coordinator(std::uint32_t view) const noexcept;
  /// Voters that are more than half of the electorate: any two quorums share a voter, also those of two groups that
  /// peers of one electorate have formed, or of two that differ by a newcomer. Half of it never is one, not even of two
  /// peers: one of them and a newcomer that it does not know yet are more than half of three.
  bool is_quorum(Ranks ranks) const noexcept;
  /// Index into a manifest; `segments.size()` when the segment has no values.
  std::size_t index_of(std::size_t segment) const noexcept;
};

}  // namespace collab::averaging
