#pragma once
// Carries out faults, each on its victim and at its moment.

#include "base/task_group.hpp"
#include "sim/faults.hpp"
#include "sim/invariants.hpp"
#include "sim/network.hpp"
#include "sim/peer.hpp"
#include "sim/recorder.hpp"
#include "sim/report.hpp"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace collab::sim {

/// The world that faults happen to.
class Stage {
 public:
  virtual ~Stage() = default;
  virtual Simulation& simulation() = 0;
  virtual SimNetwork& network() = 0;
  virtual std::vector<std::unique_ptr<Peer>>& all_peers() = 0;
  virtual Peer& add_peer() = 0;
  virtual Task<> kill_coordinator() = 0;
  virtual void start_coordinator() = 0;
  /// The authority's word, handed on by the coordinator, which runs.
  virtual Task<> ban(const PeerId& peer, Duration lasts) = 0;
  virtual bool coordinator_runs() const = 0;
  virtual Host& coordinators_host() = 0;
};

/// One fault at a time for each peer; and never so many peers at once that no quorum is left, where a banned one is
/// no part of it. A fault that meets neither condition does not strike, and its fact says why.
class Injector {
 public:
  Injector(Stage& stage, Recorder& recorder, Invariants& invariants, const Random& random)
      : stage_(stage), recorder_(recorder), invariants_(invariants), random_(random) {}

  void plan(std::vector<Fault> faults);
  /// The timed ones; aimed ones wait for `reached`. `tasks` outlives the injector's use.
  void start(TaskGroup& tasks);
  /// Called inside the peer's code: what strikes then strikes as soon as it waits.
  void reached(std::size_t peer, Phase phase);
  bool away(std::size_t peer) const { return away_.contains(peer); }
  /// Hurt now, or less than `time` ago.
  bool away_within(std::size_t peer, Duration time) const;
  /// Nothing is under way or due, other than aimed faults that have found no victim yet.
  bool idle() const noexcept { return pending_ == 0; }
  const std::vector<FaultFact>& facts() const noexcept { return facts_; }

 private:
  Task<> timed(std::size_t index);
  Task<> strike(std::size_t index, std::size_t victim);
  Task<> hurt(const Fault& fault, Peer& peer);
  /// What kill, leave and ban have in common: gone, and perhaps back.
  Task<> end(const Fault& fault, Peer& peer);
  /// What the peer's process outlives.
  void impose(const Fault& fault, Peer& peer, bool on);
  Task<> flap(const Fault& fault, Peer& peer);
  Task<> swizzle(const Fault& fault);
  Task<> split(const Fault& fault);
  void isolate(const Host& host, bool on);
  void separate();
  Task<> stop_coordinator(const Fault& fault);
  Task<> ban(Duration length, Peer& peer);
  bool matches(const Fault& fault, std::size_t peer) const;
  std::string cannot(const Fault& fault, std::size_t victim) const;
  struct Cut {
    FaultKind kind = FaultKind::partition;
    TimePoint until{};
  };
  bool rested(std::size_t peer, const Fault& fault) const;
  std::vector<Host*> rested_hosts(const Fault& swizzle);
  Task<> pause(Duration length);
  Clock& clock() const { return stage_.simulation().clock(); }

  Stage& stage_;
  Recorder& recorder_;
  Invariants& invariants_;
  Random random_;
  std::vector<FaultFact> facts_;
  std::vector<bool> used_;
  TaskGroup* tasks_ = nullptr;
  std::set<std::size_t> away_;             // hurt now
  std::map<std::size_t, TimePoint> back_;  // since when it is whole again
  std::map<std::size_t, Cut> cuts_;        // the last one of each
  std::set<std::string> isolated_;         // hosts that are cut off alone
  std::set<std::string> side_;             // hosts of the smaller part of a split
  bool lies_ = false;                      // somebody does
  std::size_t pending_ = 0;
};

}  // namespace collab::sim
