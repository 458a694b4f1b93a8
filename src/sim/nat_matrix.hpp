#pragma once
// Every pair of kinds of boxes, again and again, on short and long ways and before doors that are closed in silence or
// with a word: what each comes to, how often and how soon.

#include "sim/nat_pairs.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace collab::sim {

/// How two peers are to meet.
enum class NatWay : std::uint8_t {
  dialled,  ///< one is public, and the other dials it
  punched,  ///< a relay led from one to the other, and they need it no more
  relayed,  ///< a relay leads there, and nothing else was tried
  led_on,   ///< one is public, but not where the other is let out to: a relay leads there, and carries tensors
  nothing,  ///< of an outcome: they do not meet
};
std::string_view name(NatWay way) noexcept;

/// Between all hosts, and of all boxes.
struct NatSetting {
  std::string name;
  LinkOptions links;
  NatClosed closed = NatClosed::drops;
  /// Of the longest way there and back.
  Duration rtt() const;
};
/// 1, 40 and 120 ms of a round trip, the last with jitter and loss; boxes that drop, and boxes that reset.
std::vector<NatSetting> nat_settings();

struct NatMatrixOptions {
  std::uint64_t seed = 1;  ///< of the first try; each has one of its own
  std::size_t tries = 20;
  std::vector<NatKind> kinds = nat_kinds();
  std::vector<NatSetting> settings = nat_settings();
  Crypto crypto = Crypto::fake;
  std::function<bool(std::size_t done, std::size_t all)> go_on;  ///< asked before each run; empty: to the end
};

/// A pair of kinds in one setting. Two of one home are in none: they find each other by multicast, which is not
/// simulated.
struct NatCell {
  std::size_t setting = 0;
  std::size_t a = 0;
  std::size_t b = 0;
  NatWay expected = NatWay::dialled;
  std::size_t tries = 0;
  std::size_t as_expected = 0;
  // of those, ascending
  std::vector<Duration> answered_in;  ///< the first call, by whichever way
  std::vector<Duration> punched_in;   ///< since that call began
  std::vector<Duration> crossed_in;   ///< NatPair::crossed_in
};

struct NatMatrix {
  std::vector<NatKind> kinds;
  std::vector<NatSetting> settings;
  std::vector<NatCell> cells;
  std::vector<std::string> lies;  ///< of single tries: nat_lies, and what was not as expected
  std::size_t tries = 0;          ///< of each cell; fewer than asked for when it was stopped
};

NatWay expected_way(const NatKind& a, const NatKind& b) noexcept;
NatMatrix run_nat_matrix(const NatMatrixOptions& options);
struct NatLimits {
  Duration answered_in;                            ///< of all tries; of a punched cell, of the median
  Duration punched_in = std::chrono::seconds(10);  ///< of all
};
NatLimits limits_of(NatWay way, const NatSetting& setting) noexcept;
/// Which cells fall short, as sentences: a punched one may miss one try of fifty, any other none.
std::vector<std::string> short_cells(const NatMatrix& matrix);

}  // namespace collab::sim
