#pragma once
// How much of what members say of their lines is believed when segments are planned.

#include "averaging/load_balance.hpp"
#include "averaging/report.hpp"
#include "matchmaking/group.hpp"
#include "net/throttle.hpp"

#include <map>
#include <span>
#include <vector>

namespace collab::averaging {

/// What a peer tells of its own line in one direction, in bytes/s; 0: nothing is known. `measured`: its best
/// connection, 0 where there is none. What its owner allows is all there is, and it is there when it was used up.
double claimed_rate(double measured, const net::Cap& cap, const LoadOptions& options);

/// Everybody tells its own rates, and who claims most owns most: a liar could own the whole vector. So a claim that
/// nobody has seen come true counts for at most twice the median of the roster's, or twice what its owner has moved in
/// a round that committed, if that is more: who really is so fast has all of its share within a few rounds. Whoever had
/// to be replaced as an owner counts for half of the median, and for twice as much after each round without that, until
/// the bound above is reached.
///
/// Each member judges by the rounds that it was in, so leaders may differ; the plan travels in Begin, and all follow
/// it. Memory: 1024 peers. Thread safety: none; belongs to the node's loop.
class ClaimedRates {
 public:
  /// `loads`, by rank like `roster`, with rates cut to what is believed of each; unknown ones stay so.
  std::vector<MemberLoad> believed(std::span<const PeerId> roster, std::vector<MemberLoad> loads,
                                   const LoadOptions& options) const;

  /// What the round of `group` showed of its members. `report`: this peer's; one that did not commit shows nothing.
  void see(const matchmaking::Group& group, const RoundReport& report, const LoadOptions& options);

 private:
  struct Shown {
    double up_bytes_per_s = 0;
    double down_bytes_per_s = 0;
    bool replaced = false;      ///< not long ago
    unsigned clean_rounds = 0;  ///< since then
  };

  std::map<PeerId, Shown> shown_;
};

}  // namespace collab::averaging
