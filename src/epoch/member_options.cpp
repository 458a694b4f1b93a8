#include "epoch/member_options.hpp"

#include "averaging/round_work.hpp"
#include "averaging/shape.hpp"

#include <algorithm>
#include <utility>

namespace collab::epoch {
namespace {

constexpr Duration kHoldsUpMin = std::chrono::seconds(1);  // for what is shorter 8 bits are not worth it
constexpr double kHoldsUpShare = .1;
constexpr Duration kHandOverTime = std::chrono::seconds(10);  // from what records tell until the hand-over, at most

/// On the mean of all values.
double bytes_per_value(const CodecMap& codecs) {
  const Range all{0, codecs.length()};
  return static_cast<double>(codecs.encoded_bytes(all)) / static_cast<double>(codecs.length());
}

matchmaking::Plan plan_segments(const std::vector<matchmaking::Applicant>& roster, std::size_t values,
                                const averaging::LoadOptions& options, const averaging::ClaimedRates& rates,
                                const TooLong& too_long) {
  std::vector<averaging::MemberLoad> loads;
  std::vector<PeerId> ids;
  for (const matchmaking::Applicant& peer : roster) {
    ids.push_back(peer.id);
    averaging::MemberLoad load;
    load.up_bytes_per_s = static_cast<double>(peer.up_bytes_per_s);
    load.down_bytes_per_s = static_cast<double>(peer.down_bytes_per_s);
    load.sends = peer.role != matchmaking::Role::auxiliary;
    load.reachable = peer.role != matchmaking::Role::client;
    loads.push_back(load);
  }
  const auto solved = averaging::plan_load(rates.believed(ids, std::move(loads), options), values, options);
  matchmaking::Plan plan;
  if (solved) plan.units = solved->units;  // else nobody can own a segment, and the group's check says so
  plan.coarse = solved && too_long && too_long(from_seconds(solved->seconds));
  plan.chunk_units = chunk_units_for(plan.units);
  return plan;
}

}  // namespace

bool holds_up(Duration round, double samples_per_s, std::uint64_t target_batch) {
  const double computed_meanwhile = to_seconds(round) * samples_per_s;
  return round >= kHoldsUpMin && computed_meanwhile >= kHoldsUpShare * static_cast<double>(target_batch);
}

averaging::LoadOptions load_options(const MemberOptions& options, std::uint32_t round) {
  averaging::LoadOptions load = options.load;
  load.part_bytes_per_value = bytes_per_value(averaging::part_codecs(options.codecs, round));
  load.result_bytes_per_value = bytes_per_value(options.codecs);
  return load;
}

matchmaking::Planner planner(const MemberOptions& options, const averaging::ClaimedRates& rates, TooLong too_long) {
  return [values = options.codecs.length(), first = load_options(options, 1), later = load_options(options, 2), &rates,
          too_long = std::move(too_long)](const auto& roster, std::uint32_t round) {
    return plan_segments(roster, values, round == 1 ? first : later, rates, too_long);
  };
}

ClaimedLine claimed_line(const MemberOptions& options, const progress::Tracker& tracker, const net::Endpoint& net) {
  double up = 0;
  double down = 0;
  for (const auto& [peer, record] : tracker.others()) {
    const net::LinkState link = net.link(peer);
    up = std::max(up, link.up_bytes_per_s);
    down = std::max(down, link.down_bytes_per_s);
  }
  const net::Caps caps = net.caps();
  return {static_cast<std::uint64_t>(averaging::claimed_rate(up, caps.up, options.load)),
          static_cast<std::uint64_t>(averaging::claimed_rate(down, caps.down, options.load))};
}

matchmaking::MatchmakerOptions matchmaker_options(const MemberOptions& options, progress::Tracker& tracker,
                                                  const averaging::ClaimedRates& rates, net::Endpoint& net) {
  matchmaking::MatchmakerOptions out;
  out.key = options.run_id + "/gradients/0/";
  out.schema = options.schema;
  out.codec_map = averaging::codec_map_digest(options.codecs);
  if (const CodecMap* coarse = options.codecs.coarse()) out.coarse_codec_map = averaging::codec_map_digest(*coarse);
  out.values = options.codecs.length();
  out.role = options.role;
  out.incarnation = options.incarnation;
  out.plan = planner(options, rates, [&tracker, target = options.target_batch](Duration round) {
    return holds_up(round, tracker.samples_per_s(), target);
  });
  // what counts towards the begin is what is believed now; a weight has also the time until it is handed over
  out.samples_believed = [&tracker](const PeerId& peer) { return tracker.samples_max(peer); };
  // who gathered while rounds failed has more than its records allow, and yet no lie in hand
  out.weight_max = [&tracker, target = options.target_batch](const PeerId& peer) {
    return std::max(target, tracker.samples_max(peer, kHandOverTime));
  };
  out.declined = [&net](const matchmaking::Group& group) { averaging::decline_round(net, group); };
  return out;
}

SeatingOptions seating_options(const MemberOptions& options) {
  SeatingOptions out;
  out.group_size_max = options.group_size_max;
  out.forced = options.grid;
  return out;
}

averaging::AllReduceOptions all_reduce_options(const MemberOptions& options) {
  averaging::AllReduceOptions out = options.all_reduce;
  out.suspicion.hand_over = options.cut_wait;
  out.values_are_finite = true;  // Trainer::hand_over gives no others
  return out;
}

LegacyOptions legacy_options(const MemberOptions& options) {
  LegacyOptions out;
  out.samples_max = (matchmaking::kTargetsPerPeer - 1) * options.target_batch;  // then it computes no further either
  out.ranges_max = averaging::work_ranges_max(matchmaking::kGroupSizeMax) / 2;  // and goes on, in ranges of its own
  return out;
}

std::uint64_t weight_min(const MemberOptions& options) {
  return static_cast<std::uint64_t>(options.commit_fraction * static_cast<double>(options.target_batch));
}

}  // namespace collab::epoch
