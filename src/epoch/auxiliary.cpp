#include "epoch/auxiliary.hpp"

#include "averaging/all_reduce.hpp"
#include "matchmaking/no_group.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace collab::epoch {
namespace {

constexpr Duration kLookAtRest = std::chrono::seconds(1);
constexpr Duration kLookAtGrid = std::chrono::milliseconds(100);
constexpr Duration kOfferTtl = std::chrono::seconds(15);    // of who died nobody expects help for longer
constexpr Duration kLastRounds = std::chrono::seconds(10);  // of cells, when it leaves
constexpr Duration kCountsFrom = std::chrono::seconds(20);  // all have come back by then to who has begun anew
constexpr Duration kGroupTime = std::chrono::minutes(10);   // for a group; then the search starts anew

MemberOptions as_auxiliary(MemberOptions options) {
  options.role = matchmaking::Role::auxiliary;
  return options;
}

}  // namespace

Auxiliary::Auxiliary(Context context, MemberOptions options, OnRound on_round)
    : context_(std::move(context)),
      options_(as_auxiliary(std::move(options))),
      on_round_(std::move(on_round)),
      matchmaker_({context_.net, context_.clock, context_.directory, context_.log},
                  matchmaker_options(options_, context_.tracker, rates_, context_.net)),
      seats_({context_.directory, context_.clock, context_.log, context_.identity.id(), context_.loop},
             seating_options(options_)) {}

