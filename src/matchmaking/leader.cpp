#include "matchmaking/leader.hpp"

#include <algorithm>
#include <cassert>
#include <functional>

namespace collab::matchmaking {

Leader::Leader(const Terms& terms) : terms_(terms), attempt_(terms.wanted.attempt) {}

void Leader::presume(const Standing& standing, TimePoint now) {
  if (standing.id == terms_.self || full()) return;
  Follower follower;
  follower.applicant.id = standing.id;
  follower.applicant.role = standing.role;
  follower.applicant.incarnation = standing.incarnation;
  follower.applicant.previous = terms_.wanted.previous;
  follower.applicant.dropped = terms_.wanted.dropped;
  follower.since = now;
  members_.emplace(standing.id, follower);
}

std::optional<RefusalReason> unfit(const Terms& terms, const wire::Join& join) {
  const Wanted& wanted = terms.wanted;
  if (join.key != terms.options.key || join.epoch != wanted.epoch || join.round != wanted.round)
    return RefusalReason::other_round;
  if (join.schema != terms.options.schema) return RefusalReason::schema_differs;
  if (join.codec_map != terms.options.codec_map) return RefusalReason::codec_map_differs;
  if (join.attempt > wanted.attempt + kAttemptsAhead) return RefusalReason::other_round;
  if (join.role > static_cast<std::uint8_t>(Role::auxiliary)) return RefusalReason::bad_plan;
  return std::nullopt;
}

std::optional<RefusalReason> Leader::on_join(const PeerId& from, const wire::Join& join, TimePoint now) {
  assert(from != terms_.self);
  if (const auto reason = unfit(terms_, join)) return reason;
  const auto role = static_cast<Role>(join.role);
  const bool auxiliary = role == Role::auxiliary;
  if (!terms_.has_place(from, role)) return RefusalReason::other_round;
  const auto known = members_.find(from);
  const bool crowded = auxiliary && terms_.foreseen() && auxiliaries() >= terms_.auxiliaries_max();
  if (known == members_.end() && (full() || crowded)) return RefusalReason::full;
  if (known != members_.end() && join.incarnation < known->second.applicant.incarnation)
    return RefusalReason::former_life;

  Follower follower;
  follower.applicant = {from,         static_cast<Role>(join.role),
                        join.up,      join.down,
                        join.samples, join.previous,
                        join.dropped, join.incarnation};
  if (auxiliary) follower.applicant.previous = {};  // it speaks for nobody
  follower.joined = true;
  follower.electorate = join.electorate;
  follower.since = now;
  const bool again = known != members_.end() && join.incarnation == known->second.applicant.incarnation;
  if (again) follower.elsewhere = known->second.elsewhere;
  members_[from] = follower;
  learn(join.attempt);
  return std::nullopt;
}

void Leader::learn(std::uint32_t attempt) {
  if (attempt <= terms_.wanted.attempt + kAttemptsAhead) attempt_ = std::max(attempt_, attempt);
}

void Leader::on_samples(const PeerId& from, const wire::Samples& told) {
  const auto member = members_.find(from);
  if (member == members_.end()) return;
  member->second.applicant.samples = told.total;
  member->second.electorate = told.electorate;
  member->second.elsewhere = std::min(told.elsewhere, terms_.wanted.target_samples);
}

std::uint64_t Leader::elsewhere() const {
  if (!terms_.foreseen()) return elsewhere_;
  std::vector<std::uint64_t> read{elsewhere_};
  read.reserve(kGroupSizeMax);
  for (const auto& [id, member] : members_)
    if (member.applicant.role != Role::auxiliary) read.push_back(member.elsewhere);
  read.resize(std::max(read.size(), terms_.wanted.expected.size() + 1));  // who is not there yet has read nothing
  const auto middle = read.begin() + static_cast<std::ptrdiff_t>(read.size() / 2);
  std::nth_element(read.begin(), middle, read.end(), std::greater<>());
  return std::max(elsewhere_, *middle);
}

std::vector<PeerId> Leader::followers() const {
  std::vector<PeerId> ids;
  for (const auto& [id, member] : members_) ids.push_back(id);
  return ids;
}

bool Leader::has_joined_followers() const {
  return std::any_of(members_.begin(), members_.end(), [](const auto& entry) { return entry.second.joined; });
}

std::vector<PeerId> Leader::lost(const Links& links, TimePoint now) const {
  std::vector<PeerId> ids;
  for (const auto& [id, member] : members_) {
    if (is_lost(links.state(id), member.since, now, terms_.options.patience)) ids.push_back(id);
  }
  return ids;
}

std::vector<PeerId> Leader::take_unheard(TimePoint now) {
  std::vector<PeerId> ids;
  for (auto& [id, member] : members_) {
    if (member.joined || member.unheard || now < member.since + terms_.options.patience.expected_max) continue;
    member.unheard = true;
    ids.push_back(id);
  }
  return ids;
}

std::uint64_t Leader::bound_of(const PeerId& peer) const {
  const std::uint64_t bound = std::max<std::uint64_t>(1, terms_.options.weight_max(peer));
  return terms_.weight_max() == 0 ? bound : std::min(bound, terms_.weight_max());
}

std::uint64_t Leader::believed_of(const PeerId& peer) const {
  if (!terms_.options.samples_believed) return bound_of(peer);
  const std::uint64_t believed = terms_.options.samples_believed(peer);  // never more than its weight may be
  return terms_.weight_max() == 0 ? believed : std::min(believed, terms_.weight_max());
}

std::uint64_t Leader::samples(std::uint64_t own) const {
  const std::set<PeerId> without = refusing();
  std::uint64_t sum = own;
  for (const auto& [id, member] : members_) {
    const bool sends = member.applicant.role != Role::auxiliary && !without.contains(id);
    if (sends) sum += std::min(member.applicant.samples, believed_of(id));
  }
  return sum;
}

/// By what its members say, whatever of it is believed. Asked with each of their messages, most of which are too early.
bool Leader::may_have_batch(std::uint64_t own) const {
  const std::uint64_t target = terms_.wanted.target_samples;
  std::uint64_t told = std::min(own, target) + std::min(elsewhere(), target);
  for (const auto& [id, member] : members_) told += std::min(member.applicant.samples, target);
  return told >= target;
}

std::set<PeerId> Leader::refusing() const {
  std::set<PeerId> refusing;
  for (bool more = true; more;) {  // without one of them the group is smaller for all others too
    more = false;
    const std::size_t votes = 2 * senders(refusing);
    for (const auto& [id, member] : members_)
      if (votes <= member.electorate) more = refusing.insert(id).second || more;
  }
  return refusing;
}

std::size_t Leader::senders(const std::set<PeerId>& without) const {
  const auto sends = [&](const auto& entry) {
    return entry.second.applicant.role != Role::auxiliary && !without.contains(entry.first);
  };
  const auto others = std::count_if(members_.begin(), members_.end(), sends);
  return static_cast<std::size_t>(others) + (terms_.options.role == Role::auxiliary ? 0 : 1);
}

/// Self included.
std::size_t Leader::auxiliaries() const {
  return members_.size() + 1 - senders({});
}

std::set<std::uint32_t> Leader::unvoiced() const {
  if (!terms_.wanted.voiced) return {};
  std::set<std::uint32_t> digits = terms_.digits();
  if (terms_.wanted.previous != Digest{}) digits.erase(terms_.wanted.dropped);
  const std::set<PeerId> without = refusing();
  for (const auto& [id, member] : members_)
    if (member.applicant.previous != Digest{} && !without.contains(id)) digits.erase(member.applicant.dropped);
  return digits;
}

std::optional<Group> Leader::begin(std::uint64_t own_samples, bool waiting_for_others, TimePoint now) const {
  if (!may_have_batch(own_samples)) return std::nullopt;
  if (samples(own_samples) + elsewhere() < terms_.wanted.target_samples || !has_quorum()) return std::nullopt;
  if (waiting_for_others && !full() && now < gather_deadline()) return std::nullopt;
  const std::set<PeerId> without = refusing();
  if (members_.size() == without.size() && (waiting_for_others || !members_.empty() || !terms_.wanted.alone))
    return std::nullopt;
  if (!unvoiced().empty()) return std::nullopt;

  std::vector<Applicant> roster;
  for (const auto& [id, member] : members_)
    if (!without.contains(id)) roster.push_back(member.applicant);
  Applicant self{terms_.self, terms_.options.role,    terms_.up_bytes_per_s, terms_.down_bytes_per_s,
                 own_samples, terms_.wanted.previous, terms_.wanted.dropped, terms_.options.incarnation};
  const auto before = [](const Applicant& a, const Applicant& b) { return a.id < b.id; };
  roster.insert(std::upper_bound(roster.begin(), roster.end(), self, before), self);

  const Plan plan = terms_.options.plan(roster, terms_.wanted.round);
  assert(plan.units.size() == roster.size());
  Group group;
  group.topic = topic(terms_.options.key, terms_.wanted.epoch, terms_.wanted.round);
  group.epoch = terms_.wanted.epoch;
  group.round = terms_.wanted.round;
  group.attempt = attempt_;
  group.chunk_units = plan.chunk_units;
  group.weight_min = terms_.wanted.weight_min;
  group.electorate = static_cast<std::uint32_t>(terms_.wanted.electorate);
  group.codec_map = terms_.options.codec_map;
  if (plan.coarse) group.codec_map = terms_.options.coarse_codec_map.value_or(group.codec_map);
  group.schema = terms_.options.schema;
  std::map<PeerId, std::uint32_t> dropped;
  for (std::size_t rank = 0; rank < roster.size(); ++rank) {
    const Applicant& peer = roster[rank];
    dropped.emplace(peer.id, peer.dropped);
    const std::uint64_t weight_max = peer.role == Role::auxiliary ? 0 : bound_of(peer.id);
    group.roster.push_back({peer.id, peer.role, weight_max, peer.previous, plan.units[rank], 0, peer.incarnation});
  }
  return seal(std::move(group), dropped);
}

NoGroup Leader::lacking() const {
  if (members_.empty()) return NoGroup::alone;
  return has_quorum() ? NoGroup::late : NoGroup::no_quorum;
}

}  // namespace collab::matchmaking
