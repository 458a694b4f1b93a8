#include "epoch/member.hpp"

#include "base/offload.hpp"
#include "base/task_group.hpp"
#include "epoch/missed_round.hpp"
#include "epoch/pass_over.hpp"
#include "matchmaking/no_group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace collab::epoch {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using Kind = MemberEvent::Kind;

constexpr Duration kResultAwaited = milliseconds(250);  // where the round may well be running
constexpr Duration kAskAgain = seconds(1);              // who has a result, and was not to be reached
constexpr Duration kQuietMax = milliseconds(200);
constexpr Duration kLookAtSeats = seconds(1);
constexpr Duration kRoleAwaited = seconds(2);  // enough where dialling back gets through
constexpr Duration kLookAtRole = milliseconds(20);
constexpr double kEtaMax = 3600;                 // seconds
constexpr Duration kStuckAfter = seconds(5);     // with a full batch, and without an epoch
constexpr Duration kTellNoLeader = seconds(10);  // with a full batch, and nobody who leads
constexpr unsigned kDoubledMax = 6;              // times, by seatings of the epoch that were in vain
constexpr unsigned kStuckRounds = 4;             // so many times as long as a round of the own pass, others may take
constexpr unsigned kHopelessRounds = 16;
constexpr unsigned kUnledTimes = 2;   // so many times longer a first group may take to begin than a pass to go on
constexpr unsigned kSlowerLines = 4;  // so many times more, while a round runs somewhere,
constexpr Duration kSlowerMax = seconds(60);  // unless that is so much already
constexpr Duration kTurnPasses = seconds(4);  // of who seats a stuck epoch anew, to the next one
constexpr Duration kJoinMax = seconds(60);    // that a full batch waits for who fetches the state
constexpr Duration kJoinPause = minutes(10);  // before it waits again, when that was in vain
constexpr unsigned kTellFailures = 5;         // in a row; then the user reads why

Digest hash_of(const data::Ledger& ledger) {
  return state::content_hash(ledger.canonical());
}

/// Of its parameters and its ledger.
std::pair<Digest, Digest> hashes_of(const state::Snapshot& snapshot) {
  const auto of = [&snapshot](std::string_view name) {
    const state::Section* section = snapshot.find(name);
    return section == nullptr ? Digest{} : state::content_hash(section->bytes);
  };
  return {of("parameters"), of(data::kLedgerSection)};
}

/// Why nobody leads, as the user reads it; empty: not for want of somebody who can be dialled.
std::string too_few_dialled(const progress::Tracker& tracker, const matchmaking::Seating* grid, bool helped) {
  if (grid == nullptr) {
    if (!tracker.nobody_can_be_dialled()) return {};
    return "nobody who trains here can be dialled, and nobody averages for the others: one machine has to let others "
           "in (collab-peer doctor says how), or run collab-peer --role aux where they can dial it";
  }
  const std::size_t dialled = grid->seats.size() - grid->clients.size();
  if (helped || matchmaking::dialled_per_cell(grid->radices, dialled) > 0) return {};
  return fmt::format(
      "only {} of {} who train here can be dialled, too few to lead a group each: more machines have to let others in "
      "(collab-peer doctor says how), or run collab-peer --role aux where they can dial it",
      dialled, grid->seats.size());
}

}  // namespace

/// Lets the trainer go on, whichever way the epoch ends.
struct Member::Release {
  explicit Release(Member& of) : member(of) {}
  ~Release() { member.release(); }
  Release(const Release&) = delete;
  Release& operator=(const Release&) = delete;
  Member& member;
};

/// Records that go out tell how far the trainer is then, also between two borders that the loop hears of.
struct Member::Shown {
  explicit Shown(Member& of) : member(of) {
    member.context_.tracker.ask_before_publishing([this] { member.show(); });
  }
  ~Shown() { member.context_.tracker.ask_before_publishing(nullptr); }
  Shown(const Shown&) = delete;
  Shown& operator=(const Shown&) = delete;
  Member& member;
};

