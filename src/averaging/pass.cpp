#include "averaging/pass.hpp"

#include <fmt/format.h>

#include <cassert>
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

matchmaking::MatchmakerOptions search_options(matchmaking::MatchmakerOptions options, std::uint32_t round) {
  options.coarse_codec_map.reset();  // by their own lines groups would choose differently, and end with other bytes
  if (round == 1) return options;
  options.weight_max = [](const PeerId&) { return kWeightSumMax; };  // Wanted::weight_max is less
  options.samples_believed = nullptr;
  return options;
}

}  // namespace collab::averaging
