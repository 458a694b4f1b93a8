#include "epoch/auxiliary.hpp"

#include "averaging/all_reduce.hpp"
#include "matchmaking/no_group.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace collab::epoch {
namespace {

constexpr Duration kLookAtRest = std::chrono::seconds(1);
constexpr Duration kGroupTime = std::chrono::minutes(10);  // for a group; then the search starts anew

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
    while (!leaving_) co_await take_part(tasks);
    co_await matchmaker_.stop();
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
}

Task<> Auxiliary::leave() {
  leaving_ = true;
  co_await matchmaker_.leave();
}

Task<> Auxiliary::stop() {
  co_await matchmaker_.stop();
}

bool Auxiliary::rests() const {
  const matchmaking::Seating* seating = seats_.in_force(epoch_);
  if (context_.tracker.taking_part().empty() || (seating != nullptr && !seating->one_group())) return true;
  return context_.is_needed && !context_.is_needed();
}

/// The others are at another epoch, or a grid came into force.
Task<boost::system::error_code> Auxiliary::epoch_over() {
  for (;;) {
    if (context_.tracker.global_epoch().value_or(0) > epoch_) co_return matchmaking::NoGroup::begun;
    if (rests()) co_return matchmaking::NoGroup::late;
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
  co_return co_await matchmaker_.find_group(std::move(wanted), epoch_over());
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
  const averaging::Context round{context_.net, context_.clock, context_.log, context_.identity, tasks};
  averaging::RoundReport report;
  const std::span<float> nothing;
  auto lending = averaging::all_reduce(round, *group, options_.codecs, nothing, averaging::Weights(), Work(),
                                       all_reduce_options(options_), report);
  const auto outcome = co_await std::move(lending);
  context_.metrics.add("collab_rounds_total", 1, {{"result", outcome ? "committed" : "failed"}});
  if (!outcome) {
    ++failures_;
    on_round_(epoch_, outcome.error());
    co_await pause();
    co_return;
  }
  failures_ = 0;
  ++rounds_;
  rates_.see(*group, report, load_options(options_, group->round));
  matchmaker_.committed(*group, outcome->proof ? outcome->proof->holders() : ~std::uint64_t(0));
  on_round_(epoch_++, {});
}

Task<> Auxiliary::pause() {
  const Duration length = std::min(options_.retry_min * (1U << std::min(failures_, 5U)), options_.retry_max);
  const TimePoint until = context_.clock.now() + length;
  const std::uint64_t epoch = epoch_;
  while (!leaving_ && context_.clock.now() < until && context_.tracker.global_epoch().value_or(0) <= epoch)
    co_await context_.tracker.changed().wait_until(context_.clock, until);
}

}  // namespace collab::epoch