Task<> Auxiliary::run() {
  const auto body = [this](TaskGroup& tasks) -> Task<> {
    (void)co_await context_.tracker.look(context_.clock.now() + kLookTime);  // else the watches bring what is there
    (void)co_await seats_.look(context_.clock.now() + kLookTime);
    tasks.spawn("epoch.seats", seats_.run());
    began_ = context_.clock.now();
    make_cells();
    tasks.spawn("epoch.cells", serve_cells());
    while (!leaving_) co_await take_part(tasks);
    co_await cells_->finish(context_.clock.now() + kLastRounds);
    co_await matchmaker_.stop();
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
}

void Auxiliary::make_cells() {
  const matchmaking::Context searches{context_.net, context_.clock, context_.directory, context_.log};
  const auto lend_to_cell = [this](TaskGroup& tasks, const matchmaking::Group& group) -> Task<Result<>> {
    std::uint64_t held = 0;
    co_return co_await lend(tasks, group, held);
  };
  cells_ = std::make_unique<GridAuxiliary>(
      GridAuxiliary::Needs{searches, context_.tracker, seats_, context_.identity, context_.loop, options_,
                           matchmaker_options(options_, context_.tracker, rates_, context_.net), lend_to_cell});
}

Task<> Auxiliary::serve_cells() {
  for (;;) {
    offer();
    look_at_seats();
    cells_->serve();
    tell_cells();
    co_await context_.clock.sleep_until(context_.clock.now() + kLookAtGrid);
  }
}

/// Others ask it only while it can be dialled.
void Auxiliary::offer() {
  const bool offers = !leaving_ && (!context_.can_be_dialled || context_.can_be_dialled());
  if (std::exchange(offers_, offers) == offers) return;
  const std::string key(matchmaking::kSeatingKey);
  const std::string subkey(matchmaking::kAuxiliarySubkey);
  if (offers) {
    context_.directory.publish(key, subkey, Bytes(1), kOfferTtl);
  } else {
    context_.directory.withdraw(key, subkey);
  }
}

Task<> Auxiliary::leave() {
  leaving_ = true;
  offer();
  co_await matchmaker_.leave();
  if (cells_) co_await cells_->leave();
}

Task<> Auxiliary::stop() {
  co_await matchmaker_.stop();
  if (cells_) co_await cells_->stop();
}

/// Lists of seats that no honest writer made are passed over, as by the others, once it has heard of all of them. It
/// writes none itself.
void Auxiliary::look_at_seats() {
  const TimePoint now = context_.clock.now();
  if (now < began_ + kCountsFrom) return;
  if (looked_at_seats_ != TimePoint::min() && now < looked_at_seats_ + kLookAtRest) return;
  looked_at_seats_ = now;
  SeatingKeeper::Now look;
  look.epoch = epoch_ - std::min<std::uint64_t>(epoch_, 1);  // some are in the one before still
  look.present = context_.tracker.taking_part();
  look.recent = context_.tracker.recent();
  look.clients = context_.tracker.clients();
  look.swarm_epoch = epoch_;
  seats_.look_at(look);
}

/// Null: everybody is in one group.
const matchmaking::Seating* Auxiliary::grid() const {
  const matchmaking::Seating* seating = seats_.in_force(epoch_);
  return seating != nullptr && !seating->one_group() ? seating : nullptr;
}

void Auxiliary::tell_cells() {
  if (std::exchange(cells_told_, cells()) == cells()) return;
  context_.log.info("auxiliary.cells", {{"epoch", epoch_}, {"cells", cells()}});
  if (context_.on_cells) context_.on_cells(cells());
}

bool Auxiliary::rests() const {
  if (context_.tracker.taking_part().empty() || grid() != nullptr) return true;
  return context_.is_needed && !context_.is_needed();
}

/// The others are at another epoch, or a grid, or a group of another size, came into force.
Task<boost::system::error_code> Auxiliary::epoch_over(std::size_t group_size_max) {
  for (;;) {
    if (context_.tracker.global_epoch().value_or(0) > epoch_) co_return matchmaking::NoGroup::begun;
    if (rests() || seats_.group_size_max(epoch_) != group_size_max) co_return matchmaking::NoGroup::late;
    co_await context_.tracker.changed().wait_until(context_.clock, context_.clock.now() + kLookAtRest);
  }
}

Task<Result<matchmaking::Group>> Auxiliary::find_group() {
  matchmaking::Wanted wanted;
  wanted.epoch = epoch_;
  wanted.target_samples = options_.target_batch;
  wanted.weight_min = weight_min(options_);
  wanted.group_size_max = seats_.group_size_max(epoch_);
  wanted.electorate = context_.tracker.taking_part().size();
  wanted.deadline = context_.clock.now() + kGroupTime;
  const ClaimedLine line = claimed_line(options_, context_.tracker, context_.net);
  matchmaker_.bandwidth(line.up_bytes_per_s, line.down_bytes_per_s);
  auto over = epoch_over(wanted.group_size_max);
  co_return co_await matchmaker_.find_group(std::move(wanted), std::move(over));
}

Task<> Auxiliary::take_part(TaskGroup& tasks) {
  epoch_ = std::max(epoch_, context_.tracker.global_epoch().value_or(0));
  if (rests()) {
    matchmaker_.rest();
    co_await context_.tracker.changed().wait_until(context_.clock, context_.clock.now() + kLookAtRest);
    co_return;
  }
  auto group = co_await find_group();
  if (!group) {
    // who began without us may be gone by now, or tell of the next epoch in a moment
    const bool ordinary = group.error() != matchmaking::NoGroup::schema_differs &&
                          group.error() != matchmaking::NoGroup::codec_map_differs;
    if (!ordinary) {
      ++failures_;
      on_round_(epoch_, group.error());
    }
    co_await pause();
    co_return;
  }
  std::uint64_t held = 0;
  const auto lent = co_await lend(tasks, *group, held);
  if (!lent) {
    ++failures_;
    co_await pause();
    co_return;
  }
  failures_ = 0;
  matchmaker_.committed(*group, held);
  ++epoch_;
}

/// `held`: by whom its result is held, a bit for each rank; as far as is known.
Task<Result<>> Auxiliary::lend(TaskGroup& tasks, const matchmaking::Group& group, std::uint64_t& held) {
  const averaging::Context round{context_.net, context_.clock, context_.log, context_.identity, tasks};
  averaging::RoundReport report;
  const std::span<float> nothing;
  auto lending = averaging::all_reduce(round, group, options_.codecs, nothing, averaging::Weights(), Work(),
                                       all_reduce_options(options_), report);
  const auto outcome = co_await std::move(lending);
  context_.metrics.add("collab_rounds_total", 1, {{"result", outcome ? "committed" : "failed"}});
  if (!outcome) {
    on_round_(group.epoch, outcome.error());
    co_return outcome.error();
  }
  ++rounds_;
  if (group.round == 1) first_groups_.committed(report);
  rates_.see(group, report, load_options(options_, group.round));
  held = outcome->proof ? outcome->proof->holders() : ~std::uint64_t(0);
  on_round_(group.epoch, {});
  co_return Result<>();
}

Task<> Auxiliary::pause() {
  const Duration length = std::min(options_.retry_min * (1U << std::min(failures_, 5U)), options_.retry_max);
  const TimePoint until = context_.clock.now() + length;
  const std::uint64_t epoch = epoch_;
  while (!leaving_ && context_.clock.now() < until && context_.tracker.global_epoch().value_or(0) <= epoch)
    co_await context_.tracker.changed().wait_until(context_.clock, until);
}

}  // namespace collab::epoch
