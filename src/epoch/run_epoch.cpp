#include "epoch/run_epoch.hpp"

#include "base/task_group.hpp"
#include "matchmaking/no_group.hpp"

#include <boost/asio/experimental/awaitable_operators.hpp>

#include <utility>

namespace collab::epoch {
namespace {

constexpr Duration kLookAgain = std::chrono::seconds(1);

/// What goes from the trainer to the group and back. Shared with errands that may outlive the round's task.
struct Contribution {
  std::vector<float> values;
  std::uint64_t weight = 0;
  double loss = 0;
  std::uint64_t lost = 0;  ///< on the way back
};

/// Keeps the matchmaker up to date while it looks for a group: samples at every border, peers as they come and go.
Task<> feed(EpochContext node, std::uint64_t epoch) {
  for (;;) {
    node.matchmaker.samples(epoch, node.bridge.samples());
    node.matchmaker.current_peers(node.tracker.current_peers());
    co_await node.bridge.moved().wait();
  }
}

/// Returns when a search under these assumptions makes no sense any more: the swarm is ahead of us, or we are alone and
/// were not, or the other way round.
Task<boost::system::error_code> assumptions_broken(EpochContext node, std::uint64_t epoch, bool alone) {
  for (;;) {
    const bool behind = node.tracker.global_epoch().value_or(0) > epoch;
    if (behind) co_return matchmaking::NoGroup::begun;
    if (node.tracker.alone() != alone) co_return matchmaking::NoGroup::alone;
    // aloneness also comes by time, not only with a record
    co_await node.tracker.changed().wait_until(node.averaging.clock, node.averaging.clock.now() + kLookAgain);
  }
}

Task<Result<matchmaking::Group>> find_group(EpochContext node, EpochOptions options) {
  matchmaking::Wanted wanted;
  wanted.epoch = options.epoch;
  wanted.target_samples = options.target_batch;
  wanted.weight_min = options.weight_min;
  wanted.current_peers = node.tracker.current_peers();
  wanted.alone = node.tracker.alone();
  wanted.deadline = node.averaging.clock.now() + options.patience;

  using namespace asio::experimental::awaitable_operators;
  Result<matchmaking::Group> group = Errc::gone;
  const auto search = [&](TaskGroup& tasks) -> Task<> {
    tasks.spawn("epoch.feed", feed(node, options.epoch));
    auto first = co_await (node.matchmaker.find_group(wanted) || assumptions_broken(node, options.epoch, wanted.alone));
    group = first.index() == 0 ? std::get<0>(std::move(first)) : Result<matchmaking::Group>(std::get<1>(first));
  };
  auto scope = task_scope(rethrow, search);
  co_await std::move(scope);
  co_return group;
}

/// Awaits the microbatch in hand until `cut_at`. At its next border the trainer stands still until it is released.
Task<Result<>> hand_over(EpochContext node, std::shared_ptr<Contribution> mine, TimePoint cut_at) {
  node.bridge.hold();
  const auto take = [mine](Trainer& trainer) {
    mine->loss = trainer.loss();
    mine->weight = trainer.hand_over(mine->values);
  };
  const auto whole = co_await node.bridge.on_trainer_until(node.averaging.clock, cut_at, take);
  if (!whole) co_return whole.error();
  if (*whole) co_return Result<>();
  node.matchmaker.sit_out();  // our step will wait for the border: the others are not to wait for us then
  node.averaging.log.info("epoch.cut", {{"samples", mine->weight}});
  co_return Result<>();
}

/// At once: the next try must not wait for a microbatch either.
Task<> give_back(EpochContext node, std::shared_ptr<Contribution> mine) {
  const auto put = [mine](Trainer& trainer) { mine->lost = trainer.give_back(mine->values, mine->weight); };
  Clock& clock = node.averaging.clock;
  (void)co_await node.bridge.on_trainer_until(clock, clock.now(), put);  // one that has left needs its samples no more
}

struct Stepped {
  std::uint64_t late = 0;
  Result<> result;
  Digest parameters{};
};

/// At the trainer's border. What it gathered since the hand-over was computed on the parameters before the step.
Task<Result<>> step(Bridge& bridge, std::shared_ptr<Contribution> averaged, std::uint64_t epoch, EpochReport& report) {
  const auto stepped = std::make_shared<Stepped>();
  const auto take_step = [averaged, epoch, stepped](Trainer& trainer) {
    stepped->late = trainer.drop();
    stepped->result = trainer.step(averaged->values, epoch);
    stepped->parameters = trainer.parameter_hash();
  };
  const auto done = co_await bridge.on_trainer(take_step);
  report.late = stepped->late;
  report.parameters = stepped->parameters;
  co_return done ? stepped->result : done;
}

}  // namespace

Task<Result<>> run_epoch(EpochContext node, EpochOptions options, EpochReport& report) {
  Clock& clock = node.averaging.clock;
  report.epoch = options.epoch;
  const TimePoint start = clock.now();
  auto group = co_await find_group(node, options);
  if (!group) co_return group.error();  // nothing has changed: the samples wait for the next try
  const TimePoint stands = clock.now();

  const auto mine = std::make_shared<Contribution>();
  mine->values.resize(options.values);
  const bool in_company = group->roster.size() > 1;  // else nobody waits for us
  const auto handed = co_await hand_over(node, mine, in_company ? stands + options.cut_wait : TimePoint::max());
  if (!handed) co_return handed.error();
  const TimePoint handed_over = clock.now();

  report.weight = report.own_weight = mine->weight;
  if (in_company) {
    const PeerId self = node.averaging.identity.id();
    const std::uint64_t weight_max = group->roster[group->rank_of(self).value()].weight_max;
    report.own_weight = std::min(mine->weight, weight_max);
    if (mine->weight > weight_max) {
      node.averaging.log.warn("epoch.weight_cut",
                              {{"epoch", options.epoch}, {"weight", mine->weight}, {"to", weight_max}});
    }
    auto outcome = co_await averaging::all_reduce(node.averaging, *group, node.codecs, mine->values, report.own_weight,
                                                  options.all_reduce, report.round);
    if (!outcome) {
      co_await give_back(node, mine);
      report.overflowed = mine->lost;
      co_return outcome.error();
    }
    report.weight = report.round.weight;
    report.proof = std::move(outcome->proof);
    report.group = std::move(*group);
  }
  const TimePoint averaged = clock.now();
  const auto stepped = co_await step(node.bridge, mine, options.epoch, report);
  if (!stepped) co_return stepped.error();

  report.loss = mine->loss;
  report.gathering = stands - start;
  report.handing_over = handed_over - stands;
  report.averaging = averaged - handed_over;
  report.stepping = clock.now() - averaged;
  co_return Result<>();
}

}  // namespace collab::epoch
