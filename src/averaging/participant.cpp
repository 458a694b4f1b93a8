#include "averaging/participant.hpp"

#include "averaging/describe.hpp"
#include "base/frame.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace collab::averaging {
namespace {

Round::Setup round_setup(const Participant::Setup& setup) {
  Round::Setup round;
  round.self = static_cast<Rank>(setup.shape->group.rank_of(setup.identity.id()).value());
  round.result = setup.result;
  round.done = setup.done;
  for (const auto& member : setup.shape->group.roster) round.weight_max.push_back(member.weight_max);
  return round;
}

}  // namespace

Participant::Participant(Setup setup)
    : shape_(setup.shape),
      self_(round_setup(setup).self),
      guard_(setup.guard),
      round_(*shape_, setup.rule, setup.guard, round_setup(setup), setup.own),
      commit_(shape_->group.id, shape_->members, self_, shape_->group.weight_min,
              signed_by(setup.identity, shape_->group), guard_),
      early_bytes_(shape_->members.size, 0) {}

void Participant::start() {
  assert(!started_);
  started_ = true;
  commit_.start();
  settle();
}

Result<> Participant::on_frame(const PeerId& from, const Frame& frame) {
  const auto rank = shape_->group.rank_of(from);
  if (!rank || *rank == self_) return Errc::denied;
  if (!started_) return keep_for_later(static_cast<Rank>(*rank), frame);
  auto taken = dispatch(static_cast<Rank>(*rank), frame);
  if (!taken && taken.error() == Errc::late) taken = keep_for_later(static_cast<Rank>(*rank), frame);
  if (!taken && taken.error() == Errc::bad_request) ++bad_frames_;
  settle();
  return taken;
}

Result<> Participant::dispatch(Rank from, const Frame& frame) {
  const auto message = frame::decode<wire::Header>(*frame);
  if (!message) return message.error();
  const auto take = [&](const auto& body) -> Result<> {
    using M = std::decay_t<decltype(body)>;
    if (body.group != shape_->group.id) return Errc::stale;
    if constexpr (std::is_same_v<M, wire::Part> || std::is_same_v<M, wire::Average>) {
      return round_.on(from, body, frame, message->payload);
    } else if constexpr (std::is_same_v<M, wire::Fetch> || std::is_same_v<M, wire::NotHeld>) {
      return round_.on(from, body);
    } else if constexpr (std::is_same_v<M, wire::Done>) {
      done_ |= bit(from);
      return {};
    } else {
      return commit_.on(from, body);
    }
  };
  return std::visit(take, message->header);
}

std::size_t Participant::early_bytes_max() const {
  const Range all{0, shape_->partition.length()};
  const std::size_t vector = std::max(shape_->codecs.encoded_bytes(all), shape_->part_codecs().encoded_bytes(all));
  return 2 * vector + (std::size_t(1) << 20U);
}

Result<> Participant::keep_for_later(Rank from, const Frame& frame) {
  if (state() != Commit::State::running) return Errc::stale;
  if (early_bytes_[from] + frame->size() > early_bytes_max()) {
    ++dropped_frames_;
    return Errc::busy;
  }
  early_bytes_[from] += frame->size();
  early_.push_back({from, frame});
  return {};
}

void Participant::replay_early() {
  const auto early = std::exchange(early_, {});
  std::fill(early_bytes_.begin(), early_bytes_.end(), std::size_t(0));
  for (const auto& [from, frame] : early) {
    const auto taken = dispatch(from, frame);
    if (!taken && taken.error() == Errc::late) (void)keep_for_later(from, frame);  // it fitted before
    if (!taken && taken.error() == Errc::bad_request) ++bad_frames_;
  }
}

void Participant::suspect(Ranks suspected) {
  commit_.suspect(suspected);
  settle();
}

void Participant::repeat(Rank to) {
  round_.repeat(to);
  settle();
}

void Participant::fail() {
  commit_.fail();
  settle();
}

void Participant::poke() {
  commit_.poke();
  settle();
}

void Participant::remind(Ranks them) {
  commit_.remind(them & ~done_);
  settle();
}

void Participant::settle() {
  bool changed = started_;
  while (changed) {
    changed = false;
    settle_once(changed);
  }
  for (auto& message : commit_.take_messages())
    outgoing_.push_back({message.to, net::TrafficClass::control, frame::encode(message.header)});
  for (auto& out : round_.take_control())
    outgoing_.push_back({out.to, net::TrafficClass::control, std::move(out.frame)});
  for (auto& out : round_.take_bulk())
    if (out.to != 0) outgoing_.push_back({out.to, net::TrafficClass::bulk, std::move(out.frame)});
}