Member::Member(Context context, MemberOptions options, Bridge& bridge, OnEvent on_event)
    : context_(std::move(context)),
      options_(std::move(options)),
      role_at_first_(options_.role),
      bridge_(bridge),
      on_event_(std::move(on_event)),
      matchmaker_({context_.net, context_.clock, context_.directory, context_.log},
                  matchmaker_options(options_, context_.tracker, rates_, context_.net)),
      catch_up_({context_.net, context_.clock, context_.tracker, context_.log, context_.workers, context_.random,
                 bridge_, context_.identity.scheme(), context_.store},
                options_, [this](const Arrival& arrival) { arrived(arrival); }),
      seats_({context_.directory, context_.clock, context_.log, context_.identity.id(), context_.loop},
             seating_options(options_)),
      legacy_({context_.net, context_.clock, context_.log, context_.tracker, bridge_, options_.codecs, context_.leases,
               [this] { return takes_part(); }, context_.random.derive("legacy")},
              legacy_options(options_)),
      owed_(context_.loop, context_.workers, options_.codecs, context_.identity.id()),
      left_(context_.loop) {}

Member::~Member() = default;

averaging::MoshpitOptions Member::moshpit_options() const {
  averaging::MoshpitOptions out;
  out.bundle = averaging::bundle_of(options_.run_id);
  out.matchmaking = matchmaker_options(options_, context_.tracker, rates_, context_.net);
  out.all_reduce = all_reduce_options(options_);
  return out;
}

