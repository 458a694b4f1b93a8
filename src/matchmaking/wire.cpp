#include "matchmaking/wire.hpp"

#include <algorithm>

namespace collab::matchmaking {
namespace {

std::span<const unsigned char> bytes_of(std::string_view text) {
  return std::span(reinterpret_cast<const unsigned char*>(text.data()), text.size());
}

}  // namespace

Digest topic(std::string_view key, std::uint64_t epoch, std::uint32_t round) {
  Hasher hasher("matchmaking");
  hasher.add(bytes_of(key)).add(epoch).add(std::uint64_t(round));
  return hasher.finish();
}

Digest place(std::string_view key, std::uint64_t epoch, std::uint32_t round, const PeerId& peer) {
  Hasher hasher("matchmaking place");
  hasher.add(bytes_of(key)).add(epoch).add(std::uint64_t(round)).add(peer.key);
  return hasher.finish();
}

std::string_view sentence(RefusalReason reason) noexcept {
  switch (reason) {
    case RefusalReason::other_round: return "it asks for another key, epoch or round than it speaks in";
    case RefusalReason::schema_differs: return "schema differs: its tensors are not ours";
    case RefusalReason::codec_map_differs: return "codec map differs: its values would be encoded otherwise";
    case RefusalReason::full: return "the group is full";
    case RefusalReason::begun: return "the group of this round has begun";
    case RefusalReason::not_leading: return "the peer that was asked does not lead";
    case RefusalReason::former_life: return "it speaks for a life of that peer which is over";
    case RefusalReason::bad_plan: return "the plan of the group breaks a rule";
    case RefusalReason::weight_refused: return "the group allows a weight beyond the bound";
    case RefusalReason::other_role: return "it owns no segments any more, or does now";
    case RefusalReason::too_few: return "more than half of the current peers are not in the group";
    case RefusalReason::joined_elsewhere: return "the peer has promised itself to another leader";
  }
  return "a reason that this version does not know";
}

namespace wire {

Begin to_wire(const Group& group) {
  Begin begin;
  begin.topic = group.topic;
  begin.epoch = group.epoch;
  begin.round = group.round;
  begin.attempt = group.attempt;
  begin.chunk_units = group.chunk_units;
  begin.weight_min = group.weight_min;
  begin.electorate = group.electorate;
  begin.codec_map = group.codec_map;
  begin.schema = group.schema;
  for (const Member& member : group.roster) {
    begin.roster.push_back(member.id.key);
    begin.roles.push_back(static_cast<std::uint8_t>(member.role));
    begin.order.push_back(member.order);
    begin.weights.push_back(member.weight_max);
    begin.previous.push_back(member.previous);
    begin.incarnations.push_back(member.incarnation);
    begin.units.push_back(member.units);
  }
  return begin;
}

Result<Group> from_wire(const Begin& begin) {
  const std::size_t n = begin.roster.size();
  const bool even = begin.roles.size() == n && begin.order.size() == n && begin.weights.size() == n &&
                    begin.previous.size() == n && begin.incarnations.size() == n && begin.units.size() == n;
  if (n == 0 || n > kGroupSizeMax || !even) return Errc::bad_request;

  Group group;
  group.topic = begin.topic;
  group.epoch = begin.epoch;
  group.round = begin.round;
  group.attempt = begin.attempt;
  group.chunk_units = begin.chunk_units;
  group.weight_min = begin.weight_min;
  group.electorate = begin.electorate;
  group.codec_map = begin.codec_map;
  group.schema = begin.schema;
  for (std::size_t i = 0; i < n; ++i) {
    if (begin.roles[i] > static_cast<std::uint8_t>(Role::auxiliary)) return Errc::bad_request;
    Member member;
    member.id.key = begin.roster[i];
    member.role = static_cast<Role>(begin.roles[i]);
    member.order = begin.order[i];
    member.weight_max = begin.weights[i];
    member.previous = begin.previous[i];
    member.incarnation = begin.incarnations[i];
    member.units = begin.units[i];
    group.roster.push_back(member);
  }
  group.id = compute_id(group);
  return group;
}

}  // namespace wire
}  // namespace collab::matchmaking
