#include "matchmaking/group.hpp"

#include "tensor/partition.hpp"

#include <algorithm>
#include <cassert>

namespace collab::matchmaking {
namespace {

bool sorted_by_id(const std::vector<Member>& roster) {
  const auto not_after = [](const Member& a, const Member& b) { return a.id >= b.id; };
  return std::adjacent_find(roster.begin(), roster.end(), not_after) == roster.end();
}

bool is_permutation(const std::vector<Member>& roster) {
  std::uint64_t seen = 0;
  for (const Member& member : roster) {
    if (member.order >= roster.size()) return false;
    seen |= std::uint64_t(1) << member.order;
  }
  return static_cast<std::size_t>(__builtin_popcountll(seen)) == roster.size();
}

bool votes(const Member& member) {
  return member.role != Role::auxiliary;
}

bool plausible(const Member& member) {
  switch (member.role) {
    case Role::node: return member.weight_max > 0;
    case Role::client: return member.weight_max > 0 && member.units == 0;
    case Role::auxiliary: return true;
  }
  return false;  // an enumerator that this version does not have
}

}  // namespace

std::optional<std::size_t> Group::rank_of(const PeerId& peer) const {
  const auto before = [](const Member& member, const PeerId& wanted) { return member.id < wanted; };
  const auto found = std::lower_bound(roster.begin(), roster.end(), peer, before);
  if (found == roster.end() || found->id != peer) return std::nullopt;
  return static_cast<std::size_t>(found - roster.begin());
}

GroupId compute_id(const Group& group) {
  Hasher hasher("collab group");
  hasher.add(group.topic).add(group.epoch).add(std::uint64_t(group.round)).add(std::uint64_t(group.attempt));
  hasher.add(std::uint64_t(group.chunk_units)).add(group.weight_min).add(std::uint64_t(group.electorate));
  hasher.add(group.codec_map).add(group.schema);
  hasher.add(std::uint64_t(group.roster.size()));
  for (const Member& member : group.roster) {
    hasher.add(member.id.key).add(std::uint64_t(member.role)).add(member.weight_max).add(member.previous);
    hasher.add(std::uint64_t(member.units)).add(std::uint64_t(member.order)).add(member.incarnation);
  }
  return hasher.finish();
}

Digest occasion_of(const Group& group) {
  Hasher hasher("collab occasion");
  hasher.add(group.topic).add(group.epoch).add(std::uint64_t(group.round)).add(std::uint64_t(group.attempt));
  return hasher.finish();
}

Group seal(Group group, const std::map<PeerId, std::uint32_t>& dropped) {
  assert(!group.roster.empty() && group.roster.size() <= kGroupSizeMax);
  std::sort(group.roster.begin(), group.roster.end(), [](const Member& a, const Member& b) { return a.id < b.id; });
  const auto digit = [&](const Member* member) {
    const auto found = dropped.find(member->id);
    return found == dropped.end() ? 0 : found->second;
  };
  std::vector<Member*> in_order;
  for (Member& member : group.roster) in_order.push_back(&member);
  std::stable_sort(in_order.begin(), in_order.end(), [&](auto* a, auto* b) { return digit(a) < digit(b); });
  std::uint8_t place = 0;
  for (Member* member : in_order) member->order = place++;
  group.id = compute_id(group);
  return group;
}

Result<> check(const Group& group, const PeerId& self, std::size_t values) {
  const auto& roster = group.roster;
  if (roster.size() < 2 || roster.size() > kGroupSizeMax) return Errc::bad_request;
  if (!sorted_by_id(roster) || !group.rank_of(self) || !is_permutation(roster)) return Errc::bad_request;
  if (!std::all_of(roster.begin(), roster.end(), plausible)) return Errc::bad_request;
  const auto voters = std::count_if(roster.begin(), roster.end(), votes);
  if (voters == 0 || 2 * static_cast<std::size_t>(voters) <= group.electorate) return Errc::bad_request;
  std::vector<std::uint32_t> units;
  for (const Member& member : roster) units.push_back(member.units);
  if (const auto plan = Partition::cut(values, units, group.chunk_units); !plan) return plan.error();
  if (group.id != compute_id(group)) return Errc::bad_request;
  return {};
}

}  // namespace collab::matchmaking
