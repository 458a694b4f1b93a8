#include "epoch/member.hpp"

#include "base/task_group.hpp"
#include "matchmaking/no_group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace collab::epoch {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Kind = MemberEvent::Kind;

constexpr Duration kResultTime = seconds(60);           // for fetching one missed round
constexpr Duration kResultGrace = milliseconds(100);    // signatures say what it is worth, not how many show it
constexpr Duration kResultAwaited = milliseconds(250);  // where the round may well be running
constexpr Duration kStateTime = std::chrono::hours(1);
constexpr Duration kLookTime = seconds(10);  // for asking the directory who is there
constexpr Duration kLookAtSeats = seconds(1);
constexpr Duration kStuckAfter = seconds(5);  // with a full batch, and without an epoch
constexpr unsigned kTellFailures = 5;         // in a row; then the user reads why
constexpr unsigned kMisfitsMax = 5;           // in a row, of states that no majority vouches for

}  // namespace

/// Lets the trainer go on, whichever way the epoch ends.
struct Member::Release {
  explicit Release(Member& of) : member(of) {}
  ~Release() { member.release(); }
  Release(const Release&) = delete;
  Release& operator=(const Release&) = delete;
  Member& member;
};

Member::Member(Context context, MemberOptions options, Bridge& bridge, OnEvent on_event)
    : context_(std::move(context)),
      options_(std::move(options)),
      bridge_(bridge),
      on_event_(std::move(on_event)),
      matchmaker_({context_.net, context_.clock, context_.directory, context_.log},
                  matchmaker_options(options_, context_.tracker)),
      seats_({context_.directory, context_.clock, context_.log, context_.identity.id(), context_.loop},
             seating_options(options_)),
      left_(context_.loop) {}

Member::~Member() = default;

averaging::MoshpitOptions Member::moshpit_options() const {
  averaging::MoshpitOptions out;
  out.bundle = options_.run_id + "/gradients";
  out.matchmaking = matchmaker_options(options_, context_.tracker);
  out.all_reduce = all_reduce_options(options_);
  return out;
}

