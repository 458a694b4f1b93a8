#pragma once
// Butterfly all-reduce inside one group, committed by all survivors or by none.

#include "averaging/report.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "crypto/identity.hpp"
#include "matchmaking/group.hpp"
#include "net/endpoint.hpp"
#include "tensor/codec.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <memory>
#include <span>

namespace collab::averaging {

/// Everything a round needs of its node. All outlive it.
struct Context {
  net::Endpoint& net;
  Clock& clock;
  Log& log;
  const Identity& identity;       ///< signs Holds
  asio::any_io_executor workers;  ///< for long arithmetic; the loop itself in the simulator
};

struct AllReduceOptions {
  Duration silence_min = std::chrono::seconds(1);  ///< a peer that is silent for less is never suspected
  Duration silence_max = std::chrono::seconds(4);  ///< a peer that is silent for longer always is
  double slow_below = 0.05;                        ///< of its planned rate, over `slow_window`: suspected
  Duration slow_window = std::chrono::seconds(5);
  Duration round_slack = std::chrono::seconds(10);  ///< a round may take 3 x the predicted time and this
};

/// What a committed round leaves behind.
struct Outcome {
  RoundReport report;
  /// Begin, Commit with its Holds, and the encoded result: enough for a peer that missed the round.
  std::shared_ptr<const CommittedRound> proof;
};

/// Replaces `values` by the group's weighted average, all of them or none.
///
/// `values`: float32, as many as the codec map says, equally on all peers; untouched until the round has committed.
/// `weight`: samples behind them; 0 listens only. A sender that is lost costs nothing but its own values. Traffic per
/// peer: 2(n-1)/n vectors, each way. Own values that are not finite: takes part with weight 0.
/// Errors, all with `values` unchanged: `late` the group gave up or the deadline passed; `stale` the others committed
/// without this peer (fetch the result); `bad_request` the group does not fit; `gone` nobody is reachable.
/// `report` is filled in either case.
Task<Result<Outcome>> all_reduce(Context context, const matchmaking::Group& group, const CodecMap& codecs,
                                 std::span<float> values, std::uint64_t weight, AllReduceOptions options,
                                 RoundReport& report);

}  // namespace collab::averaging
