#pragma once
// Whether rounds end in time, whatever strikes.

#include "sim/faults.hpp"
#include "sim/violation.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace collab::sim {

struct LivenessOptions {
  Duration after_one_fault = std::chrono::seconds(5);  ///< since the fault and the last hand-over
  Duration round_max = std::chrono::seconds(10);       ///< since the own hand-over, whatever strikes
};

/// Fed by the witness of a swarm. Thread safety: none.
class Liveness {
 public:
  Liveness(Clock& clock, LivenessOptions options, Violations& violations)
      : clock_(clock), options_(options), violations_(violations) {}

  /// This strikes `peer` from now on.
  void struck(std::size_t peer, const Fault& fault);
  /// It has passed.
  void over(std::size_t peer, FaultKind kind);
  void handed_over(std::size_t peer, const std::string& group);
  /// The peer's round has an outcome, good or bad.
  void decided(std::size_t peer, const std::string& group);

  /// Nothing strikes, or has for `quiet`.
  bool calm_for(Duration quiet) const;

 private:
  struct Strike {
    std::size_t peer = 0;
    Fault fault;
    TimePoint from{};
    std::optional<TimePoint> until;  // none: it lasts
  };
  struct Round {
    std::map<std::size_t, TimePoint> handed_over;
  };

  std::vector<const Strike*> strikes_around(TimePoint from) const;
  void forget(TimePoint before);

  Clock& clock_;
  LivenessOptions options_;
  Violations& violations_;
  std::vector<Strike> strikes_;
  std::map<std::string, Round> rounds_;
};

}  // namespace collab::sim