void Participant::settle_once(bool& changed) {
  round_.suspect(commit_.suspected());
  if (state() == Commit::State::running) {
    const bool is_new = commit_.acting() && (!entered_ || commit_.plan_view() != round_.view());
    if (is_new) {
      std::vector<Rank> sources;
      for (std::size_t index = 0; index < commit_.plan().size(); ++index) sources.push_back(commit_.source(index));
      const auto& accepted = commit_.accepted();
      round_.enter(commit_.plan_view(), commit_.plan(), std::move(sources), accepted ? &accepted->manifest : nullptr);
      entered_ = true;
      changed = true;
      replay_early();
    } else if (!commit_.acting()) {
      round_.pause();
    }
  }
  for (const Round::Complete& complete : round_.take_complete()) {
    changed = true;
    if (complete.view == round_.view() && round_.reducer(complete.index) != nullptr) {
      const auto* result = round_.find(complete.index, complete.digest);
      Ranks senders = 0;
      for (const auto& chunk : result->chunks()) senders |= chunk.senders;
      guard_.before_gather(shape_->members.segments[complete.index], complete.digest, senders);
    }
    commit_.hold(complete.index, complete.view, complete.digest, complete.weight);
    all_here_ = all_here_ || (commit_.accepted() && commit_.accepted()->view == commit_.view());
  }
  if (const Ranks liars = round_.take_liars(); liars != 0) {
    lied_ |= liars;
    commit_.blame(liars);
    changed = true;
  }
  if (state() == Commit::State::committed && !wanted_) {
    wanted_ = true;
    changed = true;
    Ranks holders = 0;
    for (const auto& hold : commit_.proof().holds) holders |= bit(hold.rank);
    round_.want(commit_.proof().manifest, holders);
  }
  if (state() == Commit::State::committed && finished() && !std::exchange(announced_, true)) announce_done();
}

void Participant::announce_done() {
  wire::Done done;
  done.group = shape_->group.id;
  done.view = commit_.view();
  outgoing_.push_back({shape_->members.linked(self_), net::TrafficClass::control, frame::encode(wire::Header(done))});
}

std::vector<Participant::Outgoing> Participant::take_outgoing() {
  return std::exchange(outgoing_, {});
}

bool Participant::finished() const {
  if (state() == Commit::State::running) return false;
  if (state() == Commit::State::failed || !contains(shape_->members.voters, self_)) return true;
  return round_.holds(commit_.proof().manifest);
}

std::shared_ptr<const CommittedRound> Participant::committed_round() const {
  const wire::Proof& proof = commit_.proof();
  std::vector<SegmentResult> results;
  for (std::size_t index = 0; index < proof.manifest.size(); ++index) {
    const SegmentResult* result = round_.find(index, proof.manifest[index]);
    if (result == nullptr) return nullptr;
    results.push_back(*result);
  }
  return std::make_shared<const CommittedRound>(shape_, proof, std::move(results));
}

void Participant::describe(RoundReport& report) const {
  const auto& group = shape_->group;
  report.group = group.id;
  report.epoch = group.epoch;
  report.round = group.round;
  report.views = commit_.plans();
  report.bad_frames = bad_frames_;
  report.dropped_frames = dropped_frames_;
  report.peers.resize(group.roster.size());
  for (std::size_t rank = 0; rank < group.roster.size(); ++rank) {
    PeerReport& peer = report.peers[rank];
    peer.id = group.roster[rank].id;
    peer.role = group.roster[rank].role;
    if (contains(lied_, static_cast<Rank>(rank))) peer.fault = Fault::conflict;
    for (std::size_t index = 0; index < commit_.plan().size(); ++index) {
      const SegmentReducer* reducer = round_.reducer(index);
      if (reducer == nullptr) continue;
      peer.weight = std::max(peer.weight, reducer->weight(static_cast<Rank>(rank)));
      if (peer.fault == Fault::none) peer.fault = reducer->fault(static_cast<Rank>(rank));
    }
  }
  if (state() != Commit::State::committed) return;
  const wire::Manifest& manifest = commit_.proof().manifest;
  std::vector<const SegmentResult*> results;  // an auxiliary holds its own only
  std::vector<Rank> owners;
  for (std::size_t index = 0; index < manifest.size(); ++index) {
    results.push_back(round_.find(index, manifest[index]));
    owners.push_back(commit_.plan()[index].owner);
  }
  describe_results(*shape_, manifest, results, owners, report);
}

}  // namespace collab::averaging
