#include "matchmaking/follower.hpp"

#include <algorithm>

namespace collab::matchmaking {

wire::Join Follower::ask(const PeerId& leader, std::uint64_t own_samples, TimePoint now) {
  leader_ = leader;
  accepted_ = false;
  asked_at_ = now;
  leader_deadline_ = TimePoint::max();
  ask_again_at_.reset();
  return join(own_samples);
}

wire::Join Follower::join(std::uint64_t own_samples) const {
  wire::Join join;
  join.key = terms_.options.key;
  join.epoch = terms_.wanted.epoch;
  join.round = terms_.wanted.round;
  join.attempt = terms_.wanted.attempt;
  join.schema = terms_.options.schema;
  join.codec_map = terms_.options.codec_map;
  join.role = static_cast<std::uint8_t>(terms_.options.role);
  join.up = terms_.up_bytes_per_s;
  join.down = terms_.down_bytes_per_s;
  join.samples = own_samples;
  join.previous = terms_.wanted.previous;
  join.dropped = terms_.wanted.dropped;
  join.incarnation = terms_.options.incarnation;
  join.electorate = static_cast<std::uint32_t>(terms_.wanted.electorate);
  return join;
}

void Follower::on_accepted(const wire::Accepted& accepted, TimePoint now) {
  accepted_ = true;
  redirects_ = 0;
  ask_again_at_.reset();
  leader_deadline_ = now + std::chrono::milliseconds(accepted.deadline_ms);
}

Follower::Next Follower::on_time(const Links& links, TimePoint now, std::string_view& why) const {
  if (!leader_) return Next::wait;
  const Patience& patience = terms_.options.patience;
  const net::LinkState link = links.state(*leader_);
  why = kSilent;
  if (link.connected && link.lost_at > asked_at_) return Next::ask_again;
  if (accepted_) {
    if (is_lost(link, asked_at_, now, patience)) return Next::strike;
    why = "never began";
    return now >= leader_deadline_ + silence_limit(link, patience) ? Next::strike : Next::wait;
  }
  if (is_lost(link, asked_at_, now, patience)) return Next::strike;
  if (ask_again_at_) return now >= *ask_again_at_ ? Next::ask_again : Next::wait;
  why = "no answer";
  const Duration limit = terms_.expects(*leader_) ? patience.expected_max : patience.absent_max;
  return now - asked_at_ >= std::max(limit, 4 * link.rtt) ? Next::strike : Next::wait;
}

std::variant<Group, RefusalReason> judge(const Terms& terms, const wire::Begin& begin) {
  const Wanted& wanted = terms.wanted;
  if (begin.epoch != wanted.epoch || begin.round != wanted.round) return RefusalReason::other_round;
  if (begin.topic != topic(terms.options.key, wanted.epoch, wanted.round)) return RefusalReason::other_round;
  if (begin.schema != terms.options.schema) return RefusalReason::schema_differs;
  if (begin.codec_map != terms.options.codec_map && begin.codec_map != terms.options.coarse_codec_map)
    return RefusalReason::codec_map_differs;
  auto group = wire::from_wire(begin);
  if (!group || !check(*group, terms.self, terms.options.values)) return RefusalReason::bad_plan;
  if (group->weight_min != wanted.weight_min) return RefusalReason::bad_plan;
  const Member& self = group->roster[*group->rank_of(terms.self)];
  if (self.role != terms.options.role) return RefusalReason::other_role;
  if (self.incarnation != terms.options.incarnation) return RefusalReason::former_life;
  if (group->attempt > wanted.attempt + kAttemptsAhead) return RefusalReason::bad_plan;
  const auto stranger = [&](const Member& member) {
    return member.id != terms.self && !terms.has_place(member.id, member.role);
  };
  if (std::any_of(group->roster.begin(), group->roster.end(), stranger)) return RefusalReason::bad_plan;
  const auto beyond = [&](const Member& member) {
    return terms.weight_max() > 0 && member.weight_max > terms.weight_max();
  };
  if (std::any_of(group->roster.begin(), group->roster.end(), beyond)) return RefusalReason::weight_refused;
  const auto sends = [](const Member& member) { return member.role != Role::auxiliary; };
  const auto senders = std::count_if(group->roster.begin(), group->roster.end(), sends);
  if (2 * static_cast<std::size_t>(senders) <= wanted.electorate) return RefusalReason::too_few;
  return std::move(*group);
}

}  // namespace collab::matchmaking
