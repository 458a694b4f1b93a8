#pragma once
// What a round did, for the log, the progress record and the dashboard.

#include "averaging/fault.hpp"
#include "averaging/members.hpp"
#include "averaging/weight_run.hpp"

#include <cstdint>
#include <vector>

namespace collab::averaging {

/// Why a peer's values are missing from some chunk, as far as this peer can tell.
enum class LeftOut : std::uint8_t {
  no,
  elsewhere,  ///< by another owner, who knows why
  dead,       ///< its connection broke, or it closed its end of the round, or was in another group
  frozen,     ///< it answered no pings, or moved none of the bytes it owed
  slow,       ///< it moved far less than planned
  refused,    ///< what it sent was bad: see `fault`
};

struct PeerReport {
  PeerId id;
  matchmaking::Role role = matchmaking::Role::node;
  double counted = 0;        ///< share of the values that its part is in
  std::uint64_t weight = 0;  ///< as it told this peer; 0: unknown, or it listened only
  std::uint64_t work = 0;    ///< units that the round counted as its own
  LeftOut left_out = LeftOut::no;
  Fault fault = Fault::none;
  std::uint64_t bytes_up = 0;    ///< frames sent to it in this round
  std::uint64_t bytes_down = 0;  ///< frames received from it
  double up_bytes_per_s = 0;     ///< over the exchange
  double down_bytes_per_s = 0;
};

struct SegmentReport {
  Rank owner = 0;            ///< who reduced or served it in the last view
  Ranks senders = 0;         ///< whose parts are in all of it
  Ranks spoken_for = 0;      ///< whose values are in all of it, by a part of their own or of their previous group
  Ranks overlapping = 0;     ///< left out because their units are counted already
  std::uint64_t weight = 0;  ///< the smallest of its chunks
};

struct RoundReport {
  enum class Outcome : std::uint8_t {
    failed,  ///< nothing changed here; others may have committed
    committed,
    behind,  ///< the group committed, and this peer could not get the result in time
  };
  /// Why it failed.
  enum class Reason : std::uint8_t {
    none,
    no_quorum,
    weight_low,
    no_weight,
    deadline,
    nobody_reachable,
    does_not_fit,  ///< the group and the vector
    not_held,      ///< nobody could give us the committed result
  };

  matchmaking::GroupId group{};
  std::uint64_t epoch = 0;
  std::uint32_t round = 0;
  Outcome outcome = Outcome::failed;
  Reason reason = Reason::none;
  bool undecided = false;   ///< failed, but this peer had signed for a result: without its knowing others may commit it
  std::uint32_t views = 1;  ///< plans that this peer followed
  std::vector<PeerReport> peers;        ///< by rank
  std::vector<SegmentReport> segments;  ///< in the order of the manifest
  std::uint64_t weight = 0;             ///< the smallest behind a value
  std::vector<WeightRun> weight_runs;   ///< one entry when nobody was lost half-way
  double exchange_s = 0;                ///< until all results were here
  double commit_s = 0;                  ///< from then until the commit
  double apply_s = 0;                   ///< to decode the result
  double predicted_s = 0;               ///< of the exchange, from measured rates
  std::uint64_t bad_frames = 0;         ///< refused as no honest peer's
  std::uint64_t dropped_frames = 0;     ///< of views to come, beyond the bound
  Digest result{};                      ///< hash of the manifest; zero unless committed
  bool coarse = false;                  ///< values travelled by CodecMap::coarse()
};

}  // namespace collab::averaging
