#include "sim/liveness.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace collab::sim {
namespace {

using std::chrono::seconds;

constexpr Duration kEcho = seconds(15);     // a strike that is over still disturbs for so long: records, connections
constexpr Duration kMemory = seconds(300);  // rounds and strikes older than this judge nothing any more

}  // namespace

void Liveness::struck(std::size_t peer, const Fault& fault) {
  strikes_.push_back({peer, fault, clock_.now(), std::nullopt});
}

void Liveness::over(std::size_t peer, FaultKind kind) {
  for (Strike& strike : strikes_) {
    if (strike.peer == peer && strike.fault.kind == kind && !strike.until) strike.until = clock_.now();
  }
}

void Liveness::handed_over(std::size_t peer, const std::string& group) {
  rounds_[group].handed_over[peer] = clock_.now();
  forget(clock_.now() - kMemory);
}

std::vector<const Liveness::Strike*> Liveness::strikes_around(TimePoint from) const {
  std::vector<const Strike*> around;
  for (const Strike& strike : strikes_) {
    if (!strike.until || *strike.until + kEcho >= from) around.push_back(&strike);
  }
  return around;
}

void Liveness::decided(std::size_t peer, const std::string& group) {
  const auto found = rounds_.find(group);
  if (found == rounds_.end() || !found->second.handed_over.contains(peer)) return;
  const TimePoint now = clock_.now();
  const TimePoint mine = found->second.handed_over.at(peer);
  const auto around = strikes_around(mine);
  double slowness = 1;
  bool unsteady = false;  // nobody is gone, but somebody sends now and then, or little, or without hearing
  for (const Strike* strike : around) {
    const FaultKind kind = strike->fault.kind;
    const bool stood_still = kind == FaultKind::freeze || kind == FaultKind::suspend;
    if (strike->peer == peer && stood_still) return;  // its own clock did
    if (kind == FaultKind::slow) slowness = std::max(slowness, strike->fault.amount);
    // who is cut off alone comes back in the middle of a round, with a view of its own
    const bool half_there = kind == FaultKind::slow || kind == FaultKind::flap || kind == FaultKind::deaf ||
                            kind == FaultKind::partition || kind == FaultKind::reboot || kind == FaultKind::suspend;
    unsteady = unsteady || half_there || strike->peer == peer;
  }
  const auto violated = [&](std::string text) {
    violations_.add({"live", now.time_since_epoch(), {peer}, std::move(text)});
  };
  const Duration round_max = from_seconds(slowness * to_seconds(options_.round_max));
  if (now - mine > round_max) {
    violated(fmt::format("a round took {:.2f} s, at most {:.2f} s are allowed", to_seconds(now - mine),
                         to_seconds(round_max)));
  }
  if (unsteady) return;
  if (around.size() > 1) return;
  TimePoint since = mine;
  for (const auto& [other, when] : found->second.handed_over) {
    if (around.empty() || around.front()->peer != other) since = std::max(since, when);
  }
  if (!around.empty()) since = std::max(since, around.front()->from);
  if (now - since <= options_.after_one_fault) return;
  violated(fmt::format("a round went on for {:.2f} s after {}", to_seconds(now - since),
                       around.empty()
                           ? "everybody had handed over"
                           : fmt::format("{} of peer {}", name(around.front()->fault.kind), around.front()->peer)));
}

bool Liveness::calm_for(Duration quiet) const {
  const TimePoint since = clock_.now() - quiet;
  return std::all_of(strikes_.begin(), strikes_.end(),
                     [&](const Strike& strike) { return strike.until && *strike.until < since; });
}

void Liveness::forget(TimePoint before) {
  std::erase_if(strikes_, [&](const Strike& strike) { return strike.until && *strike.until < before; });
  std::erase_if(rounds_, [&](const auto& entry) {
    return std::all_of(entry.second.handed_over.begin(), entry.second.handed_over.end(),
                       [&](const auto& handed) { return handed.second < before; });
  });
}

}  // namespace collab::sim
