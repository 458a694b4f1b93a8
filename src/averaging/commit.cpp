#include "averaging/commit.hpp"

#include "crypto/fields.hpp"

#include <algorithm>
#include <cassert>
#include <tuple>
#include <utility>

namespace collab::averaging {

Bytes hold_bytes(const matchmaking::GroupId& group, std::uint32_t view, const wire::Manifest& manifest) {
  FieldWriter fields;
  fields.add_text("collab/hold/v1").add_raw(std::as_bytes(std::span(group))).add(view);
  fields.add(static_cast<std::uint32_t>(manifest.size()));
  for (const Digest& digest : manifest) fields.add_raw(std::as_bytes(std::span(digest)));
  return fields.finish();
}

Result<> check_proof(const wire::Proof& proof, const Members& members, const Seals& seals) {
  if (proof.view > kViewsMax || proof.manifest.size() != members.segments.size()) return Errc::bad_request;
  Ranks seen = 0;
  Ranks proven = 0;
  for (const wire::SignedHold& hold : proof.holds) {
    if (hold.rank >= members.size || !contains(members.voters, hold.rank) || seen >> hold.rank != 0)
      return Errc::bad_request;
    seen |= bit(hold.rank);
    if (members.is_quorum(proven)) continue;  // enough: the rest would cost time and prove nothing
    if (seals.verify(hold.rank, proof.view, proof.manifest, hold.signature)) proven |= bit(hold.rank);
  }
  if (!members.is_quorum(proven)) return Errc::denied;
  return {};
}

Commit::Commit(const matchmaking::GroupId& group, const Members& members, Rank self, std::uint64_t weight_min,
               Seals seals, Guard& guard)
    : group_(group),
      members_(members),
      self_(self),
      weight_min_(weight_min),
      seals_(std::move(seals)),
      guard_(guard),
      held_(members.segments.size()) {
  for (const Rank owner : members.segments) {
    plan_.push_back({owner, std::nullopt});
    sources_.push_back(owner);
  }
}

void Commit::start() {
  started_ = true;
  tick();
}

void Commit::suspect(Ranks suspected) {
  const Ranks all = (suspected | blamed_) & ~bit(self_);
  if (all == suspected_ && suspected == silent_) return;
  silent_ = suspected;
  suspected_ = all;
  tick();
}

void Commit::blame(Ranks liars) {
  blamed_ |= liars & ~bit(self_);
  suspect(silent_);
}

void Commit::hold(std::size_t index, std::uint32_t view, const Digest& digest, std::uint64_t weight) {
  auto& results = held_.at(index);
  const auto same = [&](const Held& held) { return held.view == view && held.digest == digest; };
  if (std::any_of(results.begin(), results.end(), same)) return;
  results.push_back({view, digest, weight});
  tick();
}

void Commit::fail() {
  if (state_ == State::running) state_ = State::failed;
}

Result<> Commit::on(Rank from, const wire::Hold& hold) {
  if (hold.manifest.size() != members_.segments.size()) return Errc::bad_request;
  if (members_.coordinator(hold.view) != self_ || !contains(members_.voters, from)) return Errc::denied;
  if (hold.view != view_ || state_ != State::running) return Errc::stale;
  if (!seals_.verify(from, hold.view, hold.manifest, hold.signature)) return Errc::denied;
  const auto [at, is_new] = holds_.emplace(from, hold);
  if (!is_new) return at->second.manifest == hold.manifest ? Errc::stale : Errc::bad_request;
  tick();
  return {};
}

Result<> Commit::on(Rank from, const wire::Ask& ask) {
  if (ask.view > kViewsMax) return Errc::bad_request;
  if (members_.coordinator(ask.view) != from) return Errc::denied;
  if (ask.view < view_) {
    count(Step::refuse);
    wire::Refuse refuse;
    refuse.group = group_;
    refuse.view = view_;
    send(bit(from), refuse);
    return Errc::stale;
  }
  // also when a Refuse brought us here first: who asks waits for our word
  if (ask.view == view_ && acting_) return Errc::stale;
  count(Step::promise);
  promise(ask.view);
  send(bit(from), tell());
  tick();
  return {};
}

Result<> Commit::on(Rank, const wire::Refuse& refuse) {
  if (refuse.view > kViewsMax) return Errc::bad_request;
  if (!asking_ || refuse.view <= view_ || refuse.view > view_ + kViewJumpMax) return Errc::stale;
  count(Step::adopt_refusal);
  promise(refuse.view);
  tick();
  return {};
}

Result<> Commit::on(Rank from, const wire::Tell& told) {
  const std::size_t segments = members_.segments.size();
  if (!asking_ || told.view != view_) return Errc::stale;
  if (told.accepted && (told.accepted->manifest.size() != segments || told.accepted->view >= told.view))
    return Errc::bad_request;
  for (const wire::HeldResult& held : told.held)
    if (members_.index_of(held.segment) == segments || held.view >= told.view) return Errc::bad_request;
  if (told.committed) {
    if (const auto proven = check_proof(*told.committed, members_, seals_); !proven) return proven.error();
  }
  if (!tells_.emplace(from, told).second) return Errc::stale;
  tick();
  return {};
}

Result<> Commit::on(Rank from, const wire::View& view) {
  if (view.view > kViewsMax || view.plan.size() != members_.segments.size()) return Errc::bad_request;
  for (const wire::Assignment& assignment : view.plan)
    if (assignment.owner >= members_.size || !contains(members_.reachable, assignment.owner)) return Errc::bad_request;
  if (members_.coordinator(view.view) != from) return Errc::denied;
  if (view.view < view_ || (view.view == plan_view_ && acting_) || state_ != State::running) return Errc::stale;
  count(Step::adopt_view);
  std::vector<Rank> sources;
  for (const wire::Assignment& assignment : view.plan) sources.push_back(assignment.owner);
  adopt(view.view, view.plan, std::move(sources));
  tick();
  return {};
}

Result<> Commit::on(Rank, const wire::Commit& commit) {
  if (commit.view > kViewsMax || commit.proof.view > commit.view) return Errc::bad_request;
  if (state_ != State::running) return Errc::stale;
  if (commit.view < view_) {
    count(Step::commit_ignored);
    return Errc::stale;
  }
  if (const auto proven = check_proof(commit.proof, members_, seals_); !proven) return proven.error();
  count(Step::commit_received);
  finish(commit.view, commit.proof);
  tick();
  return {};
}

Result<> Commit::on(Rank from, const wire::GiveUp& give_up) {
  if (give_up.view > kViewsMax) return Errc::bad_request;
  if (members_.coordinator(give_up.view) != from) return Errc::denied;
  if (state_ != State::running || give_up.view < view_) return Errc::stale;
  promise(give_up.view);
  const bool lacks_quorum = give_up.reason == static_cast<std::uint8_t>(wire::GiveUpReason::no_quorum);
  if (lacks_quorum && members_.is_quorum(live() & ~bit(from))) {
    count(Step::give_up_doubted);
    blame(bit(from));
    tick();
    return {};
  }
  count(Step::give_up_received);
  state_ = State::failed;
  reason_ = give_up.reason;
  return {};
}

Ranks Commit::awaited_tells() const noexcept {
  if (!asking_ || state_ != State::running) return 0;
  Ranks told = bit(self_);
  for (const auto& [rank, tell] : tells_) told |= bit(rank);
  return members_.all & ~told;
}

Ranks Commit::awaited_holds() const noexcept {
  if (state_ != State::running || !acting_ || coordinator() != self_ || !members_.is_quorum(largest_agreement()))
    return 0;
  Ranks held = bit(self_);
  for (const auto& [rank, hold] : holds_) held |= bit(rank);
  return members_.voters & ~held;
}

Ranks Commit::awaited_plan() const {
  if (state_ != State::running) return 0;
  if (contains(suspected_, coordinator())) {
    const Ranks successors = members_.reachable & live();
    return successors != 0 ? bit(first(successors)) & ~bit(self_) : 0;
  }
  if (!acting_ || coordinator() == self_ || whole()) return 0;
  Ranks sources = 0;
  for (std::size_t index = 0; index < plan_.size(); ++index) sources |= bit(plan_[index].owner) | bit(sources_[index]);
  return (sources & suspected_) != 0 ? bit(coordinator()) : 0;
}

Ranks Commit::awaited_decision() const noexcept {
  if (state_ != State::running || coordinator() == self_) return 0;
  const bool holds = accepted_ && accepted_->view == view_;
  return holds || !acting_ ? bit(coordinator()) : 0;
}

void Commit::send(Ranks to, wire::Header header) {
  to &= members_.linked(self_);
  if (to != 0) messages_.push_back({to, std::move(header)});
}

void Commit::send_commit(Ranks to) {
  wire::Commit commit;
  commit.group = group_;
  commit.view = view_;
  commit.proof = proof_.value();
  send(to, std::move(commit));
}

void Commit::remind(Ranks them) {
  if (state_ != State::committed || (them & members_.linked(self_)) == 0) return;
  count(Step::repeat_commit);
  send_commit(them);
}

void Commit::tick() {
  while (act()) {
  }
}

bool Commit::act() {
  if (!started_ || state_ == State::failed) return false;
  const Rank coordinator = members_.coordinator(view_);
  if (state_ == State::committed) {
    if (contains(suspected_, coordinator) && !std::exchange(repeated_, true)) {
      count(Step::repeat_commit);
      send_commit(members_.all);
    }
    return false;
  }
  if (acting_ && try_hold()) return true;
  if (coordinator == self_) return coordinate();
  if (!contains(suspected_, coordinator)) return false;
  const Ranks successors = members_.reachable & live();
  if (successors == 0) {
    count(Step::client_alone);
    state_ = State::failed;
    return false;
  }
  return first(successors) == self_ && open_view(Step::succeed);
}

/// Every segment as the view defines it: the adopted result, or the one that was reduced in this view.
std::optional<wire::Manifest> Commit::whole() const {
  wire::Manifest manifest;
  for (std::size_t index = 0; index < plan_.size(); ++index) {
    const auto& adopted = plan_[index].adopted;
    const auto fits = [&](const Held& held) { return adopted ? held.digest == *adopted : held.view == plan_view_; };
    const auto at = std::find_if(held_[index].begin(), held_[index].end(), fits);
    if (at == held_[index].end()) return std::nullopt;
    manifest.push_back(at->digest);
  }
  return manifest;
}

bool Commit::try_hold() {
  if (!contains(members_.voters, self_) || (accepted_ && accepted_->view >= view_)) return false;
  auto manifest = whole();
  if (!manifest) return false;
  const Verdict verdict = guard_.before_use(*manifest);
  if (verdict.kind == Verdict::Kind::wait) return false;
  if (verdict.kind == Verdict::Kind::redo) {
    const Ranks blamed = blamed_ | (verdict.without & ~bit(self_));
    const bool is_new = blamed != blamed_;
    blamed_ = blamed;
    suspected_ |= blamed_;
    return is_new;
  }
  count(Step::hold);
  wire::Hold hold;
  hold.group = group_;
  hold.view = view_;
  hold.manifest = *manifest;
  hold.weight = ~std::uint64_t(0);
  for (std::size_t index = 0; index < manifest->size(); ++index)
    hold.weight = std::min(hold.weight, find(index, (*manifest)[index])->weight);
  hold.signature = seals_.sign(view_, *manifest);
  accepted_ = wire::Accepted{view_, std::move(*manifest)};
  if (members_.coordinator(view_) == self_)
    holds_.emplace(self_, std::move(hold));
  else
    send(bit(members_.coordinator(view_)), std::move(hold));
  return true;
}

const Commit::Held* Commit::find(std::size_t index, const Digest& digest) const {
  for (const Held& held : held_[index])
    if (held.digest == digest) return &held;
  return nullptr;
}

/// Those who hold the manifest that most hold. Only a lying owner makes it fewer than all who hold one.
Ranks Commit::largest_agreement() const {
  std::map<wire::Manifest, Ranks> by_manifest;
  for (const auto& [rank, hold] : holds_) by_manifest[hold.manifest] |= bit(rank);
  Ranks largest = 0;
  for (const auto& [manifest, ranks] : by_manifest)
    if (averaging::count(ranks) > averaging::count(largest)) largest = ranks;
  return largest;
}

bool Commit::coordinate() {
  if (!acting_) {
    if (!asking_) return open_view(Step::succeed);
    return awaited_for_plan() == 0 && decide();
  }
  Ranks held = 0;
  for (const auto& [rank, hold] : holds_) held |= bit(rank);
  const Ranks live_voters = live() & members_.voters;
  const bool all_hold = held != 0 && (live_voters & ~held) == 0;
  const Ranks agreeing = largest_agreement();
  if (all_hold && (live_voters & ~agreeing) == 0 && members_.is_quorum(agreeing)) return commit_holds(agreeing);
  if (all_hold) return open_view(Step::reopen_no_quorum);
  for (std::size_t index = 0; index < plan_.size(); ++index)
    if (contains(suspected_, plan_[index].owner) || contains(suspected_, sources_[index]))
      return open_view(Step::reopen_owner);
  if (live_voters == 0 && !std::exchange(asked_without_voters_, true)) return open_view(Step::reopen_no_voter);
  return false;
}

/// The smallest weight of a chunk: what we see ourselves, else what most tell, so that one liar cannot end the round.
std::uint64_t Commit::weight_behind(Ranks agreeing) const {
  if (contains(agreeing, self_)) return holds_.at(self_).weight;
  std::map<std::uint64_t, std::size_t> told;
  for (const auto& [rank, hold] : holds_)
    if (contains(agreeing, rank)) ++told[hold.weight];
  const auto fewer = [](const auto& a, const auto& b) { return a.second <= b.second; };
  return std::max_element(told.begin(), told.end(), fewer)->first;
}

bool Commit::commit_holds(Ranks agreeing) {
  wire::Proof proof;
  proof.view = view_;
  for (const auto& [rank, hold] : holds_) {
    if (!contains(agreeing, rank)) continue;
    proof.manifest = hold.manifest;
    proof.holds.push_back({rank, hold.signature});
  }
  const std::uint64_t weight = weight_behind(agreeing);
  if (weight == 0) return give_up(Step::give_up_weight, wire::GiveUpReason::no_weight);
  if (weight < weight_min_) return give_up(Step::give_up_weight, wire::GiveUpReason::weight_low);
  count(Step::commit);
  finish(view_, std::move(proof));
  send_commit(members_.all);
  return true;
}

bool Commit::open_view(Step why) {
  std::uint32_t next = view_ + 1;
  while (members_.coordinator(next) != self_) ++next;
  if (next > kViewsMax) {
    state_ = State::failed;
    return false;
  }
  count(why);
  promise(next);
  asking_ = true;
  tells_.emplace(self_, tell());
  wire::Ask ask;
  ask.group = group_;
  ask.view = view_;
  send(members_.all, ask);
  return true;
}

void Commit::promise(std::uint32_t view) {
  if (view <= view_) return;
  view_ = view;
  acting_ = false;
  asking_ = false;
  tells_.clear();
  holds_.clear();
}

void Commit::adopt(std::uint32_t view, Plan plan, std::vector<Rank> sources) {
  promise(view);
  acting_ = true;
  asking_ = false;
  plan_view_ = view;
  ++plans_;
  plan_ = std::move(plan);
  sources_ = std::move(sources);
}

void Commit::finish(std::uint32_t view, wire::Proof proof) {
  state_ = State::committed;
  proof_ = std::move(proof);
  promise(view);
}

bool Commit::give_up(Step why, wire::GiveUpReason reason) {
  count(why);
  wire::GiveUp give_up;
  give_up.group = group_;
  give_up.view = view_;
  give_up.reason = static_cast<std::uint8_t>(reason);
  send(members_.all, give_up);
  reason_ = give_up.reason;
  state_ = State::failed;
  return false;
}

wire::Tell Commit::tell() const {
  wire::Tell tell;
  tell.group = group_;
  tell.view = view_;
  tell.accepted = accepted_;
  if (state_ == State::committed) tell.committed = proof_;
  for (std::size_t index = 0; index < held_.size(); ++index) {
    const auto lower = [](const Held& a, const Held& b) { return a.view < b.view; };
    const auto best = std::max_element(held_[index].begin(), held_[index].end(), lower);
    if (best != held_[index].end()) tell.held.push_back({members_.segments[index], best->view, best->digest});
  }
  return tell;
}

bool Commit::decide() {
  asking_ = false;
  for (const auto& [rank, told] : tells_) {
    if (!told.committed) continue;
    count(Step::decide_committed);
    finish(view_, *told.committed);
    send_commit(members_.all);
    return true;
  }
  if (!members_.is_quorum(tellers())) return give_up(Step::decide_no_quorum, wire::GiveUpReason::no_quorum);

  Plan plan = choose();
  std::vector<Rank> sources;
  for (wire::Assignment& assignment : plan) {
    sources.push_back(assignment.owner);
    if (contains(members_.reachable, assignment.owner)) continue;
    count(Step::relay);  // a client cannot serve clients: its bytes pass through us
    assignment.owner = self_;
  }
  wire::View view;
  view.group = group_;
  view.view = view_;
  view.plan = plan;
  send(members_.all, std::move(view));
  adopt(view_, std::move(plan), std::move(sources));
  return true;
}

/// Nobody waits for a liar, unless the others cannot know without its word which version may be committed.
Ranks Commit::awaited_for_plan() const {
  const Ranks awaited = awaited_tells();
  if ((awaited & live()) != 0) return awaited & live();
  const auto best = best_accepted(servers());
  return best && !best->disputed.empty() ? awaited & ~silent_ : 0;
}

/// Only those who can still serve what they told: an acceptance that is not used must not lend its promise to the
/// quorum, or a false suspicion between Tell and View loses a commit.
Ranks Commit::tellers() const {
  Ranks tellers = 0;
  for (const auto& [rank, told] : tells_)
    if (!contains(suspected_, rank)) tellers |= bit(rank);
  return tellers;
}

/// Of the tellers, best first: someone whom all can dial, then the lowest rank.
std::vector<Rank> Commit::servers() const {
  std::vector<Rank> servers;
  for (Ranks part : {tellers() & members_.reachable, tellers() & ~members_.reachable})
    for (; part != 0; part &= part - 1) servers.push_back(first(part));
  return servers;
}

/// Of those who accepted in the highest view, the first who accepted what most did: in one view they differ only when
/// an owner has told some of them something else. Between two of three that leaves a draw, in which the word of those
/// counts who are suspected, in whichever view: what it makes a quorum of may be committed.
std::optional<Commit::Choice> Commit::best_accepted(const std::vector<Rank>& servers) const {
  std::map<std::pair<std::uint32_t, wire::Manifest>, std::size_t> votes;
  for (const Rank rank : servers)
    if (const auto& accepted = tells_.at(rank).accepted) ++votes[{accepted->view, accepted->manifest}];
  std::map<wire::Manifest, std::size_t> words;
  for (const auto& [rank, told] : tells_)
    if (told.accepted) ++words[told.accepted->manifest];
  std::optional<Choice> best;
  std::tuple<std::uint32_t, std::size_t, std::size_t> most;
  for (const Rank rank : servers) {
    const auto& accepted = tells_.at(rank).accepted;
    if (!accepted) continue;
    const auto& manifest = accepted->manifest;
    const std::tuple here(accepted->view, votes.at({accepted->view, manifest}), words.at(manifest));
    if (!best || here > most) {
      best = Choice{rank, {}};
      most = here;
    } else if (here == most) {
      const auto& other = tells_.at(best->holder).accepted->manifest;
      for (std::size_t index = 0; index < manifest.size(); ++index)
        if (manifest[index] != other[index]) best->disputed.insert(index);
    }
  }
  return best;
}

/// Of each segment what is held of the highest view, and of that what most hold: its owner may have told some of them
/// something else.
std::vector<std::optional<Commit::Version>> Commit::best_versions(const std::vector<Rank>& servers) const {
  std::map<std::tuple<std::size_t, std::uint32_t, Digest>, std::size_t> holders;
  for (const Rank rank : servers)
    for (const wire::HeldResult& held : tells_.at(rank).held)
      ++holders[{members_.index_of(held.segment), held.view, held.digest}];
  std::vector<std::optional<Version>> versions(plan_.size());
  for (const Rank rank : servers) {
    for (const wire::HeldResult& held : tells_.at(rank).held) {
      const std::size_t index = members_.index_of(held.segment);
      const Version here{held.view, holders.at({index, held.view, held.digest}), held.digest, rank, false};
      auto& best = versions[index];
      const auto rating = [](const Version& one) { return std::tuple(one.view, one.holders); };
      if (!best || rating(here) > rating(*best)) {
        best = here;
      } else if (rating(here) == rating(*best) && here.digest != best->digest) {
        best->disputed = true;
      }
    }
  }
  return versions;
}

/// Another one in each view; `but_not_now`: not who owns it now, if there is anybody else.
Rank Commit::next_owner(std::size_t index, bool but_not_now) const {
  std::vector<Rank> owners;
  for (std::size_t rank = 0; rank < members_.size; ++rank)
    if (contains(members_.reachable & live(), rank)) owners.push_back(static_cast<Rank>(rank));
  if (but_not_now && owners.size() > 1) std::erase(owners, plan_[index].owner);
  return owners[(index + view_) % owners.size()];
}

/// Owners may be clients here.
Commit::Plan Commit::choose() {
  const std::vector<Rank> servers = this->servers();
  Plan plan(plan_.size());
  const auto accepted = best_accepted(servers);
  if (accepted) count(Step::decide_accepted);
  const std::vector<std::optional<Version>> held = best_versions(servers);
  for (std::size_t index = 0; index < plan.size(); ++index) {
    const bool disputed = accepted ? accepted->disputed.contains(index) : held[index] && held[index]->disputed;
    if (disputed) {
      // as many say one thing as another and none of it is committed, as far as can be known: whoever told two peers
      // two results gets it no second time
      count(Step::decide_disputed);
      plan[index] = {next_owner(index, true), std::nullopt};
    } else if (accepted) {
      plan[index] = {accepted->holder, tells_.at(accepted->holder).accepted->manifest[index]};
    } else if (held[index]) {
      count(Step::decide_held);
      plan[index] = {held[index]->holder, held[index]->digest};
    } else {
      count(Step::decide_new_owner);
      plan[index] = {next_owner(index, false), std::nullopt};
    }
  }
  return plan;
}

}  // namespace collab::averaging
