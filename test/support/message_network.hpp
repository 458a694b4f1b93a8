#pragma once
// Endpoints without connections: whole frames between peers of one simulation, for tests of the protocols above net.
// Frames of one pair and class stay in order, as on a real stream.

#include "base/random.hpp"
#include "base/signal.hpp"
#include "base/task_group.hpp"
#include "net/endpoint.hpp"
#include "sim/simulation.hpp"
#include "support/peers.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace collab::test {

/// How the links behave. Every field is a promise the test makes to the reader.
struct LinkOptions {
  Duration latency_min = std::chrono::milliseconds(5);
  Duration latency_max = std::chrono::milliseconds(40);
  double bytes_per_s = 0;                               ///< of one direction of one pair; 0: no limit
  Duration lost_after = std::chrono::milliseconds(50);  ///< a dead peer's connections break after this
};

class MessageNetwork {
 public:
  /// Lives inside `world`, which outlives it.
  MessageNetwork(sim::Simulation& world, std::uint64_t seed, LinkOptions options = {});
  ~MessageNetwork();

  net::Endpoint& add_peer(const PeerId&);
  /// Gone at once: what is in flight from it is lost from a random moment on, nothing reaches it any more.
  void kill(const PeerId&);
  /// Whoever is killed can be met again: by a new life.
  void revive(const PeerId&);
  /// Receives and answers nothing, not even pings, until thawed; then what waited arrives. Its own sends still leave,
  /// because the test's coroutine for it is not stopped: pass `mute` to hold those back too.
  void freeze(const PeerId&, bool mute = true);
  void thaw(const PeerId&);
  /// Nothing moves between the two sides until healed; it arrives afterwards.
  void partition(std::set<PeerId> side);
  void heal();
  /// Equal for two runs that delivered the same frames in the same order at the same times.
  std::uint64_t fingerprint() const noexcept { return fingerprint_; }
  std::uint64_t frames_delivered() const noexcept { return delivered_; }
  /// How often `peer` was called by this method, answered or not.
  std::uint64_t calls_of(const PeerId& peer, const std::string& method) const {
    const auto found = asked_.find({peer, method});
    return found == asked_.end() ? 0 : found->second;
  }

 private:
  class Peer;
  class Talk;
  using Lane = std::tuple<PeerId, PeerId, net::TrafficClass>;
  struct InFlight;

  bool held(const PeerId& from, const PeerId& to) const;
  bool lost_with_sender(const Lane&);
  TimePoint arrival(const Lane&, std::size_t bytes);
  Task<> carry(std::shared_ptr<InFlight>);
  void arrive(std::shared_ptr<InFlight>);
  void mix(std::uint64_t value) noexcept { fingerprint_ = (fingerprint_ ^ value) * 0x100000001b3U; }

  sim::Simulation& world_;
  Random random_;
  LinkOptions options_;
  std::map<PeerId, std::unique_ptr<Peer>> peers_;
  std::map<PeerId, TimePoint> dead_;
  std::map<PeerId, bool> frozen_;  // value: mute
  std::set<PeerId> side_;
  std::map<Lane, std::pair<TimePoint, TimePoint>> lanes_;  // when the line is free, when its last frame arrives
  std::map<Lane, TimePoint> cuts_;                         // of dead senders
  Signal moved_;
  TaskGroup in_flight_;
  std::uint64_t fingerprint_ = 0xcbf29ce484222325U;
  std::uint64_t delivered_ = 0;
  std::map<std::pair<PeerId, std::string>, std::uint64_t> asked_;
};

}  // namespace collab::test