Task<> Member::run(std::uint64_t first_epoch) {
  epoch_ = first_epoch;
  const auto body = [this](TaskGroup& tasks) -> Task<> {
    const averaging::Context averaging{context_.net, context_.clock, context_.log, context_.identity, tasks};
    const matchmaking::Context searches{context_.net, context_.clock, context_.directory, context_.log};
    moshpit_.emplace(averaging, searches, options_.codecs, moshpit_options());
    (void)co_await seats_.look(context_.clock.now() + kLookTime);  // else the watch brings them
    co_await synchronise();
    epoch_began_ = context_.clock.now();
    tasks.spawn("epoch.keep_showing", keep_showing());
    tasks.spawn("epoch.seats", seats_.run());
    tasks.spawn("epoch.keep_seats", keep_seats());
    while (!leaving_ && epoch_ < options_.epochs_max) {
      co_await take_part(tasks);
      co_await heal();
    }
    co_await stop();
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
  in_step_ = false;
  show();
  left_.notify();
}

Task<> Member::leave() {
  leaving_ = true;
  if (context_.leases != nullptr) context_.leases->leave();
  co_await matchmaker_.leave();
  if (moshpit_) co_await moshpit_->leave();
}

Task<> Member::stop() {
  co_await matchmaker_.stop();
  if (moshpit_) co_await moshpit_->stop();
}

/// Before the first microbatch: whoever is behind computes for nothing.
Task<> Member::synchronise() {
  struct Begun {
    Digest parameters{};
    data::Ledger ledger;
  };
  const auto begun = std::make_shared<Begun>();
  const auto look = [begun](Trainer& trainer) {
    begun->parameters = trainer.parameter_hash();
    begun->ledger = trainer.ledger();
  };
  const auto looked_at = co_await bridge_.on_trainer(look);
  if (!looked_at) co_return;
  parameters_ = begun->parameters;
  const std::uint64_t first_epoch = epoch_;
  for (Duration pause = options_.retry_min; !leaving_; pause = std::min(2 * pause, options_.retry_max)) {
    const auto looked = co_await context_.tracker.look(context_.clock.now() + kLookTime);
    if (looked && context_.tracker.global_epoch().value_or(0) <= epoch_) break;
    if (looked) {
      const bool downloaded = co_await download_state();
      if (downloaded) break;
    } else {
      tell(Kind::waiting, fmt::format("the directory does not answer ({}); trying again", looked.error().message()));
    }
    co_await context_.clock.sleep_until(context_.clock.now() + pause);
  }
  CaughtUp caught_up = CaughtUp::needs_state;
  while (!leaving_ && caught_up == CaughtUp::needs_state) {
    caught_up = co_await catch_up();
    if (caught_up == CaughtUp::needs_state) co_await download_state();
  }
  release();
  in_step_ = !leaving_;
  if (epoch_ == first_epoch) settle(begun->ledger, Gathered());
  context_.store.advance(epoch_);
  show();
  if (in_step_) tell(Kind::joined);
}

/// Keeps the own record as fresh as the tracker wants it.
Task<> Member::keep_showing() {
  for (;;) {
    show();
    pause_when_idle();
    co_await bridge_.moved().wait();
  }
}

/// Unless it has enough in hand.
void Member::release() {
  paused_ = !may_compute();
  if (!paused_) bridge_.release();
}

bool Member::may_compute() const {
  constexpr std::uint64_t kFull = matchmaking::kTargetsPerPeer - 1;  // leaves room for the microbatch in hand
  if (bridge_.samples() >= kFull * options_.target_batch) return false;
  const matchmaking::Seating* on = grid();
  return on == nullptr || on->has(context_.identity.id());
}

void Member::pause_when_idle() {
  const bool was_paused = std::exchange(paused_, !may_compute());
  if (paused_) bridge_.hold();
  if (!paused_ && was_paused) bridge_.release();  // else it may be held for a round
}

/// The grid follows who takes part; of all peers, one writes it down.
Task<> Member::keep_seats() {
  for (;;) {
    look_at_seats();
    co_await context_.clock.sleep_until(context_.clock.now() + kLookAtSeats);
  }
}

void Member::look_at_seats() {
  const TimePoint now = context_.clock.now();
  const bool full = context_.tracker.samples() >= static_cast<double>(options_.target_batch);
  if (!full) full_since_.reset();
  if (full && !full_since_) full_since_ = now;
  SeatingKeeper::Now look;
  look.epoch = epoch_;
  look.stuck = full_since_ && now - *full_since_ >= kStuckAfter;
  look.last_epoch = last_epoch_;
  for (const progress::Standing& standing : context_.tracker.taking_part()) look.present.push_back(standing.peer);
  look.my_turn = in_step_ && context_.tracker.lowest_of_epoch(epoch_) == context_.identity.id();
  seats_.look_at(look);
}

const matchmaking::Seating* Member::grid() const {
  const matchmaking::Seating* seating = seats_.in_force(epoch_);
  return seating == nullptr || seating->one_group() ? nullptr : seating;
}

averaging::Pass Member::pass_over(const matchmaking::Seating& seating) const {
  averaging::Pass pass;
  std::vector<PeerId> known = {context_.identity.id()};
  for (const progress::Standing& standing : context_.tracker.others()) {
    known.push_back(standing.peer);
    if (standing.record.client) pass.clients.insert(standing.peer);
  }
  if (options_.role == matchmaking::Role::client) pass.clients.insert(context_.identity.id());
  pass.grid = seating.grid();
  pass.schedule = std::make_shared<const matchmaking::Schedule>(seating.schedule(epoch_, known));
  return pass;
}

/// A newcomer follows the others until they have made room for it: within a few epochs.
Task<> Member::wait_for_a_seat() {
  paused_ = true;
  bridge_.hold();
  if (!std::exchange(told_no_seat_, true)) {
    tell(Kind::waiting, "this peer has no place in the groups yet; it gets one within a few epochs");
  }
  const bool behind = context_.tracker.global_epoch().value_or(0) > epoch_;
  if (behind) {
    (void)co_await catch_up_or_download();
    co_return;
  }
  co_await context_.tracker.changed().wait_until(context_.clock, context_.clock.now() + kLookAtSeats);
}

void Member::show() {
  progress::Record own;
  own.epoch = epoch_;
  own.samples = bridge_.samples();
  own.samples_per_s = bridge_.samples_per_s();
  own.microbatch = bridge_.microbatch();
  own.group = group_;
  own.parameters = parameters_;
  own.loss = loss_;
  own.taking_part = in_step_ && !leaving_;
  own.client = options_.role == matchmaking::Role::client;
  context_.tracker.show(own);
}

/// After whatever moved the state: what is committed, and what was computed for nothing.
void Member::settle(const data::Ledger& ledger, const Gathered& lost) {
  if (context_.leases == nullptr) return;
  context_.leases->advance(ledger);
  context_.leases->give_back(lost.work);
}

/// What our line can do is what the best connection showed.
void Member::tell_bandwidth() {
  double up = 0;
  double down = 0;
  for (const auto& [peer, record] : context_.tracker.others()) {
    const net::LinkState link = context_.net.link(peer);
    up = std::max(up, link.up_bytes_per_s);
    down = std::max(down, link.down_bytes_per_s);
  }
  matchmaker_.bandwidth(static_cast<std::uint64_t>(up), static_cast<std::uint64_t>(down));
  moshpit_->bandwidth(static_cast<std::uint64_t>(up), static_cast<std::uint64_t>(down));
}

Task<> Member::take_part(TaskGroup& tasks) {
  tell_bandwidth();
  EpochOptions options;
  options.epoch = epoch_;
  const Release release(*this);
  const matchmaking::Seating* seating = grid();
  if (seating != nullptr && !seating->has(context_.identity.id())) {
    auto waiting = wait_for_a_seat();
    co_await std::move(waiting);
    co_return;
  }
  told_no_seat_ = false;
  if (seating != nullptr) options.pass = pass_over(*seating);
  options.target_batch = options_.target_batch;
  options.weight_min = weight_min(options_);
  options.values = options_.codecs.length();
  options.cut_wait = options_.cut_wait;
  options.all_reduce = all_reduce_options(options_);
  const averaging::Context averaging{context_.net, context_.clock, context_.log, context_.identity, tasks};
  const EpochContext node{averaging,        matchmaker_, *moshpit_,       seats_,
                          context_.tracker, bridge_,     options_.codecs, context_.leases};
  EpochReport report;
  const auto done = co_await run_epoch(node, options, report);
  tell_lost(report);
  if (done) {
    committed(std::move(report));
  } else {
    co_await after_failure(done.error());
  }
}

void Member::tell_lost(const EpochReport& report) {
  if (report.late > 0) {
    context_.metrics.add("collab_microbatches_dropped_total", 1, {{"reason", "late"}});
    context_.log.info("samples.lost", {{"epoch", report.epoch}, {"samples", report.late}, {"why", "late"}});
    tell(Kind::lost_samples,
         fmt::format("a microbatch of {} samples ended too late for epoch {}", report.late, report.epoch), report.late);
  }
  if (report.left_out > 0) {
    context_.log.warn("samples.lost",
                      {{"epoch", report.epoch}, {"samples", report.left_out}, {"why", report.left_out_why}});
    tell(Kind::lost_samples,
         fmt::format("epoch {} was made without {} samples of this peer: {}", report.epoch, report.left_out,
                     report.left_out_why),
         report.left_out);
  }
  if (report.overflowed > 0) {
    context_.log.warn("samples.lost", {{"epoch", report.epoch}, {"samples", report.overflowed}, {"why", "not_finite"}});
    tell(Kind::lost_samples,
         fmt::format("the gradients of {} samples add up to more than float32 holds", report.overflowed),
         report.overflowed);
  }
}

void Member::committed(EpochReport report) {
  epoch_ = report.epoch + 1;
  last_epoch_ = context_.clock.now() - std::exchange(epoch_began_, context_.clock.now());
  full_since_.reset();
  failures_ = 0;
  parameters_ = report.parameters;
  loss_ = report.loss;
  if (report.group) {
    group_ = report.group->id;
    if (report.pass.empty()) {
      matchmaker_.committed(*report.group, report.proof ? report.proof->holders() : ~std::uint64_t(0));
    }
  }
  context_.store.advance(epoch_);
  if (report.proof) {
    context_.store.keep_result(report.epoch, std::make_shared<const Bytes>(encode(*report.proof)));
  }
  context_.metrics.add("collab_rounds_total", 1, {{"result", "committed"}});
  context_.metrics.add("collab_samples_total", static_cast<double>(report.own_weight));
  context_.metrics.add("collab_units_total", static_cast<double>(report.work.units), {{"result", "committed"}});
  context_.metrics.add("collab_units_total", static_cast<double>(report.work.duplicates), {{"result", "duplicate"}});
  if (context_.leases != nullptr) {
    context_.metrics.set("collab_units_unleased", static_cast<double>(context_.leases->unleased()));
  }
  context_.metrics.observe("collab_round_duration_seconds", to_seconds(report.averaging), {{"phase", "averaging"}});
  context_.metrics.observe("collab_round_duration_seconds", to_seconds(report.gathering), {{"phase", "gathering"}});
  context_.metrics.set("collab_epoch", static_cast<double>(epoch_));
  context_.log.info("epoch.committed", {{"epoch", report.epoch},
                                        {"peers", report.group ? report.group->roster.size() : 1},
                                        {"weight", report.weight},
                                        {"own_weight", report.own_weight},
                                        {"units", report.work.units},
                                        {"duplicates", report.work.duplicates},
                                        {"averaging_s", to_seconds(report.averaging)},
                                        {"views", report.round.views},
                                        {"rounds", std::max<std::size_t>(report.pass.size(), 1)}});
  show();
  look_at_seats();
  MemberEvent event;
  event.kind = Kind::committed;
  event.epoch = epoch_;
  event.report = std::move(report);
  on_event_(event);
  release();  // not before: a user's step() that sees the new epoch says that it was committed
}

/// Samples are back in the accumulator. What now depends on whether the others went on.
Task<> Member::after_failure(boost::system::error_code why) {
  using matchmaking::NoGroup;
  release();
  if (leaving_ || why == NoGroup::left) co_return;
  const bool epoch_is_over = why == NoGroup::begun || why == Errc::stale;
  if (epoch_is_over) {
    // the result of a round that runs without us comes when it ends: the next one is ours from its begin
    const std::uint64_t before = epoch_;
    (void)co_await catch_up_or_download(kResultAwaited);  // whatever came of it, the epoch is searched for again
    release();
    // in step after all: their round failed, or has not ended yet
    if (epoch_ == before) co_await context_.clock.sleep_until(context_.clock.now() + milliseconds(50));
    co_return;
  }
  if (why == NoGroup::late || why == NoGroup::alone) co_return;  // the batch is not full, or somebody came or went
  ++failures_;
  const std::uint32_t attempt = grid() == nullptr ? matchmaker_.next_attempt() : moshpit_->next_attempt();
  context_.metrics.add("collab_rounds_total", 1, {{"result", "failed"}});
  context_.log.warn("round.failed", {{"epoch", epoch_}, {"attempt", attempt}, {"reason", why.message()}});
  tell(Kind::round_failed, fmt::format("epoch {}: {}; samples kept", epoch_, why.message()));
  if (failures_ == kTellFailures) {
    tell(Kind::waiting, fmt::format("{} rounds in a row have failed: {}", failures_, why.message()));
  }
  // who was in the group that failed waits as long as its groupmates, however often it failed without them
  const std::uint32_t tries = std::max(attempt, failures_);
  const Duration pause = std::min(options_.retry_min * (1U << std::min(tries - 1, 5U)), options_.retry_max);
  co_await context_.clock.sleep_until(context_.clock.now() + pause);
}

/// The trainer stands still from the first step on: on the way, whatever it computed would be for nothing.
Task<Member::CaughtUp> Member::catch_up_or_download(Duration wait) {
  CaughtUp caught_up = co_await catch_up(wait);
  while (caught_up == CaughtUp::needs_state && !leaving_) {
    const bool downloaded = co_await download_state();
    if (!downloaded) break;
    caught_up = co_await catch_up();
  }
  co_return caught_up;
}

/// Applies the rounds that were missed, one after the other, for as long as somebody has the next one; the first may be
/// waited for.
Task<Member::CaughtUp> Member::catch_up(Duration wait) {
  for (;; wait = Duration()) {
    const auto donors = context_.tracker.donors(0);
    if (donors.empty() || leaving_) co_return CaughtUp::nobody;
    struct Verified {
      std::shared_ptr<const averaging::CommittedRound> round;
    };
    const auto verified = std::make_shared<Verified>();
    state::WantedResult wanted;
    wanted.epoch = epoch_;
    wanted.wait = wait;
    wanted.deadline = context_.clock.now() + kResultTime;
    wanted.check = [verified, epoch = epoch_, schema = options_.schema, codecs = options_.codecs](const auto bytes) {
      auto round = decode_round(bytes, epoch, schema, codecs);
      if (round) verified->round = std::move(*round);
      return round.has_value();
    };
    const state::Context context{context_.net, context_.clock, context_.workers, context_.log, context_.random};
    state::FetchOptions fetch;
    fetch.grace = kResultGrace;
    const auto result = co_await state::download_result(context, std::move(wanted), donors, fetch);
    if (!result) {
      const bool too_old = result.error().code == Errc::stale && result.error().number > epoch_;
      co_return too_old ? CaughtUp::needs_state : CaughtUp::in_step;
    }
    const bool applied = co_await apply(verified->round);
    if (!applied) co_return CaughtUp::needs_state;
  }
}

/// The step that the others took in the round, taken here too: equal bytes, equal parameters.
Task<bool> Member::apply(std::shared_ptr<const averaging::CommittedRound> round) {
  struct Applied {
    Gathered lost;
    Result<> step;
    Digest parameters{};
    data::Ledger ledger;
  };
  const auto applied = std::make_shared<Applied>();
  const auto work = [round, applied, epoch = epoch_, values = options_.codecs.length()](Trainer& trainer) {
    std::vector<float> averaged(values);
    round->apply(averaged);
    applied->lost = trainer.drop();
    applied->step = trainer.step(averaged, epoch);
    if (applied->step) trainer.ledger().add(round->work().all());
    applied->parameters = trainer.parameter_hash();
    applied->ledger = trainer.ledger();
  };
  bridge_.hold();
  const auto done = co_await bridge_.on_trainer(work);
  if (done) settle(applied->ledger, applied->lost);
  if (!done || !applied->step) co_return false;
  const std::uint64_t lost = applied->lost.samples;
  ++epoch_;
  failures_ = 0;
  parameters_ = applied->parameters;
  group_ = round->group().id;
  context_.store.advance(epoch_);
  context_.store.keep_result(epoch_ - 1, std::make_shared<const Bytes>(encode(*round)));
  context_.metrics.add("collab_rounds_total", 1, {{"result", "behind"}});
  full_since_.reset();
  context_.log.info("epoch.caught_up", {{"epoch", epoch_ - 1}, {"lost_samples", lost}});
  if (in_step_) show();
  tell(Kind::caught_up);
  if (lost > 0) tell(Kind::lost_samples, fmt::format("{} samples were late for epoch {}", lost, epoch_ - 1), lost);
  co_return true;
}

/// The whole state from several donors, at an epoch that all of them still have.
Task<bool> Member::download_state() {
  const TimePoint start = context_.clock.now();
  std::uint64_t epoch = std::max(epoch_, context_.tracker.global_epoch().value_or(0));
  while (!leaving_ && context_.clock.now() < start + kStateTime) {
    const auto donors = context_.tracker.donors(0);
    if (donors.empty()) co_return false;
    state::WantedState wanted;
    wanted.epoch = epoch;
    wanted.parameters = progress::majority(context_.tracker.others(), epoch);  // unknown while epochs are short
    wanted.deadline = start + kStateTime;
    const bool agreed = wanted.parameters.has_value();
    std::size_t sources = 0;
    const auto on_progress = [&sources](const state::Progress& progress) { sources = progress.donors; };
    const state::Context context{context_.net, context_.clock, context_.workers, context_.log, context_.random};
    auto snapshot = co_await state::download(context, std::move(wanted), donors, on_progress);
    if (!snapshot) {
      const Refusal& refusal = snapshot.error();
      context_.log.info("state.not_yet", {{"epoch", epoch}, {"reason", refusal.reason}, {"number", refusal.number}});
      // by the time our question arrives, an epoch of a blink is over: ask for the one after
      if (refusal.code == Errc::stale && refusal.number >= epoch) {
        epoch = refusal.number + 1;
      } else {
        co_await context_.clock.sleep_until(context_.clock.now() + options_.retry_min);
        co_await context_.tracker.look(context_.clock.now() + kLookTime);
        epoch = std::max(epoch_, context_.tracker.global_epoch().value_or(epoch));
      }
      continue;
    }
    struct Restored {
      Gathered lost;
      Result<> result;
      Digest parameters{};
      data::Ledger ledger;
    };
    const auto restored = std::make_shared<Restored>();
    const auto taken = std::make_shared<const state::Snapshot>(std::move(*snapshot));
    std::uint64_t bytes = 0;
    for (const auto& section : taken->sections) bytes += section.bytes.size();
    const auto work = [taken, restored](Trainer& trainer) {
      restored->lost = trainer.drop();
      restored->result = trainer.restore(*taken);
      restored->parameters = trainer.parameter_hash();
      restored->ledger = trainer.ledger();
    };
    bridge_.hold();
    const auto done = co_await bridge_.on_trainer(work);
    if (!done) co_return false;
    settle(restored->ledger, restored->lost);
    if (!restored->result) {
      co_await refuse_state(epoch, agreed);
      co_return false;
    }
    misfits_ = 0;
    epoch_ = taken->epoch;
    parameters_ = restored->parameters;
    context_.tracker.forget_history();
    context_.store.advance(epoch_);
    const double took = to_seconds(context_.clock.now() - start);
    context_.metrics.observe("collab_state_download_seconds", took);
    context_.log.info("state.downloaded",
                      {{"epoch", epoch_}, {"bytes", bytes}, {"donors", sources}, {"seconds", took}});
    tell(Kind::downloaded, fmt::format("state of epoch {} fetched: {:.1f} MB from {} donors in {:.1f} s", epoch_,
                                       static_cast<double>(bytes) / 1e6, sources, took));
    if (const std::uint64_t lost = restored->lost.samples; lost > 0) {
      tell(Kind::lost_samples, fmt::format("{} samples belonged to an older state", lost), lost);
    }
    if (in_step_) show();
    co_return true;
  }
  co_return false;
}

/// It was fetched and checked, and it is of something else. When it is what most hold, no other will come.
Task<> Member::refuse_state(std::uint64_t epoch, bool agreed) {
  ++misfits_;
  context_.log.warn("state.misfit", {{"epoch", epoch}, {"agreed", agreed}, {"in_a_row", misfits_}});
  if (agreed || misfits_ == kMisfitsMax) {
    throw Failure(ExitCode::incompatible, "the swarm's state does not fit the model or the optimizer here",
                  "the program the run was begun with: same tensors, same optimizer");
  }
  tell(Kind::waiting, fmt::format("a state of epoch {} does not fit the model or the optimizer here", epoch));
  co_await context_.clock.sleep_until(context_.clock.now() + options_.retry_min);
}

/// Most of the others hold other parameters than we did: whatever happened here, theirs count.
Task<> Member::heal() {
  const auto at = context_.tracker.diverged_at();
  if (!at) co_return;
  context_.log.warn("peer.diverged", {{"epoch", *at}});
  tell(Kind::diverged, fmt::format("parameters of epoch {} differ from the majority's: fetching theirs", *at));
  const bool downloaded = co_await download_state();
  release();
  if (downloaded) co_return;
  co_await context_.clock.sleep_until(context_.clock.now() + options_.retry_min);
}

Task<Result<std::shared_ptr<const state::Snapshot>>> Member::snapshot(std::uint64_t epoch) {
  if (epoch != epoch_) co_return epoch < epoch_ ? Errc::stale : Errc::late;
  struct Taken {
    std::shared_ptr<const state::Snapshot> snapshot;
  };
  const auto taken = std::make_shared<Taken>();
  const auto work = [taken, epoch](Trainer& trainer) {
    taken->snapshot = std::make_shared<const state::Snapshot>(trainer.snapshot(epoch));
  };
  const auto done = co_await bridge_.on_trainer(work);
  if (!done) co_return done.error();
  if (epoch != epoch_) co_return Errc::stale;  // a step came first: the copy is of the epoch after
  co_return taken->snapshot;
}

MemberStatus Member::status() const {
  MemberStatus status;
  status.in_step = in_step_;
  status.epoch = epoch_;
  status.samples = static_cast<std::uint64_t>(std::max(0.0, context_.tracker.samples()));
  status.own_samples = bridge_.samples();
  status.peers = context_.tracker.current_peers();
  status.eta_s = context_.tracker.eta_s();
  status.loss = context_.tracker.loss();
  return status;
}

void Member::tell(Kind kind, std::string text, std::uint64_t samples) {
  MemberEvent event;
  event.kind = kind;
  event.epoch = epoch_;
  event.samples = samples;
  event.text = std::move(text);
  on_event_(event);
}

}  // namespace collab::epoch
