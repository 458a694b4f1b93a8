#include "sim/shrink.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace collab::sim {
namespace {

constexpr std::size_t kValuesMin = 256;
constexpr std::size_t kPeersMin = 2;
constexpr Duration kLengthMin = std::chrono::milliseconds(100);

/// One search. Every `try_…` keeps a change when the same invariant still breaks, and says whether one was kept.
class Search {
 public:
  Search(SwarmOptions options, Violation violation, const ShrinkNeeds& needs)
      : best_{std::move(options), std::move(violation), 0}, needs_(needs) {
    best_.options.stop_at = best_.violation.invariant;
  }

  Shrunk run() {
    for (bool smaller = true; smaller && !needs_.stop();) {
      smaller = try_fewer_events();
      smaller = try_fewer_peers() || smaller;
      smaller = try_shorter_events() || smaller;
      smaller = try_smaller_model() || smaller;
      smaller = try_plain_links() || smaller;
    }
    best_.options.stop_at.clear();
    return std::move(best_);
  }

 private:
  bool keeps(const std::function<void(SwarmOptions&)>& change) {
    if (needs_.stop()) return false;
    SwarmOptions options = best_.options;
    change(options);
    ++best_.runs;
    Swarm swarm(options);
    swarm.stop_when([this](Duration) { return needs_.stop(); });
    const Outcome outcome = swarm.run();
    const auto broken = std::find_if(outcome.violations.begin(), outcome.violations.end(),
                                     [&](const Violation& one) { return one.invariant == options.stop_at; });
    if (broken == outcome.violations.end()) return false;
    best_.options = std::move(options);
    best_.violation = *broken;
    needs_.smaller(best_);
    return true;
  }

  /// Halves first, then quarters, at last one by one.
  bool try_fewer_events() {
    bool any = false;
    const auto count = [this] { return best_.options.faults.events.size(); };
    for (std::size_t chunk = count(); chunk > 0; chunk = chunk > 1 ? (chunk + 1) / 2 : 0) {
      for (std::size_t begin = 0; begin < count();) {
        const std::size_t end = std::min(begin + chunk, count());
        const bool without = keeps([&](SwarmOptions& options) {
          auto& events = options.faults.events;
          events.erase(events.begin() + static_cast<std::ptrdiff_t>(begin),
                       events.begin() + static_cast<std::ptrdiff_t>(end));
        });
        any = any || without;
        if (!without) begin = end;
      }
    }
    return any;
  }

  /// The last ones that no event names.
  bool try_fewer_peers() {
    std::size_t least = std::max(kPeersMin, best_.options.clients + 1);
    for (const Fault& fault : best_.options.faults.events)
      if (fault.aim == Aim::peer) least = std::max(least, fault.peer + 1);
    bool any = false;
    for (std::size_t away = best_.options.peers; away > 0; away /= 2) {
      while (best_.options.peers >= least + away && keeps([&](SwarmOptions& options) { options.peers -= away; }))
        any = true;
    }
    return any;
  }

  bool try_shorter_events() {
    bool any = false;
    for (std::size_t i = 0; i < best_.options.faults.events.size(); ++i) {
      const auto length = [&](SwarmOptions& options) -> Duration& { return options.faults.events[i].length; };
      while (length(best_.options) > kLengthMin && keeps([&](SwarmOptions& options) { length(options) /= 2; }))
        any = true;
    }
    return any;
  }

  bool try_smaller_model() {
    bool any = false;
    while (best_.options.values > kValuesMin && keeps([](SwarmOptions& options) { options.values /= 2; })) any = true;
    return any;
  }

  bool try_plain_links() {
    LinkOptions& now = best_.options.links;
    bool any = now.loss > 0 && keeps([](SwarmOptions& options) { options.links.loss = 0; });
    any = (now.jitter > 0 && keeps([](SwarmOptions& options) { options.links.jitter = 0; })) || any;
    const bool alike = now.latency_min == now.latency_max;
    return (!alike && keeps([](SwarmOptions& options) { options.links.latency_max = options.links.latency_min; })) ||
           any;
  }

  Shrunk best_;
  const ShrinkNeeds& needs_;
};

}  // namespace

Shrunk shrink(const SwarmOptions& options, const Outcome& broken, const ShrinkNeeds& needs) {
  SwarmOptions first = options;
  first.faults = FaultPlan();
  for (const FaultFact& fact : broken.faults)
    if (fact.struck) first.faults.events.push_back(fact.fault);
  // a budget that follows from the number of peers would move the end of the run with it
  if (first.length == Duration()) first.length = broken.length;
  return Search(std::move(first), broken.violations.front(), needs).run();
}

}  // namespace collab::sim
