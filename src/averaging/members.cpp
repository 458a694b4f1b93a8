#include "averaging/members.hpp"

#include <algorithm>

namespace collab::averaging {

using matchmaking::Role;

Members Members::of(const matchmaking::Group& group) {
  Members members;
  members.size = group.roster.size();
  members.order.resize(members.size);
  for (std::size_t rank = 0; rank < members.size; ++rank) {
    const auto& member = group.roster[rank];
    members.all |= bit(rank);
    if (member.role != Role::client) members.reachable |= bit(rank);
    if (member.role != Role::auxiliary) members.voters |= bit(rank);
    if (member.units > 0) members.segments.push_back(static_cast<Rank>(rank));
    members.order[member.order] = static_cast<Rank>(rank);
  }
  members.electorate = std::max<std::size_t>(count(members.voters), group.electorate);
  for (std::size_t rank = 0; rank < members.size; ++rank) {
    Ranks together = bit(rank);
    const Digest& previous = group.roster[rank].previous;
    for (std::size_t other = 0; previous != Digest{} && other < members.size; ++other) {
      if (contains(members.voters, other) && group.roster[other].previous == previous) together |= bit(other);
    }
    members.previous.push_back(together);
  }
  return members;
}

Rank Members::coordinator(std::uint32_t view) const noexcept {
  Ranks rest = reachable;
  for (std::size_t skip = view % count(reachable); skip > 0; --skip) rest &= rest - 1;
  return first(rest);
}

bool Members::is_quorum(Ranks ranks) const noexcept {
  return 2 * count(ranks & voters) > electorate;
}

std::size_t Members::index_of(std::size_t segment) const noexcept {
  const auto at = std::lower_bound(segments.begin(), segments.end(), segment);
  const bool found = at != segments.end() && *at == segment;
  return found ? static_cast<std::size_t>(at - segments.begin()) : segments.size();
}

}  // namespace collab::averaging
