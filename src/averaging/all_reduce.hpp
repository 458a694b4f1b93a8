#pragma once
// Butterfly all-reduce inside one group, committed by all survivors or by none.

#include "averaging/committed_round.hpp"
#include "averaging/guard.hpp"
#include "averaging/report.hpp"
#include "averaging/rule.hpp"
#include "averaging/suspicion.hpp"
#include "averaging/weights.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/task_group.hpp"
#include "crypto/identity.hpp"
#include "matchmaking/group.hpp"
#include "net/endpoint.hpp"
#include "tensor/codec.hpp"

#include <memory>
#include <span>

namespace collab::averaging {

/// Everything a round needs of its node. All outlive `tasks`.
struct Context {
  net::Endpoint& net;
  Clock& clock;
  Log& log;
  const Identity& identity;  ///< signs Holds
  /// Groupmates that lag are served here after `all_reduce` has returned, until all are done or for `serve_max`.
  TaskGroup& tasks;
};

struct AllReduceOptions {
  SuspicionOptions suspicion;
  /// A round may take 3 x the predicted time and this, and longer as long as values come: until so long after a 400th;
  /// who has all waits as long again for the others.
  Duration round_slack = std::chrono::seconds(10);
  Duration serve_max = std::chrono::seconds(30);  ///< after the commit, for groupmates that lag
  double rate_unknown_bytes_per_s = 12.5e6;       ///< of a peer's whole line, where nothing was measured
  bool values_are_finite = false;                 ///< the caller knows: they are not read once more to find out
  bool stochastic_parts = false;                  ///< unbiased rounding of parts (dynamic8 only)
  /// Units that earlier rounds counted, by the state of this epoch: in round 1 whoever names one of them is left out of
  /// own segments (Fault::overlap). Null: unknown.
  std::shared_ptr<const Work> done = nullptr;
  const Rule* rule = nullptr;  ///< null: the weighted mean. Outlives `tasks`
  Guard* guard = nullptr;      ///< null: says yes at once. Outlives `tasks`
};

/// The row that lets peers converse about rounds: once per node, before it starts.
net::Method round_protocol();

/// What a committed round leaves behind.
struct Outcome {
  RoundReport report;
  /// Begin, Commit with its Holds, and the encoded result: enough for a peer that missed the round. Null for an
  /// auxiliary, which holds its own segments only.
  std::shared_ptr<const CommittedRound> proof;
};

/// The group's conversation about its round, open before the own values are there: what faster groupmates send
/// meanwhile is let in, as much as one window holds, and is here when it is needed. For all_reduce().
std::unique_ptr<net::Conversation> open_round(const Context& context, const matchmaking::Group& group);
/// Of a group whose round this peer will not open: the others hear so as soon as they have a word for it, and do not
/// wait.
void decline_round(net::Endpoint& net, const matchmaking::Group& group);

/// How a sender's parts are encoded, the same in every group of that epoch and round: with the values, all that their
/// bytes follow from.
EncodeOptions part_options(const matchmaking::Group& group, const PeerId& sender, bool stochastic = false);

/// Replaces `values` by the group's weighted average, all of them or none.
///
/// `values`: float32, as many as the codec map says, equally on all peers; untouched until the round has committed, and
/// never touched after the return. An auxiliary passes none. `weights`: samples behind them, at most the roster's
/// bound; 0 listens only; in round 1 one number. `work`: which units of work the samples were, in at most
/// work_ranges_max() ranges, in round 1 believable() ones; what was counted is proven with the result. A
/// unit counts once: of two senders that have one, all of the lighter one is left out (segment_reducer.hpp). A
/// sender that is lost costs nothing but its own values. Traffic per peer: 2(n-1)/n vectors, each way. Memory beside
/// the vector: the encoded result, and parts of our segments that wait for slower senders. Own values that are not
/// finite: takes part with weight 0. Errors, all with `values` unchanged: `late` the group gave up or the deadline
/// passed; `stale` the others committed without this peer (fetch the result); `bad_request` the group or what is behind
/// the values does not fit; `gone` nobody is reachable. `report` is filled in either case. `talk`: of open_round(), or
/// null.
Task<Result<Outcome>> all_reduce(Context context, const matchmaking::Group& group, const CodecMap& codecs,
                                 std::span<float> values, Weights weights, Work work, AllReduceOptions options,
                                 RoundReport& report, std::unique_ptr<net::Conversation> talk = nullptr);

}  // namespace collab::averaging
