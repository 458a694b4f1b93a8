#include "sim/injector.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace collab::sim {
namespace {

constexpr Duration kBanned = std::chrono::hours(1);          // for ever
constexpr Duration kDismissedIn = std::chrono::seconds(20);  // to hear of it, to be closed by all, to end
constexpr double kClogged = 0.2;                             // of all links, by a swizzle
constexpr Duration kRest = std::chrono::seconds(15);         // between two faults that cut one peer off

/// Whether a peer is gone for others, whole and at once.
bool cuts_off(FaultKind kind) {
  return kind == FaultKind::partition || kind == FaultKind::freeze || kind == FaultKind::reboot ||
         kind == FaultKind::suspend;
}

/// Whether only some of what it sends or is sent is lost.
bool half_cuts_off(FaultKind kind) {
  return kind == FaultKind::mute || kind == FaultKind::deaf || kind == FaultKind::flap || kind == FaultKind::swizzle;
}

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

/// Half cuts do not follow other cuts at once, nor others them: together they can last longer than records do (10 s),
/// and then two sides may rightly go on apart, which is not for every run.
bool Injector::rested(std::size_t peer, const Fault& fault) const {
  if (fault.close) return true;
  const auto last = cuts_.find(peer);
  if (last == cuts_.end() || clock().now() >= last->second.until + kRest) return true;
  return !half_cuts_off(fault.kind) && !(cuts_off(fault.kind) && half_cuts_off(last->second.kind));
}

/// Empty when it can strike.
std::string Injector::cannot(const Fault& fault, std::size_t victim) const {
  if (!has_victim(fault.kind)) return {};
  const auto& peers = stage_.all_peers();
  if (victim >= peers.size()) return fmt::format("there is no peer {}", victim);
  const bool by_plan = fault.kind == FaultKind::leave && fault.aim == Aim::peer;  // all may leave, one by one
  const bool there_too = by_plan && peers[victim]->lies();  // a liar is away as far as other faults are concerned
  if ((away_.contains(victim) && !there_too) || !peers[victim]->running()) return "its victim was away already";
  if (!rested(victim, fault)) return "it has only just been cut off";
  // two that agree are not one liar: of two voters who say the same an honest peer must believe them
  if (fault.kind == FaultKind::lie && lies_) return "another one lies already";
  if (fault.kind == FaultKind::ban) return stage_.coordinator_runs() ? "" : "the coordinator was away";
  const auto is = [&fault](FaultKind kind) { return fault.kind == kind; };
  const bool stays = is(FaultKind::slow) || is(FaultKind::drift) || is(FaultKind::corrupt) || is(FaultKind::spoil) ||
                     is(FaultKind::lie) || is(FaultKind::disk_full) || is(FaultKind::slow_disk);
  if (by_plan || stays) return {};
  const auto there = std::count_if(
      peers.begin(), peers.end(), [&](const auto& peer) { return peer->running() && !away_.contains(peer->number()); });
  if (2 * (static_cast<std::size_t>(there) - 1) <= peers.size()) return "too few would be left";
  return {};
}

bool Injector::away_within(std::size_t peer, Duration time) const {
  const auto back = back_.find(peer);
  return away(peer) || (back != back_.end() && clock().now() - back->second < time);
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
      co_await stop_coordinator(fault);
    } else if (fault.kind == FaultKind::swizzle) {
      co_await swizzle(fault);
    } else if (fault.kind == FaultKind::split) {
      co_await split(fault);
    } else {
      Peer& peer = *stage_.all_peers()[victim];
      away_.insert(victim);
      invariants_.live().struck(victim, fault);
      co_await hurt(fault, peer);
      if (cuts_off(fault.kind) || half_cuts_off(fault.kind)) cuts_[victim] = {fault.kind, clock().now()};
      if (peer.running()) {
        away_.erase(victim);
        back_[victim] = clock().now();
        invariants_.live().over(victim, fault.kind);
      }
    }
  }
  if (!for_ever) --pending_;
}

Task<> Injector::pause(Duration length) {
  const TimePoint end = length == Duration() ? TimePoint::max() : clock().now() + length;
  co_await clock().sleep_until(end);
}

Task<> Injector::hurt(const Fault& fault, Peer& peer) {
  switch (fault.kind) {
    case FaultKind::kill:
    case FaultKind::leave:
    case FaultKind::ban: co_return co_await end(fault, peer);
    case FaultKind::flap: co_return co_await flap(fault, peer);
    case FaultKind::corrupt: stage_.network().corrupt(peer.host()); co_return;
    case FaultKind::spoil:
      if (fault.amount == 0) {
        invariants_.spoilt(peer.number(), peer.spoil());
      } else {
        invariants_.ledger_spoilt(peer.number());
        peer.spoil_ledger();
      }
      co_return;
    default: break;
  }
  impose(fault, peer, true);
  co_await pause(fault.length);
  impose(fault, peer, false);
}

Task<> Injector::end(const Fault& fault, Peer& peer) {
  SimNetwork& network = stage_.network();
  const TimePoint back = clock().now() + fault.length;
  if (fault.kind == FaultKind::ban) {
    const Duration banned = fault.length == Duration() ? kBanned : fault.length;
    co_await ban(banned, peer);
  } else {
    if (fault.kind == FaultKind::leave) co_await peer.leave();
    network.kill(peer.host());
    co_await peer.kill();
    if (fault.kind == FaultKind::kill) invariants_.died(peer.number());  // who leaves hands on what it has
    invariants_.killed(peer.number(), fault.blank);
    if (fault.torn) peer.disk().tear();
  }
  if (fault.length == Duration()) co_return;
  co_await clock().sleep_until(back);
  network.revive(peer.host());
  peer.start(fault.blank);
}

