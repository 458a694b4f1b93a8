#pragma once
// What goes wrong in a simulated run: events drawn before it from a seed, or aimed at a moment of a round.

#include "base/clock.hpp"
#include "sim/liar.hpp"
#include "sim/witness.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
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
  mute,         ///< nothing that it sends arrives for `length`; then all of it does
  deaf,         ///< the same for what it is sent
  slow,         ///< computes and sends at an `amount`th of its speed for `length`
  flap,         ///< its line is down and up by turns of `amount` seconds for `length`
  drift,        ///< its calendar is `amount` seconds ahead of the world's for `length`
  corrupt,      ///< one bit of the next bytes that it sends arrives wrong
  spoil,        ///< one of its parameters changes, as in bad memory; with an `amount`: its ledger does
  swizzle,      ///< some links are clogged one by one and opened in another order, within `length`
  lie,          ///< tells others what is not so, for `length`
  split,        ///< the last `amount` of all peers, a share, are cut off from the others for `length`: two swarms
  disk_full,    ///< its disk takes no checkpoint for `length`
  slow_disk,    ///< a checkpoint is on its disk only `amount` seconds after it was written, for `length`
  reboot,       ///< of its router: nothing passes for `length`, then the box in front of it has another address and no
                ///< mappings, or, where there is none, it has another address itself
  suspend,      ///< its lid is closed for `length`: it runs nothing, is cut off, and its steady clock stands still
};
std::string_view name(FaultKind kind) noexcept;
std::string_view name(Phase phase) noexcept;
bool has_victim(FaultKind kind) noexcept;

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
  std::size_t peer = 0;        ///< the victim's number, where its kind has one and no aim chooses
  Duration length{};           ///< zero: for ever
  double amount = 0;           ///< as its kind says
  bool blank = false;          ///< kill: comes back with an empty disk
  bool torn = false;           ///< kill: comes back with its newest checkpoint damaged
  bool close = false;          ///< of what cuts off: also right after another cut of the same peer
  Lie lie = Lie::not_finite;   ///< of a lie: which
  std::optional<Phase> phase;  ///< strikes when the victim is there
  Aim aim = Aim::any;
};
/// "freeze peer 3 at 12.5 s for 4.0 s".
std::string describe(const Fault& fault);

/// What strikes by chance.
struct Mixture {
  struct Range {
    double min = 0;
    double max = 0;
  };
  std::map<FaultKind, double> rates;  ///< per peer and hour; none of `join`, `coordinator`, `split` and `ban`
  double blank = 0.3;                 ///< of kills: the disk is lost as well
  double torn = 0;                    ///< of the others: the newest checkpoint is damaged
  bool close = false;                 ///< half cuts follow other cuts of a peer at once: `Fault::close`
  double from_s = 15;                 ///< nothing strikes sooner: all are to have joined
  // seconds that it lasts, drawn evenly between the two
  Range down{5, 10};     ///< killed or left, until it is back
  Range away{2, 8};      ///< frozen, cut off, mute, deaf, flapping, clogged, its box rebooting
  Range adverse{5, 30};  ///< slow, adrift
  // amounts
  Range slowness{2, 10};
  Range turn_s{1, 5};
  Range drift_s{-90, 90};
  Range sync_s{1, 20};
};

struct FaultPlan {
  Mixture mixture;
  std::vector<Fault> events;  ///< beside what the mixture draws
  /// Beside these, each once and on anybody, in an order drawn from the seed, one every `gap`.
  std::vector<FaultKind> series;
  Duration gap{};
};

/// "calm", "home", "churn", "storm", "hostile", "soak62", "split", "orphan", or a TOML file with [rates], [ranges] and
/// [[event]] as doc/operating.md shows. Throws `Failure(usage)`, naming file and key.
FaultPlan load_faults(const std::string& preset_or_file);
/// The events of a run of `length` with `peers` peers, by time. The last quarter has none of the mixture's.
std::vector<Fault> draw_faults(const FaultPlan& plan, std::uint64_t seed, std::size_t peers, Duration length);
/// As a file that `load_faults` reads: exactly these events.
std::string to_toml(const std::vector<Fault>& events);

}  // namespace collab::sim
