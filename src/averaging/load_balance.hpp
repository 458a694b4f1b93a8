#pragma once
// How much of the vector each reachable peer averages, so that the slowest peer of the group is done as early as can
// be.

#include "base/error.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace collab::averaging {

/// What is known of one roster entry. Rates are measured, or told by their owner: any number is survived.
struct MemberLoad {
  double up_bytes_per_s = 0;  ///< 0 unknown
  double down_bytes_per_s = 0;
  bool sends = true;      ///< brings values and wants the result; an auxiliary does neither
  bool reachable = true;  ///< may own a segment; a client may not
};

struct LoadOptions {
  double part_bytes_per_value = 2;       ///< of the codec of parts
  double result_bytes_per_value = 2;     ///< of the codec of results
  std::uint32_t segment_units_min = 16;  ///< an owner of less is dropped, unless it is the last
  double rate_unknown = 12.5e6;          ///< bytes/s, where nobody's rate is known; else the median of the known
};

/// Two members whose connection is slower than their lines, because a relay carries it. Connections through relays are
/// not measured yet, so no leader hands these over: `collab-sim partition` does.
struct PairLimit {
  std::size_t a = 0;  ///< ranks, not equal
  std::size_t b = 0;
  double bytes_per_s = 0;  ///< each way; 0 unknown, which limits nothing
};

struct Shares {
  std::vector<double> of_member;  ///< of the vector, by rank; sum 1
  double seconds_per_value = 0;   ///< of the slowest member or pair
  bool pairs_weighed = true;      ///< false: that took too long, and these are the shares without pair limits
};

/// Solves the DeDLOC problem (arXiv 2106.10207, section 3.2) for a group in which every sender computes: minimises the
/// sorted vector of the members' times, slowest first. With m senders and share w, a member moves per value
///   up p·s(1-w) + r·w(m-s),   down p·w(m-s) + r·s(1-w)   bytes,  s = 1 for a sender, else 0; p, r as in `options`.
///
/// Each member's time is a convex function of its own share, and only the sum of the shares ties them. So where the
/// best shares leave part of the vector over, all that still own more than their best share are equally late (water
/// filling); likewise where they are too much; and where any of several splits is best, it is by min(up, down).
///
/// A pair limit t ties two shares: i sends j p·s_i·w_j + r·s_j·w_i bytes per value in at least that over t seconds.
/// Where the shares above keep the slower of both, they stay. Else a linear program finds the least time of the slowest
/// member or pair, and a second one the shares of that time that are nearest to those above, measured by the rates.
/// Both count their steps, about 20 ms of them at most, and know no clock. Errors: `bad_request` when nobody is
/// reachable or nobody sends, when a pair is not of two members, or when there are pairs among more than
/// `kGroupSizeMax` members.
Result<Shares> best_shares(std::span<const MemberLoad> members, const LoadOptions& options,
                           std::span<const PairLimit> pairs = {});

struct Times {
  std::vector<double> of_member;  ///< seconds per value, by rank
  double slowest = 0;             ///< of a member or a pair
};

/// How long any shares of sum 1 take. Errors: as above, and for another number of shares than of members.
Result<Times> predict(std::span<const MemberLoad> members, const LoadOptions& options, std::span<const double> shares,
                      std::span<const PairLimit> pairs = {});

struct LoadPlan {
  std::vector<std::uint32_t> units;  ///< by rank; what Begin carries
  double seconds = 0;                ///< predicted, of the slowest member or pair, for these units
  bool pairs_weighed = true;         ///< as in `Shares`
};

/// The same in whole units of a vector of `values` > 0: floors, then one more for the largest remainders, ties to the
/// lower rank. An owner with less than `segment_units_min` is dropped, the smallest first (of equals the highest rank),
/// and the rest solved again; the bound on steps is that of all together.
/// Errors: as above.
Result<LoadPlan> plan_load(std::span<const MemberLoad> members, std::size_t values, const LoadOptions& options,
                           std::span<const PairLimit> pairs = {});

}  // namespace collab::averaging