void Injector::impose(const Fault& fault, Peer& peer, bool on) {
  SimNetwork& network = stage_.network();
  Host& host = peer.host();
  switch (fault.kind) {
    case FaultKind::freeze: on ? network.freeze(host) : network.thaw(host); break;
    case FaultKind::mute: network.block(host, on, false); break;
    case FaultKind::deaf: network.block(host, false, on); break;
    case FaultKind::lie:
      lies_ = on;
      peer.lie(on ? std::optional(fault.lie) : std::nullopt);
      invariants_.exaggerates(peer.number(), on && fault.lie == Lie::heavy);
      break;
    case FaultKind::disk_full: peer.disk().fill(on); break;
    case FaultKind::slow_disk: peer.disk().slow(on ? from_seconds(fault.amount) : Disk::kSyncTime); break;
    case FaultKind::drift: network.shift_calendar(host, on ? from_seconds(fault.amount) : Duration()); break;
    case FaultKind::slow:
      network.slow(host, on ? fault.amount : 1);
      peer.slow(on ? fault.amount : 1);
      break;
    case FaultKind::suspend:
      on ? network.suspend(host) : network.resume(host);
      isolate(host, on);
      break;
    case FaultKind::reboot:
      if (!on && host.box() != nullptr) network.reboot(*host.box());
      if (!on && host.box() == nullptr) network.renumber(host);
      isolate(host, on);
      break;
    case FaultKind::partition: isolate(host, on); break;
    default: break;
  }
}

/// Peers that are cut off at the same time share a side.
void Injector::isolate(const Host& host, bool on) {
  if (on)
    isolated_.insert(host.name());
  else
    isolated_.erase(host.name());
  separate();
}

Task<> Injector::flap(const Fault& fault, Peer& peer) {
  const TimePoint until = clock().now() + fault.length;
  for (bool down = true; clock().now() < until; down = !down) {
    stage_.network().block(peer.host(), down, down);
    co_await clock().sleep_until(std::min(until, clock().now() + from_seconds(fault.amount)));
  }
  stage_.network().block(peer.host(), false, false);
}

std::vector<Host*> Injector::rested_hosts(const Fault& swizzle) {
  std::vector<Host*> out(1, &stage_.coordinators_host());
  for (const auto& peer : stage_.all_peers())
    if (rested(peer->number(), swizzle) && !away_.contains(peer->number())) out.push_back(&peer->host());
  return out;
}

/// Each link is clogged once and opened once, the openings in an order of their own.
Task<> Injector::swizzle(const Fault& fault) {
  Random random = random_.derive(fmt::format("swizzle {}", fault.at.count()));  // whatever else strikes
  std::vector<std::pair<Host*, Host*>> links;
  const std::vector<Host*> rested = rested_hosts(fault);
  for (Host* from : rested)
    for (Host* to : rested)
      if (from != to && random.chance(kClogged)) links.emplace_back(from, to);
  std::set<std::size_t> struck;
  for (const auto& peer : stage_.all_peers()) {
    const auto ends_here = [&](const auto& link) {
      return link.first == &peer->host() || link.second == &peer->host();
    };
    if (std::any_of(links.begin(), links.end(), ends_here)) struck.insert(peer->number());
  }
  for (const std::size_t peer : struck) {
    cuts_[peer] = {fault.kind, clock().now() + fault.length};
    invariants_.live().struck(peer, fault);
  }
  const auto turn = fault.length / static_cast<Duration::rep>(2 * links.size() + 1);
  for (int clogged = 1; clogged >= 0; --clogged) {
    for (std::size_t left = links.size(); left > 1; --left) std::swap(links[random.below(left)], links[left - 1]);
    for (const auto& [from, to] : links) {
      stage_.network().clog(*from, *to, clogged == 1);
      co_await clock().sleep_until(clock().now() + turn);
    }
  }
  for (const std::size_t peer : struck) invariants_.live().over(peer, fault.kind);
}

/// The coordinator is with the first peers. Whoever is struck alone meanwhile is cut off from both sides.
Task<> Injector::split(const Fault& fault) {
  const auto& peers = stage_.all_peers();
  const std::size_t count = peers.size();
  const auto cut_off = static_cast<std::size_t>(std::lround(fault.amount * static_cast<double>(count)));
  std::vector<std::size_t> side;
  for (std::size_t peer = count - std::min(cut_off, count - 1); peer < count; ++peer) side.push_back(peer);
  for (const std::size_t peer : side) side_.insert(peers[peer]->host().name());
  invariants_.split(side);
  for (std::size_t peer = 0; peer < count; ++peer) invariants_.live().struck(peer, fault);
  separate();
  co_await pause(fault.length);
  side_.clear();
  separate();
  for (std::size_t peer = 0; peer < count; ++peer) invariants_.live().over(peer, fault.kind);
}

/// Who hears whom: the two sides of a split among themselves, and of those cut off alone each nobody.
void Injector::separate() {
  stage_.network().separate({isolated_, side_});
}

Task<> Injector::stop_coordinator(const Fault& fault) {
  co_await stage_.kill_coordinator();
  if (fault.length == Duration()) co_return;
  co_await pause(fault.length);
  stage_.start_coordinator();
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

}  // namespace collab::sim
