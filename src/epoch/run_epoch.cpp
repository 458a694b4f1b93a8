#include "epoch/run_epoch.hpp"

#include "averaging/round_work.hpp"
#include "base/task_group.hpp"
#include "epoch/pass_over.hpp"
#include "matchmaking/no_group.hpp"
#include "matchmaking/search_until.hpp"

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <fmt/format.h>

#include <memory>
#include <utility>

namespace collab::epoch {
namespace {

constexpr Duration kLookAgain = std::chrono::seconds(1);
constexpr Duration kLookAtSamples = std::chrono::milliseconds(100);
constexpr Duration kAskWhoIsAhead = std::chrono::seconds(2);  // by then most are, where all is well

/// What goes from the trainer to the group and back. Shared with errands that may outlive the round's task.
struct Contribution {
  std::vector<float> values;
  Gathered behind;
  std::shared_ptr<const Work> done;  ///< counted in earlier epochs
  double loss = 0;
  std::uint64_t lost = 0;  ///< on the way back
};

/// Keeps searches up to date while they look for a group: samples at every border that is heard of, and once a second
/// what passed unheard before a long microbatch, and who came or went.
Task<> feed(EpochContext node, std::uint64_t epoch) {
  for (;;) {
    node.matchmaker.samples(epoch, node.bridge.samples());
    node.matchmaker.electorate(node.tracker.recent_peers());
    node.moshpit.samples(epoch, node.bridge.samples());
    co_await node.bridge.moved().wait_until(node.averaging.clock, node.averaging.clock.now() + kLookAgain);
  }
}

/// On a grid: what all who sit outside the first group have gathered. Samples of who has no seat are in no group: in a
/// swarm that grows they would have a pass of few peers begin as if it were of all.
Task<> feed_elsewhere(EpochContext node, std::uint64_t epoch, averaging::Pass pass) {
  Clock& clock = node.averaging.clock;
  const auto group = pass.schedule->group(node.averaging.identity.id(), 1);
  std::vector<PeerId> unseated;
  std::size_t looked_at = 0;
  for (TimePoint look_again = clock.now();;) {
    const auto& others = node.tracker.others();
    if (clock.now() >= look_again || others.size() != looked_at) {  // of all, so not at each record
      unseated = without_seat(others, node.seats.in_force(epoch));
      looked_at = others.size();
      look_again = clock.now() + kLookAgain;
    }
    std::vector<PeerId> left_out = unseated;
    for (const PeerId& peer : group) left_out.push_back(pass.look_up(peer).id);
    node.moshpit.samples_elsewhere(static_cast<std::uint64_t>(node.tracker.samples_elsewhere(left_out)));
    // what was told grows at the told rate until the next record
    co_await node.tracker.changed().wait_until(clock, clock.now() + kLookAtSamples);
  }
}

bool is_ahead(const EpochContext& node, std::uint64_t epoch) {
  return node.tracker.global_epoch().value_or(0) > epoch;
}

/// Whether the grid, or the size of the one group, that these options were made for is in force.
bool grid_stands(const EpochContext& node, const EpochOptions& options) {
  const matchmaking::Seating* seating = node.seats.in_force(options.epoch);
  const bool on_grid = seating != nullptr && !seating->one_group();
  if (on_grid != options.pass.has_value()) return false;
  if (!on_grid) return node.seats.group_size_max(options.epoch) == options.group_size_max;
  return seating->grid().id == options.pass->grid.id;
}

bool is_alone(const EpochContext& node, const EpochOptions& options) {
  return node.tracker.alone() && !(options.is_joined && options.is_joined());
}

/// Returns when a search under these assumptions makes no sense any more: the swarm is ahead of us, holds another state
/// than we do, another grid is in force, we have another role, or are alone and were not, or the other way round.
Task<boost::system::error_code> assumptions_broken(EpochContext node, EpochOptions options, bool alone) {
  for (;;) {
    if (is_ahead(node, options.epoch)) co_return matchmaking::NoGroup::begun;
    const auto diverged = node.tracker.diverged_at();
    if (diverged && diverged != options.diverged) co_return matchmaking::NoGroup::late;
    if (!grid_stands(node, options)) co_return matchmaking::NoGroup::late;
    if (!options.pass && node.tracker.current_peers() >= 2 * options.group_size_max)
      co_return matchmaking::NoGroup::late;
    if (options.role_stands && !options.role_stands()) co_return matchmaking::NoGroup::late;
    if (is_alone(node, options) != alone) co_return matchmaking::NoGroup::alone;
    // aloneness also comes by time, not only with a record
    co_await node.tracker.changed().wait_until(node.averaging.clock, node.averaging.clock.now() + kLookAgain);
  }
}

/// Returns when one alone that says to be past the epoch has shown its result. Perhaps only it got what the others had
/// signed, and they cannot go on without it, nor it without them.
Task<boost::system::error_code> is_over_for_one(Clock& clock, std::function<Task<bool>()> is_over) {
  for (;;) {
    co_await clock.sleep_until(clock.now() + kAskWhoIsAhead);
    if (!is_over) continue;
    const bool over = co_await is_over();
    if (over) co_return Errc::stale;
  }
}

/// Returns when a search makes no sense any more, for either reason.
Task<boost::system::error_code> over(EpochContext node, EpochOptions options, bool alone) {
  using namespace asio::experimental::awaitable_operators;
  const auto first =
      co_await (assumptions_broken(node, options, alone) || is_over_for_one(node.averaging.clock, options.is_over));
  co_return std::visit([](const auto& why) { return boost::system::error_code(why); }, first);
}

/// Everybody's, or the first one of a pass.
Task<Result<matchmaking::Group>> search(EpochContext node, EpochOptions options, bool alone) {
  const TimePoint deadline = node.averaging.clock.now() + options.patience;
  if (options.pass) {
    averaging::Pass pass = *options.pass;
    pass.stands = [&seats = node.seats, epoch = options.epoch, grid = pass.grid.id] {
      const matchmaking::Seating* seating = seats.in_force(epoch);
      return seating != nullptr && !seating->one_group() && seating->grid().id == grid;
    };
    pass.auxiliaries = [&seats = node.seats] { return seats.auxiliaries(); };
    pass.overtaken = [node, epoch = options.epoch] { return is_ahead(node, epoch); };
    pass.target_samples = options.target_batch;
    pass.weight_min = options.weight_min;
    pass.deadline = deadline;
    co_return co_await node.moshpit.begin(std::move(pass));
  }
  matchmaking::Wanted wanted;
  wanted.epoch = options.epoch;
  wanted.target_samples = options.target_batch;
  wanted.weight_min = options.weight_min;
  wanted.group_size_max = options.group_size_max;
  wanted.electorate = node.tracker.recent_peers();
  wanted.alone = alone;
  wanted.deadline = deadline;
  co_return co_await node.matchmaker.find_group(std::move(wanted));
}

Task<Result<matchmaking::Group>> find_group(EpochContext node, EpochOptions options) {
  Result<matchmaking::Group> group = Errc::gone;
  const auto body = [&](TaskGroup& tasks) -> Task<> {
    tasks.spawn("epoch.feed", feed(node, options.epoch));
    if (options.pass) tasks.spawn("epoch.feed_elsewhere", feed_elsewhere(node, options.epoch, *options.pass));
    const bool alone = is_alone(node, options);
    group = co_await matchmaking::search_until(search(node, options, alone), over(node, options, alone));
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
  co_return group;
}

/// Awaits the microbatch in hand until `cut_at`. At its next border the trainer stands still until it is released.
/// False: it was not there in time.
Task<Result<bool>> hand_over(EpochContext node, std::shared_ptr<Contribution> mine, TimePoint cut_at, bool on_grid) {
  node.bridge.hold(Bridge::Reason::epoch);
  const auto take = [mine](Trainer& trainer) {
    mine->loss = trainer.loss();
    mine->behind = trainer.hand_over(mine->values);
    mine->done = std::make_shared<const Work>(trainer.ledger().committed());
  };
  const auto whole = co_await node.bridge.on_trainer_until(node.averaging.clock, cut_at, take);
  if (!whole || *whole) co_return whole;
  // our step will wait for the border: the others are not to wait for us then
  if (on_grid) {
    node.moshpit.sit_out();
  } else {
    node.matchmaker.sit_out();
  }
  node.averaging.log.info("epoch.cut", {{"samples", mine->behind.samples}});
  co_return whole;
}

/// From where it stands the trainer goes on, with the parameters of the last step that was taken: not with those of a
/// round that begins here and is over before the trainer's thread has come to it.
Task<Result<>> go_on(EpochContext node) {
  const auto adopt = [](Trainer& trainer) { trainer.adopt(); };
  const auto adopted = co_await node.bridge.on_trainer(adopt);
  node.bridge.release(Bridge::Reason::epoch);
  co_return adopted;
}

/// At once: the next try must not wait for a microbatch either.
Task<> give_back(EpochContext node, std::shared_ptr<Contribution> mine) {
  const auto put = [mine](Trainer& trainer) { mine->lost = trainer.give_back(mine->values, mine->behind); };
  Clock& clock = node.averaging.clock;
  (void)co_await node.bridge.on_trainer_until(clock, clock.now(), put);  // one that has left needs its samples no more
  if (mine->lost > 0 && node.leases != nullptr) node.leases->give_back(mine->behind.work);
}

struct StepTaken {
  Gathered late;
  Stepped after;
};

/// At the trainer's border. What it gathered since the hand-over was computed on the parameters before the step.
Task<Result<>> step_at_border(EpochContext node, std::shared_ptr<Contribution> averaged, Work counted,
                              std::uint64_t epoch, std::shared_ptr<StepTaken> taken) {
  const auto take_step = [averaged, taken, counted, epoch](Trainer& trainer) {
    taken->late = trainer.drop();
    taken->after = trainer.take_step(averaged->values, epoch, counted);
    trainer.adopt();
  };
  co_return co_await node.bridge.on_trainer(take_step);
}

/// While the trainer goes on: what it gathers counts in the next epoch.
Task<Result<>> step_beside(EpochContext node, std::shared_ptr<Contribution> averaged, Work counted, Delay delay,
                           std::uint64_t epoch, std::shared_ptr<StepTaken> taken) {
  if (delay == Delay::step) node.bridge.release(Bridge::Reason::epoch);
  const auto take_step = [averaged, taken, counted, epoch](Trainer& trainer) {
    taken->after = trainer.take_step(averaged->values, epoch, counted);
  };
  const auto done = co_await node.bridge.beside(node.workers, take_step);
  const bool at_once = delay == Delay::step;
  node.bridge.at_border([at_once](Trainer& trainer) {  // one that waits for the step looks again in either case
    if (at_once || !trainer.adopts_at_hand_over()) trainer.adopt();
  });
  co_return done;
}

/// The optimizer step, and what is told of it.
Task<Result<>> step(EpochContext node, std::shared_ptr<Contribution> averaged, Work counted, Delay delay,
                    EpochReport& report) {
  const auto taken = std::make_shared<StepTaken>();
  auto stepping = delay == Delay::none ? step_at_border(node, averaged, std::move(counted), report.epoch, taken)
                                       : step_beside(node, averaged, std::move(counted), delay, report.epoch, taken);
  const auto done = co_await std::move(stepping);
  if (!done) co_return done;
  if (node.leases != nullptr) {
    node.leases->advance(taken->after.ledger);
    // what of ours is not in the ledger was computed in vain
    node.leases->give_back(averaged->behind.work);
    node.leases->give_back(taken->late.work);
  }
  report.late = taken->late.samples;
  report.finite = taken->after.finite;
  report.parameters = taken->after.parameters;
  report.ledger = state::content_hash(taken->after.ledger.canonical());
  report.work = taken->after.work;
  co_return Result<>();
}

/// Nobody brings more than its groupmates were told it could have, and nothing whose units cannot all be named: those
/// that were not would be computed again, and count twice.
std::uint64_t own_weight(const EpochContext& node, const matchmaking::Group& group, const Contribution& mine,
                         EpochReport& report) {
  const std::uint64_t weight_max = group.roster[group.rank_of(node.averaging.identity.id()).value()].weight_max;
  const std::uint64_t weight = mine.behind.samples;
  const std::size_t ranges = mine.behind.work.ranges().size();
  if (ranges > averaging::work_ranges_max(group.roster.size())) {
    report.left_out_why = fmt::format("their units are {} ranges, which are too many to name", ranges);
    return 0;
  }
  if (weight <= weight_max) return weight;
  node.averaging.log.warn("epoch.weight_cut", {{"epoch", group.epoch}, {"weight", weight}, {"to", weight_max}});
  return weight_max;
}

/// What the own parts say of the work behind them: all, also when the weight was cut.
Work named(const Contribution& mine, const EpochReport& report) {
  return report.own_weight > 0 ? mine.behind.work : Work();
}

/// The round was made without this peer's samples.
void left_out(bool overlapped, EpochReport& report) {
  if (report.own_weight == 0) return;  // it only listened
  report.own_weight = 0;
  report.left_out_why = overlapped ? "their units were counted already" : "they reached the group too late";
}

/// To what is handed over, what earlier parts owe.
Task<> add_owed(EpochContext node, const EpochOptions& options, const matchmaking::Group& group, Contribution& mine,
                const EpochReport& report) {
  if (!node.owed.in_use() || report.own_weight == 0) co_return;
  const PeerId& self = node.averaging.identity.id();
  const EncodeOptions part = averaging::part_options(group, self, options.all_reduce.stochastic_parts);
  auto adding = node.owed.add_to(mine.values, report.own_weight, group, part);
  co_await std::move(adding);
  if (options.on_parts) options.on_parts(mine.values, report.own_weight);
}

/// `first`: the first round of the epoch that this peer has; if not round 1, its own parts may be in that all the same.
void settle_owed(EpochContext node, std::shared_ptr<const averaging::CommittedRound> first, const EpochReport& report) {
  if (!node.owed.in_use()) return;
  if (first == nullptr) return node.owed.forget();  // lost once is better than sent twice
  const bool brought_nothing = report.own_weight == 0 && first->group().round == 1;
  if (brought_nothing && !report.left_out_why.empty()) return node.owed.left_out();
  if (brought_nothing) return node.owed.missed(std::move(first));  // parts of an earlier try may be in it
  node.owed.settle(std::move(first));
}

/// `counted`: the units that the round was made of; likewise below.
Task<Result<>> average_in_group(EpochContext node, const EpochOptions& options, matchmaking::Group group,
                                std::unique_ptr<net::Conversation> talk, std::shared_ptr<Contribution> mine,
                                Work& counted, EpochReport& report) {
  Work work = named(*mine, report);
  averaging::AllReduceOptions all_reduce = options.all_reduce;
  all_reduce.done = mine->done;
  auto outcome = co_await averaging::all_reduce(node.averaging, group, node.codecs, mine->values, report.own_weight,
                                                std::move(work), std::move(all_reduce), report.round, std::move(talk));
  const std::size_t rank = group.rank_of(node.averaging.identity.id()).value();
  report.group = std::move(group);
  if (!outcome) co_return outcome.error();
  report.weight = report.round.weight;
  const averaging::PeerReport& self = report.round.peers[rank];
  if (self.counted == 0) left_out(self.fault == averaging::Fault::overlap, report);
  report.proof = std::move(outcome->proof);
  settle_owed(node, report.proof, report);
  counted = report.proof ? report.proof->work().all() : Work();
  co_return Result<>();
}

Task<Result<>> average_on_grid(EpochContext node, std::shared_ptr<Contribution> mine, Work& counted,
                               EpochReport& report) {
  averaging::PassReport told;
  Work work = named(*mine, report);
  node.moshpit.counted_before(mine->done);
  auto outcome = co_await node.moshpit.finish(mine->values, report.own_weight, std::move(work), told);
  if (!told.rounds.empty()) report.round = told.rounds.back();
  if (!outcome) co_return outcome.error();
  report.weight = outcome->weight;
  if (!told.counted) left_out(told.overlapped, report);
  settle_owed(node, outcome->rounds.front().proof, report);
  counted = std::move(outcome->work);
  report.proof = outcome->rounds.back().proof;
  report.group = report.proof->group();
  for (averaging::Outcome& round : outcome->rounds) report.pass.push_back(std::move(round.proof));
  co_return Result<>();
}

}  // namespace

Task<Result<>> run_epoch(EpochContext node, EpochOptions options, EpochReport& report) {
  Clock& clock = node.averaging.clock;
  report.epoch = options.epoch;
  const TimePoint start = clock.now();
  auto group = co_await find_group(node, options);
  // on a grid, whoever missed the first group can still receive what the swarm comes to
  const bool only_receives =
      !group && options.pass && group.error() == matchmaking::NoGroup::begun && !is_ahead(node, options.epoch);
  if (!group && !only_receives) co_return group.error();  // nothing has changed: the samples wait for the next try
  const TimePoint stands = clock.now();
  const Legacy::InRound in_round(node.legacy);

  const auto mine = std::make_shared<Contribution>();
  mine->values.resize(options.values);
  const bool in_company = options.pass || group->roster.size() > 1;  // else nobody waits for us
  const TimePoint cut_at = in_company ? stands + options.cut_wait : TimePoint::max();
  std::unique_ptr<net::Conversation> talk;  // what groupmates hand over sooner comes while our microbatch ends
  if (in_company && !options.pass) talk = averaging::open_round(node.averaging, *group);
  Delay delay = Delay::none;  // of who listens, or was late: its step waits for a border anyway
  if (!only_receives) {
    const auto whole = co_await hand_over(node, mine, cut_at, options.pass.has_value());
    if (!whole) co_return whole.error();
    if (*whole) delay = options.delay;
    if (delay == Delay::gradients) {
      const auto goes_on = co_await go_on(node);
      if (!goes_on) co_return goes_on.error();
    }
  }
  const TimePoint handed_over = clock.now();

  report.weight = report.own_weight = mine->behind.samples;
  Work counted = mine->behind.work;
  if (in_company) {
    if (group) report.own_weight = own_weight(node, *group, *mine, report);
    const bool brings = report.own_weight > 0;
    if (group) {
      auto adding = add_owed(node, options, *group, *mine, report);
      co_await std::move(adding);
    }
    auto averaging = options.pass
                         ? average_on_grid(node, mine, counted, report)
                         : average_in_group(node, options, std::move(*group), std::move(talk), mine, counted, report);
    const auto committed = co_await std::move(averaging);
    if (!committed) {
      if (brings && node.owed.in_use()) co_await node.owed.restore(mine->values);
      if (!only_receives) co_await give_back(node, mine);
      report.overflowed = mine->lost;
      co_return committed.error();
    }
    if (report.own_weight == 0) report.left_out = mine->behind.samples;  // a listener's are none
  } else if (report.own_weight > 0 && node.owed.in_use()) {
    co_await node.owed.pay(mine->values, report.own_weight);
  }
  const TimePoint averaged = clock.now();
  const auto stepped = co_await step(node, mine, std::move(counted), delay, report);
  if (!stepped) co_return stepped.error();

  report.loss = mine->loss;
  report.gathering = stands - start;
  report.handing_over = handed_over - stands;
  report.averaging = averaged - handed_over;
  report.stepping = clock.now() - averaged;
  co_return Result<>();
}

}  // namespace collab::epoch
