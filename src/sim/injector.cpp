#include "sim/injector.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace collab::sim {
namespace {

constexpr Duration kBanned = std::chrono::hours(1);          // for ever
constexpr Duration kDismissedIn = std::chrono::seconds(20);  // to hear of it, to be closed by all, to end

}  // namespace

void Injector::plan(std::vector<Fault> faults) {
  for (Fault& fault : faults) {
    FaultFact fact;
    fact.victim = fault.peer;
    fact.why_not = fault.phase ? "nobody it was aimed at was there" : "the run ended before";
    fact.fault = std::move(fault);
    facts_.push_back(std::move(fact));
  }
  used_.assign(facts_.size(), false);
}

void Injector::start(TaskGroup& tasks) {
  tasks_ = &tasks;
  for (std::size_t i = 0; i < facts_.size(); ++i) {
    if (facts_[i].fault.phase) continue;
    ++pending_;
    tasks.spawn("sim.fault", timed(i));
  }
}

Task<> Injector::timed(std::size_t index) {
  co_await clock().sleep_until(TimePoint(facts_[index].fault.at));
  used_[index] = true;
  co_await strike(index, facts_[index].fault.peer);
}

bool Injector::matches(const Fault& fault, std::size_t peer) const {
  const auto& peers = stage_.all_peers();
  switch (fault.aim) {
    case Aim::any: return true;
    case Aim::peer: return fault.peer == peer;
    case Aim::client: return peers.at(peer)->client();
    case Aim::coordinator: break;
  }
  return std::none_of(peers.begin(), peers.end(), [&](const auto& other) {
    const bool could = other->running() && !other->client() && !away_.contains(other->number()) && other->in_step();
    return could && other->id() < peers.at(peer)->id();
  });
}

void Injector::reached(std::size_t peer, Phase phase) {
  if (tasks_ == nullptr) return;
  for (std::size_t i = 0; i < facts_.size(); ++i) {
    const Fault& fault = facts_[i].fault;
    if (used_[i] || fault.phase != phase || clock().now() < TimePoint(fault.at) || !matches(fault, peer)) continue;
    if (!cannot(fault, peer).empty()) continue;  // another one, or another time
    used_[i] = true;
    ++pending_;
    tasks_->spawn("sim.fault", strike(i, peer));
  }
}

/// Empty when it can strike.
std::string Injector::cannot(const Fault& fault, std::size_t victim) const {
  if (fault.kind == FaultKind::join || fault.kind == FaultKind::coordinator) return {};
  const auto& peers = stage_.all_peers();
  if (victim >= peers.size()) return fmt::format("there is no peer {}", victim);
  if (away_.contains(victim) || !peers[victim]->running()) return "its victim was away already";
  if (fault.kind == FaultKind::ban) return stage_.coordinator_runs() ? "" : "the coordinator was away";
  const bool by_plan = fault.kind == FaultKind::leave && fault.aim == Aim::peer;  // all may leave, one by one
  if (by_plan) return {};
  const auto there = std::count_if(
      peers.begin(), peers.end(), [&](const auto& peer) { return peer->running() && !away_.contains(peer->number()); });
  if (2 * (static_cast<std::size_t>(there) - 1) <= peers.size()) return "too few would be left";
  return {};
}

Task<> Injector::strike(std::size_t index, std::size_t victim) {
  FaultFact& fact = facts_[index];
  const Fault fault = fact.fault;
  const bool for_ever = fault.length == Duration();
  if (for_ever) --pending_;  // nothing of it is to come
  fact.why_not = cannot(fault, victim);
  if (fact.why_not.empty()) {
    fact.struck = clock().now().time_since_epoch();
    fact.victim = victim;
    if (fault.kind == FaultKind::join) {
      Peer& fresh = stage_.add_peer();
      fact.victim = fresh.number();
      fresh.start();
    } else if (fault.kind == FaultKind::coordinator) {
      co_await stage_.kill_coordinator();
      if (fault.length > Duration()) {
        co_await clock().sleep_until(clock().now() + fault.length);
        stage_.start_coordinator();
      }
    } else {
      Peer& peer = *stage_.all_peers()[victim];
      away_.insert(victim);
      invariants_.live().struck(victim, std::string(name(fault.kind)));
      co_await hurt(fault, peer);
      if (peer.running()) {
        away_.erase(victim);
        invariants_.live().over(victim);
      }
    }
  }
  if (!for_ever) --pending_;
}

Task<> Injector::hurt(const Fault& fault, Peer& peer) {
  SimNetwork& network = stage_.network();
  const TimePoint until = clock().now() + fault.length;
  const bool for_ever = fault.length == Duration();
  const auto wait = [&]() -> Task<> { co_await clock().sleep_until(for_ever ? TimePoint::max() : until); };
  switch (fault.kind) {
    case FaultKind::kill:
    case FaultKind::leave:
      if (fault.kind == FaultKind::leave) co_await peer.leave();
      network.kill(peer.host());
      co_await peer.kill();
      invariants_.killed(peer.number(), fault.blank);
      if (for_ever) co_return;
      co_await wait();
      network.revive(peer.host());
      peer.start(fault.blank);
      break;
    case FaultKind::freeze:
      network.freeze(peer.host());
      co_await wait();
      network.thaw(peer.host());
      break;
    case FaultKind::partition:
      isolated_.insert(peer.host().name());
      isolate();
      co_await wait();
      isolated_.erase(peer.host().name());
      isolate();
      break;
    case FaultKind::ban:
      co_await ban(for_ever ? kBanned : fault.length, peer);
      if (for_ever) co_return;
      co_await wait();
      network.revive(peer.host());
      peer.start();
      break;
    case FaultKind::join:
    case FaultKind::coordinator: break;
  }
}

/// Until its process has ended by itself.
Task<> Injector::ban(Duration length, Peer& peer) {
  peer.banned(true);
  invariants_.expelled(peer.number(), true);
  co_await stage_.ban(peer.id(), length);
  const TimePoint latest = clock().now() + kDismissedIn;
  while (!peer.dismissed() && clock().now() < latest)
    co_await clock().sleep_until(clock().now() + std::chrono::milliseconds(100));
  if (!peer.dismissed()) invariants_.add("live", {peer.number()}, "banned, and it goes on");
  stage_.network().kill(peer.host());
  co_await peer.kill();
  peer.banned(false);
  invariants_.expelled(peer.number(), false);
  invariants_.killed(peer.number(), false);
}

/// The network knows one side: peers that are cut off at the same time share it.
void Injector::isolate() {
  stage_.network().heal();
  stage_.network().partition(isolated_);
}

}  // namespace collab::sim
