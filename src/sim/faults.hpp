#pragma once
// What goes wrong in a simulated run: events drawn before it from a seed, or aimed at a moment of a round.

#include "base/clock.hpp"
#include "sim/witness.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace collab::sim {

enum class FaultKind : std::uint8_t {
  kill,         ///< process gone at once; back after `length`
  leave,        ///< a planned leave; back after `length`
  freeze,       ///< runs nothing for `length`
  partition,    ///< cut off from all others for `length`
  join,         ///< one more peer; it stays
  coordinator,  ///< the coordinator is killed; back after `length`
  ban,          ///< by the run's authority; its process ends, as it must; back after `length`, when the ban is over
};
std::string_view name(FaultKind kind) noexcept;
std::string_view name(Phase phase) noexcept;

/// Whom an aimed fault waits for.
enum class Aim : std::uint8_t {
  any,          ///< whoever is there first
  coordinator,  ///< of view 0: the reachable peer with the smallest id
  client,       ///< cannot be dialled
  peer,         ///< the one named
};

struct Fault {
  Duration at{};  ///< virtual time; of an aimed one: not before
  FaultKind kind = FaultKind::kill;
  std::size_t peer = 0;  ///< the victim's number; meaningless for `join` and `coordinator`, and where an aim chooses
  Duration length{};     ///< zero: for ever
  bool blank = false;    ///< kill: comes back with an empty disk
  std::optional<Phase> phase;  ///< strikes when the victim is there
  Aim aim = Aim::any;
};
/// "freeze peer 3 at 12.5 s for 4.0 s".
std::string describe(const Fault& fault);

/// Rates per peer and hour, and how long each lasts: drawn evenly between the two bounds.
struct Mixture {
  struct Range {
    double min_s = 0;
    double max_s = 0;
  };
  double kill = 0;
  double leave = 0;
  double freeze = 0;
  double partition = 0;
  double blank = 0.3;  ///< of kills: the disk is lost as well
  Range down{5, 10};   ///< killed or left, until it is back
  Range away{2, 8};    ///< frozen or cut off
};

struct FaultPlan {
  Mixture mixture;
  std::vector<Fault> events;  ///< beside what the mixture draws
};

/// "calm", "churn", or a TOML file with [rates], [seconds] and [[event]] as doc/operating.md shows. Throws
/// `Failure(usage)`, naming file and key.
FaultPlan load_faults(const std::string& preset_or_file);
/// The events of a run of `length` with `peers` peers, by time. The last quarter, and the time of gathering before
/// `calm_until`, have none of the mixture's.
std::vector<Fault> draw_faults(const FaultPlan& plan, std::uint64_t seed, std::size_t peers, Duration calm_until,
                               Duration length);

}  // namespace collab::sim
