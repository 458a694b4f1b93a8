#pragma once
// What a node owes: its passes over the whole vector run beside the loop.

#include "base/signal.hpp"
#include "base/task.hpp"
#include "epoch/feedback.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <span>

namespace collab::epoch {

/// A `Feedback` whose passes run on `workers`, one after the other: at 350 million values settling takes about a
/// second, in which the node would answer nobody. It is not awaited by who says that a round has committed, but by the
/// next pass, which is that of the next hand-over. A node that ends meanwhile waits for the pass and drops what it
/// gave: what is owed does not outlive the process anyway.
///
/// Thread safety: none; belongs to the node's loop.
class OwedKeeper {
 public:
  /// `codecs` outlives it. `self`: whose parts they are.
  OwedKeeper(const asio::any_io_executor& loop, asio::any_io_executor workers, const CodecMap& codecs, PeerId self);

  bool in_use() const noexcept { return feedback_.in_use(); }
  /// Settles until it is cancelled. The others below wait for that, so it runs as long as anything is asked of them.
  Task<> run();

  /// These three as `Feedback` has them, when all is settled. What they are given stays until they return.
  Task<> add_to(std::span<float> mean, std::uint64_t weight, const matchmaking::Group& group, EncodeOptions options);
  Task<> restore(std::span<float> mean);
  Task<> pay(std::span<float> mean, std::uint64_t weight);

  /// These as `Feedback` has them; what takes long follows beside the loop.
  void settle(std::shared_ptr<const averaging::CommittedRound> round);
  void missed(std::shared_ptr<const averaging::CommittedRound> round);
  void left_out() { feedback_.left_out(); }
  /// Also what is being settled.
  void forget() { feedback_.forget(); }

  /// As `Feedback` says it; empty while it settles.
  std::span<const float> owed() const noexcept { return feedback_.owed(); }

 private:
  void begin(std::optional<Settling> settling);
  Task<> all_settled();
  Task<> beside(std::function<bool()> pass);

  asio::any_io_executor workers_;
  PeerId self_;
  Feedback feedback_;
  std::optional<Settling> next_;
  bool settles_ = false;
  Signal changed_;
};

}  // namespace collab::epoch
