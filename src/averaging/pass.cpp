#include "averaging/pass.hpp"

#include "matchmaking/wire.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <map>
#include <set>
#include <utility>

namespace collab::averaging {
namespace {

using matchmaking::Wanted;

/// A sum of 64 such weights fits into a word.
constexpr std::uint64_t kWeightSumMax = std::uint64_t(1) << 57U;

/// Of one peer in round 1; 0: any.
std::uint64_t weight_max(const Pass& pass) {
  return pass.weight_max > 0 ? pass.weight_max : matchmaking::kTargetsPerPeer * pass.target_samples;
}

/// The weight behind a voice of a later round: at most that of everybody.
std::uint64_t weight_sum_max(const Pass& pass) {
  const std::uint64_t each = weight_max(pass);
  const std::uint64_t peers = pass.schedule->peers();
  return each == 0 || each > kWeightSumMax / peers ? kWeightSumMax : each * peers;
}

}  // namespace

std::string bundle_of(const std::string& run_id) {
  return run_id + "/gradients";
}

std::string key_in(const Pass& pass, const std::string& bundle, std::uint32_t round,
                   const matchmaking::Digits& digits) {
  // rounds have keys of their own: the same digits mean other cells in each
  return matchmaking::key_text(fmt::format("{}.{}", bundle, round), pass.grid, digits);
}

Wanted wanted_in(const Pass& pass, const std::string& bundle, std::uint32_t round, const std::vector<PeerId>& cell) {
  assert(!cell.empty());
  const matchmaking::Schedule& schedule = *pass.schedule;
  Wanted wanted;
  wanted.key = key_in(pass, bundle, round, schedule.digits(cell.front(), round));
  wanted.epoch = pass.epoch;
  wanted.round = round;
  wanted.target_samples = round == 1 ? pass.target_samples : 0;
  wanted.weight_min = round == schedule.rounds() ? pass.weight_min : 0;
  wanted.weight_max = round == 1 ? weight_max(pass) : weight_sum_max(pass);
  for (const PeerId& peer : cell) {
    wanted.expected.push_back(pass.look_up ? pass.look_up(peer) : matchmaking::Expected{peer});
    wanted.expected.back().dropped = schedule.dropped(peer, round);
  }
  wanted.dropped = wanted.expected.front().dropped;
  if (pass.auxiliaries) wanted.auxiliaries = pass.auxiliaries();
  wanted.voiced = round > 1 && pass.stands;
  wanted.electorate = cell.size();  // more than half of the cell, so there are never two groups
  return wanted;
}

WantedFirst first_of(const Pass& pass, const std::string& bundle, const PeerId& self) {
  WantedFirst wanted;
  wanted.epoch = pass.epoch;
  const std::string key = key_in(pass, bundle, 1, pass.schedule->digits(self, 1));
  wanted.topic = matchmaking::topic(key, pass.epoch, 1);
  std::vector<matchmaking::Seat> seats;
  const std::vector<PeerId> cell = pass.schedule->group(self, 1);
  for (const PeerId& peer : cell) seats.push_back(matchmaking::seat_of(peer));
  wanted.cell = [cell, look_up = pass.look_up] {
    std::vector<PeerId> known;
    for (const PeerId& peer : cell) known.push_back(look_up ? look_up(peer).id : peer);
    return known;
  };
  wanted.is_it = [schedule = pass.schedule, seats, epoch = pass.epoch, topic = wanted.topic](const auto& group) {
    const auto fits = [&](const matchmaking::Member& member) {
      return member.role == matchmaking::Role::auxiliary ||
             std::find(seats.begin(), seats.end(), matchmaking::seat_of(member.id)) != seats.end();
    };
    return group.topic == topic && group.epoch == epoch && group.round == 1 && group.electorate >= seats.size() &&
           std::all_of(group.roster.begin(), group.roster.end(), fits) && as_foreseen(group, *schedule);
  };
  return wanted;
}

bool as_foreseen(const matchmaking::Group& group, const matchmaking::Schedule& schedule) {
  const auto digit = [&](const matchmaking::Member& member) { return schedule.dropped(member.id, group.round); };
  const auto brings_nothing = [](const auto* member) { return member->role == matchmaking::Role::auxiliary; };
  std::vector<const matchmaking::Member*> in_order(group.roster.size());
  for (const auto& member : group.roster) {
    if (!brings_nothing(&member) && !schedule.contains(member.id)) return false;
    in_order[member.order] = &member;
  }
  std::erase_if(in_order, brings_nothing);
  std::set<matchmaking::Seat> seats;  // keys of one seat can be made
  for (const auto* member : in_order)
    if (!seats.insert(matchmaking::seat_of(member->id)).second) return false;
  const auto not_after = [&](const auto* a, const auto* b) {
    return std::pair(digit(*a), a->id) >= std::pair(digit(*b), b->id);
  };
  if (std::adjacent_find(in_order.begin(), in_order.end(), not_after) != in_order.end()) return false;
  std::map<std::uint32_t, Digest> group_of_cell;
  std::map<Digest, std::uint32_t> cell_of_group;
  for (const auto& member : group.roster) {
    if (member.previous == Digest{}) continue;
    if (group.round == 1 || brings_nothing(&member)) return false;
    if (group_of_cell.emplace(digit(member), member.previous).first->second != member.previous) return false;
    if (cell_of_group.emplace(member.previous, digit(member)).first->second != digit(member)) return false;
  }
  return true;
}

matchmaking::MatchmakerOptions search_options(matchmaking::MatchmakerOptions options, std::uint32_t round) {
  options.coarse_codec_map.reset();  // by their own lines groups would choose differently, and end with other bytes
  if (round == 1) return options;
  options.weight_max = [](const PeerId&) { return kWeightSumMax; };  // Wanted::weight_max is less
  options.samples_believed = nullptr;
  return options;
}

}  // namespace collab::averaging
