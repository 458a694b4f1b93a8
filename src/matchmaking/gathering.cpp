#include "matchmaking/gathering.hpp"

#include <algorithm>
#include <utility>

namespace collab::matchmaking {
namespace {

constexpr std::string_view kUnreachable = "unreachable";
constexpr unsigned kDoublingsMax = 5;          // of what a lie is held against who told it
constexpr std::size_t kBegunMax = 16;          // groups of one round that are declined, for each is remembered
constexpr std::uint64_t kElsewhereParts = 16;  // of a batch: when the others have one more, or less, a leader is told

}  // namespace

Gathering::Gathering(Terms terms, Links links, Start start, Carried carried, TimePoint now)
    : terms_(std::move(terms)),
      links_(std::move(links)),
      start_(std::move(start)),
      carried_(std::move(carried)),
      candidates_(terms_, links_),
      leader_(terms_),
      follower_(terms_),
      own_samples_(start_.own_samples),
      // in later rounds only a peer itself can tell with whom it committed the round before; and on a grid the round of
      // the group was not the last: who is on a slower line is in a later one still
      may_presume_(start_.direct && !start_.again && terms_.wanted.attempt == 0 && terms_.wanted.round == 1 &&
                   !terms_.foreseen()),
      last_time_(now) {
  for (const auto& [peer, lied] : carried_.distrusted) {
    if (now < lied.until) candidates_.strike(peer, "distrusted");
  }
  const auto stranger = [&](const Standing& one) { return terms_.foreseen() && !terms_.expects(one.id); };
  std::erase_if(start_.last_group, stranger);
  const Sureness sureness = start_.direct ? Sureness::standing : Sureness::contact;
  for (const Standing& one : start_.last_group) candidates_.add({one.id, one.role != Role::client, sureness});
  for (const Candidate& candidate : start_.candidates) add_record(candidate);
  for (const Expected& one : terms_.wanted.expected)
    candidates_.add({one.id, one.role != Role::client, Sureness::declared});
  for (const PeerId& id : start_.late) add_record({id, /*reachable=*/false, Sureness::declared});  // until it says more
  leader_.on_samples_elsewhere(start_.samples_elsewhere);
  choose(now);
  may_presume_ = false;  // the promise of a standing group is to its first leader only
  for (const auto& [from, join] : std::exchange(carried_.early, {})) on(from, join, now);
  maybe_begin(now);
}

void Gathering::on_message(const PeerId& from, const wire::Header& message, TimePoint now) {
  if (from == terms_.self) return;
  std::visit([&](const auto& body) { on(from, body, now); }, message);
  maybe_begin(now);
}

void Gathering::on_unreachable(const PeerId& peer, TimePoint now) {
  if (outcome_) return;
  strike(peer, links_.state(peer).connected ? "does not answer" : kUnreachable, now);
  maybe_begin(now);
}

void Gathering::on_over(const PeerId& peer, TimePoint now) {
  if (outcome_) return;
  note(RefusalReason::begun);
  strike(peer, "its search is over", now);
  give_up_if_hopeless();
  maybe_begin(now);
}

void Gathering::on_candidates(const std::vector<Candidate>& candidates, TimePoint now) {
  if (outcome_) return;
  for (const Candidate& candidate : candidates) add_record(candidate);
  choose(now);
  maybe_begin(now);
}

void Gathering::on_samples(std::uint64_t own_total, TimePoint now) {
  if (outcome_) return;
  own_samples_ = own_total;
  if (follower_.leader()) send(*follower_.leader(), told());
  maybe_begin(now);
}

wire::Samples Gathering::told() const {
  wire::Samples samples;
  samples.total = own_samples_;
  samples.electorate = static_cast<std::uint32_t>(terms_.wanted.electorate);
  samples.elsewhere = leader_.read_elsewhere();
  return samples;
}

void Gathering::on_samples_elsewhere(std::uint64_t total, TimePoint now) {
  leader_.on_samples_elsewhere(total);
  const std::uint64_t change = std::max(total, elsewhere_told_) - std::min(total, elsewhere_told_);
  if (!outcome_ && follower_.leader() && change > terms_.wanted.target_samples / kElsewhereParts) {
    elsewhere_told_ = total;
    send(*follower_.leader(), told());
  }
  maybe_begin(now);
}

void Gathering::on_electorate(std::size_t count, TimePoint now) {
  const bool news = std::exchange(terms_.wanted.electorate, count) != count;
  if (news && !outcome_ && follower_.leader()) send(*follower_.leader(), told());
  maybe_begin(now);
}

void Gathering::on_time(TimePoint now) {
  notice_standstill(now);
  last_time_ = now;
  if (outcome_ || now < lenient_until_) return;
  forgive_connected(now);
  check_follower(now);
  check_followers(now);
  choose(now);
  maybe_begin(now);
}

void Gathering::expire(TimePoint now) {
  if (outcome_) return;
  maybe_begin(now);
  if (outcome_) return;
  fail(refused_for_ ? *refused_for_ : leading_ ? leader_.lacking() : NoGroup::late);
}

void Gathering::sit_out() {
  if (!outcome_ || !*outcome_) return;
  wire::Leave leave;
  leave.sits_out = true;
  for (const Member& member : outcome_->value().roster) {
    if (member.id != terms_.self) send(member.id, leave);
  }
}

void Gathering::settled(TimePoint now) {
  settled_ = true;
  for (const auto& [from, join] : std::exchange(carried_.early, {})) on(from, join, now);
}

void Gathering::leave() {
  wire::Leave leave;
  leave.for_good = true;
  std::set<PeerId> told;
  for (const auto& [id, candidate] : candidates_.known()) {
    if (candidate.sureness != Sureness::contact && !candidates_.struck(id)) told.insert(id);
  }
  for (const PeerId& id : leader_.followers()) told.insert(id);
  if (follower_.leader()) told.insert(*follower_.leader());
  for (const PeerId& id : told) send(id, leave);
  follower_.forget();
  leader_.resign();
  leading_ = false;
  if (!outcome_) outcome_ = Result<Group>(NoGroup::left);
}

void Gathering::add_record(const Candidate& candidate) {
  if (terms_.has_place(candidate.id, Role::node)) candidates_.add(candidate);
}

bool Gathering::asked_again() const {
  if (!outcome_ || !*outcome_ || settled_) return false;
  return !carried_.early.empty() || leader_.attempt() > outcome_->value().attempt;
}

// ---- choosing a side

void Gathering::choose(TimePoint now) {
  if (outcome_) return;
  if (follower_.leader()) return hint();
  // a standing group does not run after old acquaintances, nor does a leader whom others trust
  const bool settled = start_.direct || terms_.foreseen() || (leading_ && leader_.has_joined_followers());
  auto best = candidates_.smallest(settled ? Sureness::declared : Sureness::contact);
  if (!best && terms_.foreseen()) best = choose_auxiliary(now);
  if (best == terms_.self) {
    if (!leading_) lead(now);
    if (!terms_.lends() || leader_.has_senders()) invite(now);
    return;
  }
  if (leading_) resign(*best);
  if (best) ask(*best, now);
}

void Gathering::hint() {
  const auto best = candidates_.smallest(Sureness::declared);
  const PeerId leader = *follower_.leader();
  if (!best || *best == terms_.self || best == hinted_ || !candidates_.before(*best, leader)) return;
  hinted_ = best;
  // one that took us for dead would not tell us when it gives way
  if (follower_.accepted()) send(leader, join());
  redirect(leader, *best);
}

void Gathering::lead(TimePoint now) {
  leading_ = true;
  if (!may_presume_) return;
  for (const Standing& one : start_.last_group) {
    if (links_.state(one.id).connected && !candidates_.struck(one.id)) leader_.presume(one, now);
  }
}

/// When our own loop stood still, everybody looks silent, and what we counted on may be over.
void Gathering::notice_standstill(TimePoint now) {
  const Patience& patience = terms_.options.patience;
  if (now - last_time_ <= patience.blocked) return;
  last_time_ = now;
  lenient_until_ = now + patience.silence_min;
  if (leading_ && !outcome_) confirm_followers(now);
}

/// They may have taken us for dead meanwhile, and said so on a line that broke. Who follows us still joins anew.
void Gathering::confirm_followers(TimePoint now) {
  const std::vector<PeerId> before = leader_.followers();
  leader_.resign();
  for (const PeerId& id : before) {
    invited_.insert_or_assign(id, now);
    redirect(id, terms_.self);
  }
}

void Gathering::invite(TimePoint now) {
  for (const auto& [id, candidate] : candidates_.known()) {
    // who does not lead may follow: a client that was asked by all, and has asked all of them in vain
    const auto struck = candidates_.struck().find(id);
    const bool may_follow =
        struck == candidates_.struck().end() || struck->second == sentence(RefusalReason::not_leading);
    if (!may_follow || leader_.has(id) || invited_.contains(id)) continue;
    if (start_.direct && candidate.sureness == Sureness::contact) continue;
    invited_.emplace(id, now);
    redirect(id, terms_.self);
  }
}

void Gathering::resign(const PeerId& to) {
  for (const PeerId& id : leader_.followers()) {
    if (id != to) redirect(id, to);
  }
  leader_.resign();
  invited_.clear();
  leading_ = false;
}

void Gathering::ask(const PeerId& leader, TimePoint now) {
  elsewhere_told_ = 0;
  wire::Join join = follower_.ask(leader, own_samples_, now);
  join.attempt = leader_.attempt();
  send(leader, std::move(join));
}

/// Nobody who is expected leads. Who had not come to serve this cell when it was asked may do so by now, and nobody
/// else would tell: so it is asked again.
std::optional<PeerId> Gathering::choose_auxiliary(TimePoint now) {
  const bool again = now >= auxiliaries_asked_at_ + terms_.options.patience.absent_max;
  if (again) auxiliaries_asked_at_ = now;
  for (const PeerId& auxiliary : terms_.wanted.auxiliaries) {
    candidates_.add({auxiliary, /*reachable=*/true, Sureness::declared});
    if (again && !left_.contains(auxiliary) && !distrusts(auxiliary, now)) candidates_.forgive(auxiliary);
  }
  return candidates_.smallest(Sureness::declared);
}

// ---- what others say

void Gathering::on(const PeerId& from, const wire::Join& join, TimePoint now) {
  if (join.key.size() > wire::kKeyBytesMax) return refuse(from, RefusalReason::other_round);
  if (outcome_) return answer_after_outcome(from, join);
  const bool can_lead = join.role != static_cast<std::uint8_t>(Role::client);
  if (!leading_ || (can_lead && candidates_.before(from, terms_.self))) {
    // every wait points to a smaller place
    const auto& leader = follower_.leader();
    if (leader && *leader != from && candidates_.before(*leader, terms_.self)) return redirect(from, *leader);
    return refuse(from, RefusalReason::not_leading);
  }
  if (const auto reason = leader_.on_join(from, join, now)) {
    refuse(from, *reason);
    if (*reason == RefusalReason::full || *reason == RefusalReason::former_life) return;
    note(*reason);
    strike(from, sentence(*reason), now);
    return give_up_if_hopeless();
  }
  if (!distrusts(from, now)) candidates_.forgive(from);
  candidates_.add({from, can_lead, Sureness::declared});
  invited_.erase(from);
  if (terms_.lends()) choose(now);  // who asks first tells it that the others come
  if (cut_off_ && carried_.with_us.contains(from) && !first_back_) first_back_ = now;
  const auto left_ms = std::chrono::duration_cast<std::chrono::milliseconds>(terms_.wanted.deadline - now).count();
  wire::Accepted accepted;
  accepted.deadline_ms = static_cast<std::uint32_t>(std::clamp<std::int64_t>(left_ms, 0, 0xFFFFFFFF));
  send(from, accepted);
}

void Gathering::answer_after_outcome(const PeerId& from, const wire::Join& join) {
  if (!*outcome_) return send(from, wire::Leave());
  if (const auto reason = unfit(terms_, join)) return refuse(from, *reason);
  const bool of_our_try = join.attempt <= outcome_->value().attempt;
  if (of_our_try || settled_) {
    if (of_our_try && in_our_group(from, join.incarnation)) return send(from, wire::to_wire(outcome_->value()));
    if (late_.size() < kGroupSizeMax) late_.insert(from);
    return refuse_begun(from);
  }
  // our round may fail for us too; then our next try answers
  if (carried_.early.size() < kGroupSizeMax || carried_.early.contains(from)) carried_.early[from] = join;
}

/// Then it asks, or invites, because its leader's line broke before the Begin was there: anyone's word of it is as
/// good, and without it the group would wait for a peer that lives and knows of no round.
bool Gathering::in_our_group(const PeerId& peer, std::uint64_t incarnation) const {
  const auto rank = outcome_->value().rank_of(peer);
  return rank && outcome_->value().roster[*rank].incarnation == incarnation;
}

void Gathering::on(const PeerId& from, const wire::Samples& samples, TimePoint now) {
  const auto early = carried_.early.find(from);
  if (early != carried_.early.end()) {
    early->second.samples = samples.total;
    early->second.electorate = samples.electorate;
  }
  if (!leading_) return;
  if (!outcome_ && !leader_.has(from)) win_back(from, now);
  leader_.on_samples(from, samples);
}

/// It follows us still: its line broke, for which we struck it, and was there again before it looked. It would tell its
/// samples, and wait, until the deadline.
void Gathering::win_back(const PeerId& peer, TimePoint now) {
  if (!candidates_.struck(peer) || left_.contains(peer) || distrusts(peer, now)) return;
  const auto known = candidates_.known().find(peer);
  if (known == candidates_.known().end()) return;
  if (known->second.reachable && candidates_.before(peer, terms_.self)) return;  // it was not our follower
  candidates_.forgive(peer);
  invited_.insert_or_assign(peer, now);
  redirect(peer, terms_.self);
}

void Gathering::on(const PeerId& from, const wire::Accepted& accepted, TimePoint now) {
  if (outcome_ && *outcome_) return;
  if (follower_.leader() == from) return follower_.on_accepted(accepted, now);
  send(from, wire::Leave());  // it counts on us, but we have gone elsewhere
}

void Gathering::on(const PeerId& from, const wire::Redirect& message, TimePoint now) {
  const PeerId named{message.leader};
  if (named == terms_.self || !terms_.has_place(named, Role::auxiliary)) return;
  if (outcome_) {
    if (from != named) return;
    if (!*outcome_) return send(from, wire::Leave());
    const bool of_our_try = message.attempt <= outcome_->value().attempt;
    if (of_our_try && in_our_group(from, message.incarnation)) return send(from, wire::to_wire(outcome_->value()));
    if (of_our_try) return refuse_begun(from);
    return leader_.learn(message.attempt);  // an invitation to our next try, should this round fail
  }
  leader_.learn(message.attempt);
  if (follower_.leader() == from && from != named) return follow_redirect(from, named, now);
  // hearsay costs us a wait when it is wrong, so nobody has many words
  if (from != named &&
      (hearsay_.size() > Candidates::kCandidatesMax || ++hearsay_[from] > terms_.options.patience.redirects_max))
    return;
  if (from == named && !distrusts(from, now)) candidates_.forgive(from);
  candidates_.add({named, true, Sureness::declared});
  const auto mine = leading_ ? std::optional<PeerId>(terms_.self) : follower_.leader();
  // it leads by now; or it had accepted us, and has struck us since
  if (from == named && mine == named && (follower_.is_to_ask_again() || follower_.accepted())) return ask(named, now);
  if (from == named && mine && *mine != named && candidates_.before(*mine, named)) redirect(from, *mine);
  choose(now);
}

void Gathering::follow_redirect(const PeerId& leader, const PeerId& to, TimePoint now) {
  if (!candidates_.before(to, leader)) return distrust(leader, "redirects to a larger place", now);
  if (!follower_.count_redirect()) return strike(leader, "too many redirects", now);
  candidates_.add({to, true, Sureness::declared});
  if (candidates_.struck(to) || !links_.can_reach(to)) return follower_.ask_later(now);
  ask(to, now);
}

void Gathering::on(const PeerId& from, const wire::Refused& refused, TimePoint now) {
  if (outcome_) return;
  const auto reason = static_cast<RefusalReason>(refused.reason);
  const bool by_leader = follower_.leader() == from;
  if (!by_leader && !invited_.contains(from) && !leader_.has(from)) return;
  if (reason == RefusalReason::begun) {
    has_begun(refused.attempt);
    return missed(from, now);
  }
  note(reason);
  strike(from, sentence(reason), now);
  give_up_if_hopeless();
}

void Gathering::on(const PeerId& from, const wire::Leave& leave, TimePoint now) {
  carried_.early.erase(from);
  // a plain one that a Begin has crossed says nothing of the next round: its sender is in the group, or holds no result
  const bool sits_out = leave.sits_out && outcome_ && *outcome_ && outcome_->value().rank_of(from);
  if (leave.sits_out && !outcome_ && sits_out_.size() < kGroupSizeMax) sits_out_.insert(from);
  if ((leave.for_good || sits_out) && left_.size() < Candidates::kCandidatesMax) left_.insert(from);
  if (outcome_) return;
  leader_.drop(from);
  invited_.erase(from);
  if (leave.for_good || follower_.leader() == from) strike(from, "left", now);
}

void Gathering::on(const PeerId& from, const wire::Begin& begin, TimePoint now) {
  if ((outcome_ && !*outcome_) || begin.attempt < terms_.wanted.attempt) return decline(from, begin);
  const auto group = wire::from_wire(begin);
  if (group && !group->rank_of(from)) return refuse(from, RefusalReason::bad_plan);  // nobody begins what it is not in
  const bool known = group && carried_.begun.contains(group->id);
  if (outcome_ && known) return;
  const bool promised = follower_.leader() && *follower_.leader() != from && follower_.accepted();
  if (outcome_ || promised || (leading_ && leader_.has_joined_followers())) {
    refuse(from, RefusalReason::joined_elsewhere);
    return decline(from, begin);
  }
  if (known) return missed(from, now);  // nobody there waits for us any more

  if (2 * strangers_in(begin) > begin.roster.size()) {
    refuse(from, RefusalReason::bad_plan);
    return distrust(from, "begins with strangers", now);
  }
  const auto verdict = judge(terms_, begin);
  if (const auto* reason = std::get_if<RefusalReason>(&verdict)) {
    refuse(from, *reason);
    const bool honest = *reason == RefusalReason::too_few || *reason == RefusalReason::former_life ||
                        *reason == RefusalReason::other_role;
    if (!honest) return distrust(from, sentence(*reason), now);
    decline(from, begin);
    if (*reason == RefusalReason::other_role) return missed(from, now);
    note(RefusalReason::begun);  // an honest leader that knows less than we do
    return give_up_if_hopeless();
  }
  take_group(from, std::get<Group>(verdict));
}

/// Of whom this peer has neither a record nor an address. A newcomer may be one, for records take a while; a group of
/// them would only be waited for.
std::size_t Gathering::strangers_in(const wire::Begin& begin) const {
  const auto is_stranger = [this](const auto& key) {
    const PeerId id{key};
    return id != terms_.self && !candidates_.known().contains(id) && !terms_.expects(id) && !links_.can_reach(id);
  };
  return static_cast<std::size_t>(std::count_if(begin.roster.begin(), begin.roster.end(), is_stranger));
}

void Gathering::take_group(const PeerId& from, Group group) {
  if (follower_.leader() && *follower_.leader() != from) send(*follower_.leader(), wire::Leave());
  if (leading_) {
    leader_.resign();
    leading_ = false;
  }
  follower_.forget();
  begun(std::move(group));
}

/// It counts on us, who have left it, changed our role or joined another: what we said of that and its Begin have
/// crossed. Its members would wait for us until they had to think that we are frozen. The next try is another one, so
/// that it is not taken for theirs.
void Gathering::decline(const PeerId& from, const wire::Begin& begin) {
  auto group = wire::from_wire(begin);
  const bool of_this_round = begin.epoch == terms_.wanted.epoch && begin.round == terms_.wanted.round;
  if (!of_this_round || !group || !check(*group, terms_.self, terms_.options.values)) return;
  if (group->roster[*group->rank_of(terms_.self)].incarnation != terms_.options.incarnation) return;
  // what our leader has begun it sends us itself: a groupmate that is sooner must not keep us out
  const auto& leader = follower_.leader();
  if (leader && *leader != from && group->rank_of(*leader)) return;
  if (carried_.begun.size() >= kBegunMax || !carried_.begun.insert(group->id).second) return;
  has_begun(group->attempt);
  declined_.push_back(std::move(*group));
}

void Gathering::begun(Group group) {
  open_next_line(group);
  carried_.with_us.clear();
  for (const Member& member : group.roster) {
    left_.erase(member.id);  // who left, and is in it, has come back since
    if (sits_out_.contains(member.id)) left_.insert(member.id);
    if (member.id != terms_.self) carried_.with_us.insert(member.id);  // should the round fail
  }
  has_begun(group.attempt);
  carried_.begun.insert(group.id);
  outcome_ = Result<Group>(std::move(group));
}

/// Of this group everybody asks the same one in the next epoch. A line that is not there by then costs all of it two
/// and a half round trips; now nobody waits while it is opened.
void Gathering::open_next_line(const Group& group) {
  std::optional<std::pair<Digest, PeerId>> next;
  for (const Member& member : group.roster) {
    if (member.role == Role::client) continue;
    const std::pair its(place(terms_.options.key, group.epoch + 1, group.round, member.id), member.id);
    if (!next || its < *next) next = its;
  }
  if (!next || next->second == terms_.self) return;
  if (links_.state(next->second).connected || !links_.can_reach(next->second)) return;
  send(next->second, told());  // says nothing new to anybody
}

// ---- leading

void Gathering::maybe_begin(TimePoint now) {
  notice_standstill(now);
  if (!leading_ || outcome_) return;
  auto group = leader_.begin(own_samples_, waiting_for_others(now), now);
  if (!group) return;
  const wire::Begin begin = wire::to_wire(*group);
  for (const Member& member : group->roster) {
    if (member.id != terms_.self) send(member.id, begin);
  }
  begun(std::move(*group));
  for (const PeerId& id : leader_.refusing()) refuse_begun(id);
}

/// Where most can only dial, the one that they dial is cut off from all of them at once, and they come back one after
/// the other. All have samples of this epoch: who comes a second later than the others is not to lose them.
void Gathering::notice_cut(TimePoint now) {
  if (terms_.foreseen()) return;  // who is expected is waited for anyway
  auto& with_us = carried_.with_us;
  for (const PeerId& id : leader_.followers())
    if (with_us.size() < Candidates::kCandidatesMax) with_us.insert(id);
  if (with_us.empty()) return;
  const auto is_lost_now = [&](const PeerId& id) {
    return is_lost(links_.state(id), TimePoint(), now, terms_.options.patience);
  };
  if (!std::all_of(with_us.begin(), with_us.end(), is_lost_now)) return;
  cut_off_ = true;
  first_back_.reset();
}

bool Gathering::waits_for_all_to_be_back(TimePoint now) const {
  if (!first_back_ || now >= *first_back_ + terms_.options.patience.back_max) return false;
  return std::any_of(carried_.with_us.begin(), carried_.with_us.end(),
                     [this](const PeerId& id) { return !leader_.has(id) && !left_.contains(id); });
}

bool Gathering::waiting_for_others(TimePoint now) const {
  if (waits_for_all_to_be_back(now)) return true;
  // contacts are invited, but they have not said that they come
  return std::any_of(invited_.begin(), invited_.end(), [this](const auto& entry) {
    const auto known = candidates_.known().find(entry.first);
    return known != candidates_.known().end() && known->second.sureness != Sureness::contact;
  });
}

void Gathering::check_followers(TimePoint now) {
  if (!leading_) return;
  notice_cut(now);
  for (const PeerId& id : leader_.lost(links_, now)) strike(id, kSilent, now);
  for (const PeerId& id : leader_.take_unheard(now)) redirect(id, terms_.self);  // it may follow another
  const Patience& patience = terms_.options.patience;
  const std::set<std::uint32_t> unvoiced = leader_.unvoiced();
  for (const auto& [id, since] : std::map(invited_)) {
    const net::LinkState link = links_.state(id);
    const auto known = candidates_.known().find(id);
    const bool standing = known != candidates_.known().end() && known->second.sureness == Sureness::standing;
    // a failed try ends for each when its trainer has its samples back: who lives comes with that spread
    const bool patient = standing || terms_.wanted.attempt > 0;
    const Duration limit = terms_.expects(id) ? patience.expected_max
                           : patient          ? std::max(patience.absent_max, 4 * link.rtt)
                                              : silence_limit(link, patience);
    if (is_lost(link, since, now, patience)) {
      strike(id, kSilent, now);
    } else if (now - since >= limit && !may_speak_for(id, unvoiced)) {
      strike(id, is_lost(link, TimePoint(), now, patience) ? kSilent : "did not join", now);
    }
  }
}

/// Its round before may be on slower lines than ours, and nothing goes without it.
bool Gathering::may_speak_for(const PeerId& peer, const std::set<std::uint32_t>& digits) const {
  const auto of_digit = [&](const Expected& one) { return one.id == peer && digits.contains(one.dropped); };
  return std::any_of(terms_.wanted.expected.begin(), terms_.wanted.expected.end(), of_digit);
}

// ---- following

void Gathering::spread_the_word(TimePoint now) {
  if (spread_ || !follower_.accepted() || now < follower_.asked_at() + terms_.options.patience.silence_min) return;
  spread_ = true;
  const PeerId leader = *follower_.leader();
  const auto& known = candidates_.known();
  auto next = known.upper_bound(terms_.self);  // each tells its successors, so together they reach everybody
  unsigned told = 0;
  for (std::size_t seen = 0; seen < known.size() && told < terms_.options.patience.redirects_max; ++seen, ++next) {
    if (next == known.end()) next = known.begin();
    const auto& [id, candidate] = *next;
    if (id == leader || candidate.sureness != Sureness::declared || candidates_.struck(id)) continue;
    if (!links_.can_reach(id)) continue;
    if (!candidates_.before(leader, id)) continue;
    redirect(id, leader);
    ++told;
  }
}

void Gathering::check_follower(TimePoint now) {
  spread_the_word(now);
  std::string_view why;
  switch (follower_.on_time(links_, now, why)) {
    case Follower::Next::wait: return;
    case Follower::Next::ask_again: return ask(*follower_.leader(), now);
    case Follower::Next::strike: return strike(*follower_.leader(), why, now);
  }
}

/// Peers that begin at the same moment do not know each other's addresses yet, and a line that was clogged or broke may
/// be there again in a moment. Were such a strike for good, each would wait for a word from the others: so did two
/// leaders who had struck each other, with half of a swarm each. Whoever has more than half already goes on without.
/// Who lied is asked again too, later each time: a lie is seen through at once, but while some distrust a leader that
/// the others follow, neither may have enough.
void Gathering::forgive_connected(TimePoint now) {
  const bool has_enough = leading_ && leader_.has_quorum();
  candidates_.forgive_if([&](const PeerId& peer, std::string_view why) {
    if (left_.contains(peer) || !links_.state(peer).connected) return false;
    if (carried_.distrusted.contains(peer)) return !has_enough && !distrusts(peer, now);
    if (why == kUnreachable) return true;
    return why == kSilent && !has_enough && !is_lost(links_.state(peer), TimePoint(), now, terms_.options.patience);
  });
}

void Gathering::strike(const PeerId& peer, std::string_view why, TimePoint now) {
  if (!candidates_.struck(peer)) struck_.emplace_back(peer, why);
  candidates_.strike(peer, why);
  leader_.drop(peer);
  invited_.erase(peer);
  if (follower_.leader() != peer) return;
  send(peer, wire::Leave());  // should it live after all, it must not count on us
  follower_.forget();
  choose(now);
}

void Gathering::distrust(const PeerId& peer, std::string_view why, TimePoint now) {
  if (carried_.distrusted.size() < Candidates::kCandidatesMax || carried_.distrusted.contains(peer)) {
    Distrust& lied = carried_.distrusted[peer];
    lied.until = now + terms_.options.patience.distrust * (1U << std::min(lied.lies++, kDoublingsMax));
  }
  strike(peer, why, now);
}

bool Gathering::distrusts(const PeerId& peer, TimePoint now) const {
  const auto lied = carried_.distrusted.find(peer);
  return lied != carried_.distrusted.end() && now < lied->second.until;
}

void Gathering::note(RefusalReason reason) {
  if (reason == RefusalReason::begun && !refused_for_) refused_for_ = NoGroup::begun;
  if (reason == RefusalReason::schema_differs) refused_for_ = NoGroup::schema_differs;
  if (reason == RefusalReason::codec_map_differs) refused_for_ = NoGroup::codec_map_differs;
}

void Gathering::has_begun(std::uint32_t attempt) {
  if (attempt <= terms_.wanted.attempt + kAttemptsAhead) next_attempt_ = std::max(next_attempt_, attempt + 1);
}

void Gathering::missed(const PeerId& leader, TimePoint now) {
  note(RefusalReason::begun);
  strike(leader, sentence(RefusalReason::begun), now);
  give_up_if_hopeless();
}

void Gathering::give_up_if_hopeless() {
  if (outcome_ || !refused_for_) return;
  const bool begun = *refused_for_ == NoGroup::begun;
  // who waits here all the same hears of the round's end by a record, and may miss the next begin, and each after it
  const bool nobody_leads = begun && !candidates_.smallest(Sureness::contact);
  if (!nobody_leads && 2 * candidates_.possible() > terms_.wanted.electorate) return;
  if (begun) knock();
  fail(*refused_for_);
}

void Gathering::knock() {
  for (const auto& [id, candidate] : candidates_.known()) {
    if (!candidates_.struck(id)) send(id, join());
  }
}

wire::Join Gathering::join() const {
  wire::Join join = follower_.join(own_samples_);
  join.attempt = leader_.attempt();
  return join;
}

void Gathering::fail(NoGroup reason) {
  if (follower_.leader()) send(*follower_.leader(), wire::Leave());
  for (const PeerId& id : leader_.followers()) send(id, wire::Leave());
  follower_.forget();
  leader_.resign();
  leading_ = false;
  outcome_ = Result<Group>(reason);
}

void Gathering::refuse(const PeerId& to, RefusalReason reason) {
  wire::Refused refused;
  refused.reason = static_cast<std::uint8_t>(reason);
  refused.detail = sentence(reason);
  send(to, refused);
}

void Gathering::refuse_begun(const PeerId& to) {
  wire::Refused refused;
  refused.reason = static_cast<std::uint8_t>(RefusalReason::begun);
  refused.detail = sentence(RefusalReason::begun);
  refused.attempt = outcome_->value().attempt;
  send(to, refused);
}

void Gathering::redirect(const PeerId& to, const PeerId& leader) {
  wire::Redirect message;
  message.leader = leader.key;
  message.attempt = leader_.attempt();
  message.incarnation = terms_.options.incarnation;
  send(to, message);
}

}  // namespace collab::matchmaking