Task<> Member::run(std::uint64_t first_epoch) {
  epoch_ = first_epoch;
  const auto body = [this](TaskGroup& tasks) -> Task<> {
    const averaging::Context averaging{context_.net, context_.clock, context_.log, context_.identity, tasks};
    const matchmaking::Context searches{context_.net, context_.clock, context_.directory, context_.log};
    moshpit_.emplace(averaging, searches, options_.codecs, moshpit_options());
    if (owed_.in_use()) tasks.spawn("epoch.owed", owed_.run());
    (void)co_await seats_.look(context_.clock.now() + kLookTime);  // else the watch brings them
    const TimePoint role_due = context_.clock.now() + kRoleAwaited;
    tasks.spawn("epoch.look_for_donors", look_for_donors());
    co_await synchronise();
    co_await await_role(role_due);
    const Shown shown(*this);
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
  if (context_.leases != nullptr) context_.leases->leave();
  co_await leave_rounds();
}

Task<> Member::leave_rounds() {
  leaving_ = true;
  catch_up_.leave();
  co_await matchmaker_.leave();
  if (moshpit_) co_await moshpit_->leave();
}

std::optional<PeerId> Member::heir() const {
  return in_step_ && !leaving_ ? legacy_.heir(grid()) : std::nullopt;
}

/// The rounds are left at the same time: the others are not to begin one that waits for us.
Task<Result<>> Member::hand_on(PeerId heir, Estate estate, TimePoint deadline) {
  leaving_ = true;
  heir_ = heir;
  left_samples_ = estate.behind.samples;
  show();
  const auto given = std::make_shared<const Estate>(std::move(estate));
  Result<> handed = Errc::gone;
  const auto body = [&](TaskGroup& tasks) -> Task<> {
    tasks.spawn("epoch.leave_rounds", leave_rounds());
    handed = co_await legacy_.hand_on(heir, given, deadline);
    co_await tasks.join();
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
  if (context_.leases != nullptr) context_.leases->leave();  // now the heir may lease what is its own
  if (handed) {
    context_.log.info("samples.handed_on",
                      {{"epoch", epoch_}, {"samples", left_samples_}, {"peer", heir.short_text()}});
  }
  co_return handed;
}

bool Member::takes_part() const {
  const matchmaking::Seating* on = grid();
  return in_step_ && !leaving_ && (on == nullptr || on->has(context_.identity.id()));
}

Task<net::Answer> Member::take_on(PeerId from, Frame request, TimePoint deadline) {
  return legacy_.take_on(from, std::move(request), deadline);
}

net::Answer Member::was_counted(const PeerId& from, const Frame& request) const {
  if (!moshpit_) return Refusal(Errc::gone);
  return moshpit_->answer(from, request);
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
  ledger_ = hash_of(begun->ledger);
  const std::uint64_t first_epoch = epoch_;
  for (Duration pause = options_.retry_min; !leaving_; pause = std::min(2 * pause, options_.retry_max)) {
    const auto looked = co_await context_.tracker.look(context_.clock.now() + kLookTime);
    if (looked && context_.tracker.global_epoch().value_or(0) <= epoch_) break;
    if (looked) {
      const bool downloaded = co_await catch_up_.by_state(epoch_);
      if (downloaded) break;
    } else {
      tell(Kind::waiting, fmt::format("the directory does not answer ({}); trying again", looked.error().message()));
    }
    co_await context_.clock.sleep_until(context_.clock.now() + pause);
  }
  if (!leaving_ && context_.tracker.may_have_promised(epoch_)) co_await await_word_of_others(std::nullopt);
  CatchUp::Outcome outcome = CatchUp::Outcome::needs_state;
  while (!leaving_ && outcome == CatchUp::Outcome::needs_state) {
    outcome = co_await catch_up_.by_rounds(epoch_);
    if (outcome == CatchUp::Outcome::needs_state) co_await catch_up_.by_state(epoch_, /*newer=*/true);
  }
  // its seat is older than this process: as another voter it would found a second first group of its cell
  const matchmaking::Seating* on = grid();
  const bool seated = on != nullptr && on->has(context_.identity.id());
  if (seated && context_.tracker.has_handed_over(epoch_)) moshpit_->may_be_counted(on->grid().id, epoch_);
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
    pause_or_go_on();
    bridge_.quiet_until(context_.clock.now() + quiet_time());
    co_await bridge_.moved().wait();
  }
}

Duration Member::quiet_time() const {
  const double rate = bridge_.samples_per_s();
  const double rate_of_all = context_.tracker.samples_per_s();
  if (rate <= 0 || rate_of_all <= 0) return Duration(0);
  // in an epoch of a blink records of the others are of the one before: they will have done their share as we have
  const double share = static_cast<double>(bridge_.samples()) * rate_of_all / rate;
  const double missing = static_cast<double>(options_.target_batch) - std::max(context_.tracker.samples(), share);
  const double borders_s = 2 * static_cast<double>(bridge_.microbatch()) / rate;  // the last ones are heard of
  return std::min(kQuietMax, from_seconds(std::max(0.0, missing / rate_of_all - borders_s) / 2));
}

void Member::release() {
  pause_or_go_on();
  bridge_.quiet_until(TimePoint::min());  // what is known of the batch is of the epoch before
  bridge_.release(Bridge::Reason::epoch);
}

bool Member::may_compute() const {
  constexpr std::uint64_t kFull = matchmaking::kTargetsPerPeer - 1;  // leaves room for the microbatch in hand
  if (bridge_.samples() >= kFull * options_.target_batch) return false;
  const matchmaking::Seating* on = grid();
  return on == nullptr || on->has(context_.identity.id());
}

void Member::pause_or_go_on() {
  if (may_compute()) {
    bridge_.release(Bridge::Reason::enough);
  } else {
    bridge_.hold(Bridge::Reason::enough);
  }
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
  const progress::Tracker& tracker = context_.tracker;
  // a pass takes as long as it must, but where one has no group for it, the others' rounds wait in vain
  const double samples = moshpit_->seeks_first_group()
                             ? tracker.samples_elsewhere({}) + static_cast<double>(bridge_.samples())
                             : tracker.samples();
  const bool full = samples >= static_cast<double>(options_.target_batch);
  if (!full) full_since_.reset();
  if (full && !full_since_) full_since_ = now;
  tell_no_leader(now);
  SeatingKeeper::Now look;
  look.epoch = epoch_;
  const Duration stuck_after =
      std::max<Duration>(kStuckAfter * (1U << std::min(seats_.given_up(), kDoubledMax)), tracker.spread());
  look.others_average = tracker.others_average(epoch_);
  const bool are_slower = look.others_average && kStuckRounds * moshpit_->longest_round() < kSlowerMax;
  const unsigned longer = are_slower ? kSlowerLines : 1;
  const Duration full_max =
      std::max({kStuckAfter, tracker.spread(), longer * kStuckRounds * moshpit_->longest_round()});
  look.pass_max = full_max;
  // a seating that most may not have read yet is given time, though not by one that is read anew again and again
  const auto since = [&] { return std::clamp(seats_.in_force_since(), *full_since_, *full_since_ + full_max); };
  const bool full_for_long = full_since_ && now - since() >= full_max;
  look.stuck = full_for_long || moshpit_->stuck(stuck_after, longer * kStuckRounds);
  // who leads it may not have read the list, or only say that it helps: then no first group comes about
  const Duration unled_max =
      std::max<Duration>({look.others_average ? kSlowerMax : Duration(), kUnledTimes * stuck_after,
                          longer * kHopelessRounds * moshpit_->longest_round()});
  const auto& seeks_since = moshpit_->seeks_first_group_since();
  const bool led_by_nobody = full_since_ && seeks_since && now - std::max(since(), *seeks_since) >= unled_max;
  look.hopeless = led_by_nobody || moshpit_->stuck(stuck_after, longer * kHopelessRounds);
  look.last_epoch = last_epoch_;
  look.batch_full_in = full ? Duration() : from_seconds(std::min(context_.tracker.eta_s(), kEtaMax));
  look.present = context_.tracker.taking_part();
  look.recent = tracker.recent();
  look.clients = tracker.clients();
  look.averaging = moshpit_->averaging();
  look.swarm_epoch = tracker.global_epoch().value_or(0);
  look.my_turn = in_step_ && tracker.hears_all() && tracker.turn_in_epoch(epoch_) <= turns_passed(look.stuck);
  seats_.look_at(look);
}

/// Those whom nobody can dial would else wait for ever and not know for what.
void Member::tell_no_leader(TimePoint now) {
  if (matchmaker_.is_led()) led_at_ = now;
  const bool waits = full_since_ && now - std::max(*full_since_, led_at_) >= kTellNoLeader;
  if (!waits) return;
  std::string why = too_few_dialled(context_.tracker, grid(), seats_.helped());
  if (why.empty() || std::exchange(told_no_leader_, true)) return;
  tell(Kind::waiting, std::move(why));
}

/// Who is behind, where all who have the state only dial and nobody hands it on, would look for them for ever.
Task<> Member::look_for_donors() {
  std::uint64_t looked_at = epoch_;
  TimePoint none_since = context_.clock.now();
  for (;;) {
    const TimePoint now = context_.clock.now();
    const auto ahead = context_.tracker.donors(epoch_ + 1);
    const auto can_reach = [this](const PeerId& donor) { return context_.net.can_reach(donor); };
    const bool none =
        !ahead.empty() && std::none_of(ahead.begin(), ahead.end(), can_reach) && context_.net.tensor_relays().empty();
    if (!none || std::exchange(looked_at, epoch_) != epoch_) none_since = now;
    if (now - none_since >= kTellNoLeader) {
      tell(
          Kind::waiting,
          "none of those who have the state of the run can be dialled from here, and nobody hands it on: a coordinator "
          "with --relay bulk, its default, does; or one of them has to let others in (collab-peer doctor says how)");
      co_return;
    }
    co_await context_.clock.sleep_until(now + kLookAtSeats);
  }
}

/// Whose turn it is may have died in it, or not know that the others are stuck.
std::size_t Member::turns_passed(bool stuck) {
  const TimePoint now = context_.clock.now();
  if (!stuck) stuck_since_.reset();
  if (stuck && !stuck_since_) stuck_since_ = now;
  return stuck ? static_cast<std::size_t>((now - *stuck_since_) / kTurnPasses) : 0;
}

const matchmaking::Seating* Member::grid() const {
  const matchmaking::Seating* seating = seats_.in_force(epoch_);
  return seating == nullptr || seating->one_group() ? nullptr : seating;
}

/// A newcomer follows the others until they have made room for it: within a few epochs.
Task<> Member::wait_for_a_seat() {
  pause_or_go_on();
  if (!std::exchange(told_no_seat_, true)) {
    tell(Kind::waiting, "this peer has no place in the groups yet; it gets one within a few epochs");
  }
  const bool behind = context_.tracker.global_epoch().value_or(0) > epoch_;
  if (behind) {
    (void)co_await catch_up_.by_either(epoch_);
    co_return;
  }
  co_await context_.tracker.changed().wait_until(context_.clock, context_.clock.now() + kLookAtSeats);
}

void Member::show() {
  progress::Record own;
  own.epoch = epoch_;
  const matchmaking::Seating* on = grid();
  const bool brings = on == nullptr || on->has(context_.identity.id());
  own.samples = brings ? bridge_.samples() : 0;  // else groups would begin with samples that are in none of them
  own.samples_per_s = brings ? bridge_.samples_per_s() : 0;
  own.microbatch = bridge_.microbatch();
  own.group = group_;
  own.parameters = parameters_;
  own.ledger = ledger_;
  own.loss = loss_;
  own.taking_part = in_step_ && !leaving_;
  own.client = options_.role == matchmaking::Role::client;
  own.handed_over = moshpit_->handed_over();
  own.given_up = given_up_;
  own.incarnation = options_.incarnation;
  own.averaging = moshpit_->averaging();
  if (!in_step_ && !leaving_ && decided_ms_ > context_.clock.unix_ms()) own.votes_from_ms = decided_ms_;
  if (heir_) {
    own.samples = 0;
    own.heir = heir_->key;
    own.left = left_samples_;
  }
  context_.tracker.show(own);
}

/// After whatever moved the state: what is committed, and what was computed for nothing.
void Member::settle(const data::Ledger& ledger, const Gathered& lost) {
  if (context_.leases == nullptr) return;
  context_.leases->advance(ledger);
  context_.leases->give_back(lost.work);
}

void Member::tell_bandwidth() {
  const ClaimedLine line = claimed_line(options_, context_.tracker, context_.net);
  matchmaker_.bandwidth(line.up_bytes_per_s, line.down_bytes_per_s);
  moshpit_->bandwidth(line.up_bytes_per_s, line.down_bytes_per_s);
}

/// Who is alone needs nobody who could dial it: it goes on as one that can be, until somebody else takes part.
matchmaking::Role Member::role_now() const {
  const matchmaking::Role role = options_.role_now ? options_.role_now() : role_at_first_;
  return role == matchmaking::Role::client && context_.tracker.alone() ? matchmaking::Role::node : role;
}

Task<> Member::await_role(TimePoint until) {
  while (!leaving_ && options_.role_known && !options_.role_known() && context_.clock.now() < until)
    co_await context_.clock.sleep_until(context_.clock.now() + kLookAtRole);
}

void Member::follow_role() {
  const matchmaking::Role now = role_now();
  if (std::exchange(options_.role, now) == now) return;
  context_.log.info("peer.role", {{"client", now == matchmaking::Role::client}});
  matchmaker_.role(now);
  moshpit_->role(now);
  show();
}

Task<> Member::take_part(TaskGroup& tasks) {
  tell_bandwidth();
  follow_role();
  EpochOptions options;
  options.epoch = epoch_;
  const Release release(*this);
  const matchmaking::Seating* seating = grid();
  options.group_size_max = seats_.group_size_max(epoch_);
  const bool too_many = seating == nullptr && context_.tracker.current_peers() >= 2 * options.group_size_max;
  if (too_many || (seating != nullptr && !seating->has(context_.identity.id()))) {
    auto waiting = wait_for_a_seat();
    co_await std::move(waiting);
    co_return;
  }
  told_no_seat_ = false;
  if (seating != nullptr) {
    options.pass = pass_over(*seating, epoch_, context_.identity.id(), context_.tracker);
    options.pass->fetch_first = [this](averaging::WantedFirst wanted) {
      return catch_up_.first_group(std::move(wanted));
    };
    options.pass->keep_first = [this](const std::shared_ptr<const averaging::CommittedRound>& round) {
      context_.store.keep_first_group(round->group().epoch, round->group().topic, kept(round));
    };
  }
  options.target_batch = options_.target_batch;
  options.weight_min = weight_min(options_);
  options.values = options_.codecs.length();
  options.cut_wait = options_.cut_wait;
  options.delay = options_.delay;
  options.all_reduce = all_reduce_options(options_);
  // a standing group knows the old role, and is kept with it once more
  const bool kept = !options.pass && matchmaker_.is_presumed(epoch_);
  options.role_stands = [this, kept, role = options_.role] { return kept || role_now() == role; };
  options.is_joined = [this] { return waits_for_joiner(); };
  // on a grid a stuck epoch is seated anew
  if (!options.pass) options.is_over = [this] { return catch_up_.is_over(epoch_); };
  options.diverged = context_.tracker.diverged_at();
  const averaging::Context averaging{context_.net, context_.clock, context_.log, context_.identity, tasks};
  options.on_parts = options_.on_parts;
  const EpochContext node{averaging, matchmaker_,     *moshpit_, seats_,           legacy_,        context_.tracker,
                          bridge_,   options_.codecs, owed_,     context_.workers, context_.leases};
  EpochReport report;
  const auto done = co_await run_epoch(node, options, report);
  tell_lost(report);
  if (done) {
    committed(std::move(report));
  } else {
    co_await after_failure(done.error(), report);
  }
}

/// Not for ever: whoever fetches and fetches may never come.
bool Member::waits_for_joiner() {
  const TimePoint now = context_.clock.now();
  if (now < no_waiting_until_ || !context_.store.somebody_joins()) return false;
  if (!full_since_ || now - *full_since_ < kJoinMax) return true;
  context_.log.info("epoch.joiner_late", {{"epoch", epoch_}});
  no_waiting_until_ = now + kJoinPause;
  return false;
}

void Member::tell_lost(const EpochReport& report) {
  const auto lost = [&](std::uint64_t samples, std::string_view why, std::string text) {
    if (samples == 0) return;
    context_.log.info("samples.lost", {{"epoch", report.epoch}, {"samples", samples}, {"why", why}});
    tell(Kind::lost_samples, std::move(text), samples);
  };
  if (report.late > 0) context_.metrics.add("collab_microbatches_dropped_total", 1, {{"reason", "late"}});
  lost(report.late, "late",
       fmt::format("a microbatch of {} samples ended too late for epoch {}", report.late, report.epoch));
  lost(report.left_out, "left_out",
       fmt::format("epoch {} was made without {} samples of this peer: {}", report.epoch, report.left_out,
                   report.left_out_why));
  lost(report.overflowed, "not_finite",
       fmt::format("the gradients of {} samples add up to more than float32 holds", report.overflowed));
}

/// What others made of it shows in their records: whoever differs from most of them heals.
void Member::tell_not_finite(std::uint64_t epoch) {
  context_.metrics.add("collab_steps_not_finite_total");
  context_.log.warn("step.not_finite", {{"epoch", epoch}});
  tell(Kind::not_finite,
       fmt::format("the step of epoch {} was not finite; going on with the last parameters that were kept", epoch));
}

/// As the leader of the group chose, by its members' lines.
void Member::tell_codec(const averaging::RoundReport& round) {
  if (std::exchange(coarse_, round.coarse) == round.coarse) return;
  context_.log.info("epoch.codec", {{"epoch", round.epoch}, {"coarse", round.coarse}});
  tell(Kind::codec, round.coarse ? "the group's lines are slow: averages travel as 8 bits a value, not as 16"
                                 : "averages travel as 16 bits a value again");
}

void Member::epoch_begins() {
  const auto before = std::exchange(epoch_began_, context_.clock.now());
  if (before) last_epoch_ = *epoch_began_ - *before;
}

void Member::committed(EpochReport report) {
  epoch_ = report.epoch + 1;
  given_up_ = 0;
  epoch_begins();
  full_since_.reset();
  failures_ = 0;
  told_no_leader_ = false;
  parameters_ = report.parameters;
  ledger_ = report.ledger;
  loss_ = report.loss;
  if (report.group) {
    if (report.group->roster.size() > 1) context_.tracker.has_met_others();
    group_ = report.group->id;
    rates_.see(*report.group, report.round, load_options(options_, report.group->round));
    if (report.pass.empty()) {
      matchmaker_.committed(*report.group, report.proof ? report.proof->holders() : ~std::uint64_t(0));
    }
  }
  context_.store.advance(epoch_);
  if (report.proof) context_.store.keep_result(report.epoch, kept(report.proof));
  tell_epoch(report, context_.metrics, context_.log);
  if (context_.leases != nullptr) {
    context_.metrics.set("collab_units_unleased", static_cast<double>(context_.leases->unleased()));
  }
  show();
  look_at_seats();
  if (!report.finite) tell_not_finite(report.epoch);
  tell_codec(report.round);
  MemberEvent event;
  event.kind = Kind::committed;
  event.epoch = epoch_;
  event.report = std::move(report);
  on_event_(event);
  release();  // not before: a user's step() that sees the new epoch says that it was committed
}

/// Samples are back in the accumulator. What now depends on whether the others went on.
Task<> Member::after_failure(boost::system::error_code why, const EpochReport& report) {
  using matchmaking::NoGroup;
  release();
  if (leaving_ || why == NoGroup::left) co_return;
  if (why != Errc::stale && grid() == nullptr) give_up_rounds();
  const bool epoch_is_over = why == NoGroup::begun || why == Errc::stale;
  if (epoch_is_over) {
    // the result of a round that runs without us comes when it ends: the next one is ours from its begin
    const std::uint64_t before = epoch_;
    (void)co_await catch_up_.by_either(epoch_, kResultAwaited);  // whatever came of it, the epoch is searched for again
    release();
    // in step after all: their round failed, or has not ended yet
    if (epoch_ == before) co_await context_.clock.sleep_until(context_.clock.now() + milliseconds(50));
    co_return;
  }
  if (why == NoGroup::late || why == NoGroup::alone) co_return;  // the batch is not full, or somebody came or went
  ++failures_;
  const std::uint32_t attempt = grid() == nullptr ? matchmaker_.next_attempt(epoch_) : moshpit_->next_attempt(epoch_);
  context_.metrics.add("collab_rounds_total", 1, {{"result", "failed"}});
  context_.log.warn("round.failed", {{"epoch", epoch_}, {"attempt", attempt}, {"reason", why.message()}});
  tell(Kind::round_failed, fmt::format("epoch {}: {}; samples kept", epoch_, why.message()));
  if (failures_ == kTellFailures) {
    tell(Kind::waiting, fmt::format("{} rounds in a row have failed: {}", failures_, why.message()));
  }
  if (report.round.undecided && grid() == nullptr) {
    const std::uint64_t before = epoch_;
    co_await await_word_of_others(report.group);
    release();
    if (epoch_ > before) co_return;
  }
  // who was in the group that failed waits as long as its groupmates, however often it failed without them
  const std::uint32_t tries = std::max(attempt, failures_);
  const Duration pause = std::min(options_.retry_min * (1U << std::min(tries - 1, 5U)), options_.retry_max);
  co_await context_.clock.sleep_until(context_.clock.now() + pause);
}

/// Groupmates that have signed wait until they know of each other that none of them has the result.
void Member::give_up_rounds() {
  const std::uint32_t over = matchmaker_.next_attempt(epoch_);
  if (over <= given_up_) return;
  given_up_ = over;
  show();
}

/// This peer, or its former life, has signed for a result that others may have committed before their lines broke; in a
/// group without them it would help to another one. Their records tell; who shows none for so long counts no more, nor
/// does who is out of the run. `group`: that of the round; empty: a former life's, or one of a grid that is left.
Task<> Member::await_word_of_others(std::optional<matchmaking::Group> group) {
  const TimePoint until = context_.clock.now() + progress::kSilentCounts;
  const std::uint64_t before = epoch_;
  context_.log.info("epoch.undecided", {{"epoch", epoch_}});
  if (!in_step_) {
    decided_ms_ = context_.clock.unix_ms() + std::chrono::milliseconds(progress::kSilentCounts).count();
    show();
  }
  std::size_t asked = 0;
  TimePoint ask_again = until;
  Duration pause = kAskAgain;
  const auto has_given_up = [&](const matchmaking::Member& one) {
    // an auxiliary keeps no result for others
    return one.id == context_.identity.id() || one.role == matchmaking::Role::auxiliary ||
           context_.tracker.has_given_up(one.id, before, group->attempt, one.incarnation);
  };
  const auto nobody_has_it = [&] {
    return group && std::all_of(group->roster.begin(), group->roster.end(), has_given_up) &&
           context_.tracker.donors(epoch_ + 1).size() <= asked;
  };
  const auto is_over = [&] {
    return leaving_ || context_.tracker.knows_nobody() || context_.clock.now() >= until ||
           context_.tracker.global_epoch().value_or(0) > epoch_ || nobody_has_it();
  };
  while (!is_over()) {
    // one who says that it has committed is no majority, but the signatures of that round are
    const std::size_t ahead = context_.tracker.donors(epoch_ + 1).size();
    if (ahead > std::exchange(asked, ahead) || (ahead > 0 && context_.clock.now() >= ask_again)) {
      (void)co_await catch_up_.by_rounds(epoch_);
      if (epoch_ > before) co_return;
      ask_again = context_.clock.now() + std::exchange(pause, 2 * pause);  // its line may have broken a moment ago
    }
    const TimePoint look = ahead > 0 ? std::min(until, ask_again) : until;
    co_await context_.tracker.changed().wait_until(context_.clock, look);
  }
}

/// Whoever is behind: the trainer is where others were before.
void Member::arrived(const Arrival& arrival) {
  settle(arrival.ledger, arrival.lost);
  epoch_ = arrival.epoch;
  if (arrival.by == Arrival::By::state) epoch_began_.reset();
  if (arrival.by == Arrival::By::round) epoch_begins();
  given_up_ = 0;
  parameters_ = arrival.parameters;
  ledger_ = hash_of(arrival.ledger);
  if (arrival.by != Arrival::By::nothing) context_.store.advance(epoch_);
  if (arrival.by == Arrival::By::round) missed(arrival.round);
  if (arrival.by == Arrival::By::state) restored(arrival);
  if (!arrival.finite) tell_not_finite(epoch_ - 1);
  if (arrival.by == Arrival::By::nothing) {
    tell(Kind::waiting, "a state that was fetched does not fit the model or the optimizer here");
  }
  const std::uint64_t lost = arrival.lost.samples;
  if (lost == 0) return;
  context_.log.info("samples.lost", {{"epoch", epoch_}, {"samples", lost}, {"why", "behind"}});
  tell(Kind::lost_samples, fmt::format("{} samples were of an epoch that is over", lost), lost);
}

void Member::missed(std::shared_ptr<const averaging::CommittedRound> round) {
  failures_ = 0;
  full_since_.reset();
  group_ = round->group().id;
  owed_.missed(round);
  context_.store.keep_result(epoch_ - 1, kept(std::move(round)));
  context_.metrics.add("collab_rounds_total", 1, {{"result", "behind"}});
  context_.log.info("epoch.caught_up", {{"epoch", epoch_ - 1}});
  if (in_step_) show();
  tell(Kind::caught_up);
}

void Member::restored(const Arrival& arrival) {
  context_.tracker.forget_history();
  owed_.forget();
  context_.metrics.observe("collab_state_download_seconds", arrival.seconds);
  context_.log.info(
      "state.downloaded",
      {{"epoch", epoch_}, {"bytes", arrival.bytes}, {"donors", arrival.donors}, {"seconds", arrival.seconds}});
  if (in_step_) show();
  tell(Kind::downloaded, fmt::format("state of epoch {} fetched: {:.1f} MB from {} donors in {:.1f} s", epoch_,
                                     static_cast<double>(arrival.bytes) / 1e6, arrival.donors, arrival.seconds));
}

/// Most of the others hold another state than we did: whatever happened here, theirs count.
Task<> Member::heal() {
  const auto at = context_.tracker.diverged_at();
  if (!at) co_return;
  context_.log.warn("peer.diverged", {{"epoch", *at}});
  tell(Kind::diverged, fmt::format("parameters or units of epoch {} differ from the majority's: fetching theirs", *at));
  const bool downloaded = co_await catch_up_.by_state(epoch_);
  release();
  if (downloaded) co_return;
  co_await context_.clock.sleep_until(context_.clock.now() + options_.retry_min);
}

Task<Result<std::shared_ptr<const state::Snapshot>>> Member::snapshot(std::uint64_t epoch) {
  if (epoch != epoch_) co_return epoch < epoch_ ? Errc::stale : Errc::late;
  struct Taken {
    std::shared_ptr<const state::Snapshot> snapshot;
  };
  const std::pair told(parameters_, ledger_);
  const auto taken = std::make_shared<Taken>();
  const auto work = [taken](Trainer& trainer) {
    taken->snapshot = std::make_shared<const state::Snapshot>(trainer.snapshot());
  };
  const auto done = co_await bridge_.on_trainer(work);
  if (!done) co_return done.error();
  if (taken->snapshot->epoch != epoch) co_return Errc::stale;  // a step came first
  const auto hash = [snapshot = taken->snapshot] { return hashes_of(*snapshot); };
  const auto held = co_await offload(context_.workers, hash);
  if (held != told && told == std::pair(parameters_, ledger_)) tell_changed(held.first, held.second);
  co_return taken->snapshot;
}

/// Memory is not what it was when its hash was told. The others judge by what is told, and whoever asks for a state
/// takes none but that: so tell what is held, and let the majority decide.
void Member::tell_changed(const Digest& parameters, const Digest& ledger) {
  parameters_ = parameters;
  ledger_ = ledger;
  context_.log.warn("peer.memory_changed", {{"epoch", epoch_}});
  if (in_step_) show();
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
