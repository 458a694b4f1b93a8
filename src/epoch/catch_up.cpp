#include "epoch/catch_up.hpp"

#include "base/task_group.hpp"
#include "epoch/missed_round.hpp"
#include "epoch/round_donors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace collab::epoch {
namespace {

constexpr std::size_t kOthersAsked = 4;                           // for a round that they may have by now
constexpr std::size_t kOthersAskedToWait = 16;                    // where it may well be running
constexpr Duration kFirstGroupAwaited = std::chrono::seconds(5);  // by those who are asked, before they say no
constexpr Duration kFirstGroupPause = std::chrono::seconds(1);
constexpr Duration kStateTime = std::chrono::hours(1);
constexpr Duration kLookForRounds = std::chrono::seconds(1);  // that have ended while a state is fetched
constexpr std::uint64_t kAheadOfRecords = 32;  // that a donor may be, where epochs are shorter than records travel
constexpr std::uint64_t kMeanwhileBytesMin = 1U << 20U;  // of rounds, beside a state of fewer
constexpr Duration kAskAheadMin = std::chrono::seconds(1);
constexpr Duration kAskAheadMax = std::chrono::seconds(8);
constexpr unsigned kInsteadAtOnce = 8;  // epochs asked for in a row because donors name them; then a pause
constexpr unsigned kMisfitsMax = 5;     // in a row, of states that no majority vouches for

}  // namespace

CatchUp::CatchUp(Needs needs, const MemberOptions& options, OnArrival on_arrival)
    : needs_(std::move(needs)), options_(options), on_arrival_(std::move(on_arrival)) {}

void CatchUp::arrived(const Arrival& arrival) {
  epoch_ = arrival.epoch;
  on_arrival_(arrival);
}

Task<CatchUp::Outcome> CatchUp::by_either(std::uint64_t epoch, Duration wait) {
  Outcome outcome = co_await by_rounds(epoch, wait);
  while (outcome == Outcome::needs_state && !leaving_) {
    const bool downloaded = co_await by_state(epoch_, /*newer=*/true);
    if (!downloaded) break;
    outcome = co_await by_rounds(epoch_);
  }
  co_return outcome;
}

std::vector<PeerId> CatchUp::donors_of_round(std::uint64_t epoch, std::size_t others) {
  const auto can_reach = [this](const PeerId& peer) { return needs_.net.can_reach(peer); };
  const bool relayed = !needs_.net.tensor_relays().empty();
  RoundDonors from{needs_.tracker.donors(epoch + 1), needs_.tracker.donors(0), others};
  return choose_donors(std::move(from), can_reach, relayed, needs_.random);
}

/// Each round that is fetched waits for who does not answer, in which the others end another one: once is enough.
void CatchUp::leave_out_silent(std::vector<PeerId>& donors) const {
  const auto is_silent = [this](const PeerId& donor) {
    return std::find(silent_.begin(), silent_.end(), donor) != silent_.end();
  };
  if (!std::all_of(donors.begin(), donors.end(), is_silent)) std::erase_if(donors, is_silent);
}

Task<CatchUp::Outcome> CatchUp::by_rounds(std::uint64_t epoch, Duration wait) {
  silent_.clear();
  for (epoch_ = epoch;; wait = Duration()) {
    if (leaving_) co_return Outcome::nobody;
    Round round = take_ahead(epoch_);
    if (round == nullptr) {
      auto donors = donors_of_round(epoch_, wait > Duration() ? kOthersAskedToWait : kOthersAsked);
      if (donors.empty()) co_return Outcome::nobody;
      leave_out_silent(donors);
      auto fetched = co_await fetch_round(epoch_, std::move(donors), wait);
      if (!fetched) {
        const bool too_old = fetched.error().code == Errc::stale && fetched.error().number > epoch_;
        co_return too_old ? Outcome::needs_state : Outcome::in_step;
      }
      round = std::move(*fetched);
    }
    const bool applied = co_await apply(std::move(round));
    if (!applied) co_return Outcome::needs_state;
  }
}

/// Null when it is not there; those before it go.
CatchUp::Round CatchUp::take_ahead(std::uint64_t epoch) {
  ahead_.erase(ahead_.begin(), ahead_.lower_bound(epoch));
  const auto found = ahead_.extract(epoch);
  return found.empty() ? nullptr : found.mapped();
}

/// A state of many bytes on a slow line takes longer than the donors keep the rounds after it: who asked for those only
/// then had to fetch the state again, and again. Where they keep them for long, none is fetched before its time.
Task<> CatchUp::fetch_rounds_meanwhile(std::uint64_t first, Meanwhile& state) {
  const std::uint64_t bytes_each = options_.codecs.encoded_bytes({0, options_.codecs.length()});
  const TimePoint old = needs_.clock.now() + state::ResultKeeper::kAgeMax / 2;
  const std::uint64_t many = first + needs_.store.results().epochs_kept(bytes_each) / 2;
  ahead_.erase(ahead_.begin(), ahead_.lower_bound(first));
  std::uint64_t next = first;
  while (!leaving_ && !state.is_here) {
    while (ahead_.contains(next)) ++next;
    const std::uint64_t now_at = needs_.tracker.global_epoch().value_or(0);
    if (now_at <= next || (now_at < many && needs_.clock.now() < old)) {
      co_await needs_.tracker.changed().wait_until(needs_.clock, needs_.clock.now() + kLookForRounds);
      continue;
    }
    if (state.bytes > 0 && bytes_each * (ahead_.size() + 1) > std::max(state.bytes, kMeanwhileBytesMin)) {
      needs_.log.warn("state.slow", {{"epoch", first}, {"rounds_meanwhile", ahead_.size()}});
      co_return;
    }
    auto donors = donors_of_round(next, kOthersAsked);
    leave_out_silent(donors);
    state.round_comes = true;
    auto round = co_await fetch_round(next, std::move(donors), Duration());
    state.round_comes = false;
    if (round) {
      ahead_.emplace(next, std::move(*round));
      continue;
    }
    if (round.error().code == Errc::stale && round.error().number > next) co_return;
    co_await needs_.clock.sleep_until(needs_.clock.now() + kLookForRounds);
  }
}

Task<bool> CatchUp::is_over(std::uint64_t epoch) {
  ahead_.clear();
  if (std::exchange(ask_ahead_epoch_, epoch) != epoch) {
    ask_ahead_at_ = TimePoint();
    ask_ahead_pause_ = Duration();
  }
  auto ahead = needs_.tracker.donors(epoch + 1);
  if (ahead.empty() || leaving_ || needs_.clock.now() < ask_ahead_at_) co_return false;
  // one at a time: they do not vote, so a second one could only hide what the first one has
  const PeerId asked = ahead[needs_.random.below(ahead.size())];
  auto fetched = co_await fetch_round(epoch, std::vector<PeerId>(1, asked), Duration());
  if (fetched && is_ours(**fetched)) {
    ahead_.emplace(epoch, std::move(*fetched));
    co_return true;
  }
  ask_ahead_pause_ = std::clamp<Duration>(2 * ask_ahead_pause_, kAskAheadMin, kAskAheadMax);
  ask_ahead_at_ = needs_.clock.now() + ask_ahead_pause_;
  co_return false;
}

bool CatchUp::is_ours(const averaging::CommittedRound& round) const {
  const matchmaking::Group& group = round.group();
  const std::vector<PeerId> recent = needs_.tracker.recent();
  const auto is_in = [&group](const PeerId& peer) { return group.rank_of(peer).has_value(); };
  const auto present = static_cast<std::size_t>(std::count_if(recent.begin(), recent.end(), is_in));
  return is_in(needs_.net.self()) && 2 * present > recent.size();
}

/// The donors may wait for it to end.
Task<boost::system::result<CatchUp::Round, Refusal>> CatchUp::fetch_round(std::uint64_t epoch,
                                                                          std::vector<PeerId> donors, Duration wait) {
  auto fetched = co_await epoch::fetch_round(downloads(), wanted(epoch, wait), std::move(donors));
  if (!fetched) co_return fetched.error();
  silent_.insert(silent_.end(), fetched->silent.begin(), fetched->silent.end());
  co_return std::move(fetched->round);
}

state::Context CatchUp::downloads() {
  return {needs_.net, needs_.clock, needs_.workers, needs_.log, needs_.random};
}

WantedRound CatchUp::wanted(std::uint64_t epoch, Duration wait) const {
  return {epoch, std::nullopt, {}, wait, options_.schema, options_.codecs, needs_.scheme};
}

Task<CatchUp::Round> CatchUp::first_group(averaging::WantedFirst wanted_first) {
  const auto can_reach = [this](const PeerId& peer) { return needs_.net.can_reach(peer); };
  for (;;) {
    std::vector<PeerId> donors = wanted_first.cell();
    std::erase(donors, needs_.net.self());
    // a relay holds a place for each question, and others need those
    const bool by_relays = std::none_of(donors.begin(), donors.end(), can_reach);
    WantedRound first = wanted(wanted_first.epoch, by_relays ? Duration() : kFirstGroupAwaited);
    first.first_group = wanted_first.topic;
    first.is_it = wanted_first.is_it;
    auto fetched = co_await epoch::fetch_round(downloads(), std::move(first), std::move(donors));
    if (fetched) co_return std::move(fetched->round);
    co_await needs_.clock.sleep_until(needs_.clock.now() + kFirstGroupPause);
  }
}

/// The step that the others took in the round, taken here too: equal bytes, equal parameters. False: the trainer has
/// left.
Task<bool> CatchUp::apply(std::shared_ptr<const averaging::CommittedRound> round) {
  const auto arrival = std::make_shared<Arrival>();
  const auto work = [round, arrival, epoch = epoch_, values = options_.codecs.length()](Trainer& trainer) {
    std::vector<float> averaged(values);
    round->apply(averaged);
    arrival->lost = trainer.drop();
    Stepped stepped = trainer.take_step(averaged, epoch, round->work().all());
    trainer.adopt();
    arrival->by = Arrival::By::round;
    arrival->epoch = epoch + 1;
    arrival->finite = stepped.finite;
    arrival->parameters = stepped.parameters;
    arrival->ledger = std::move(stepped.ledger);
  };
  needs_.bridge.hold(Bridge::Reason::epoch);
  const auto done = co_await needs_.bridge.on_trainer(work);
  if (!done) co_return false;
  arrival->round = std::move(round);
  arrived(*arrival);
  co_return true;
}

Task<bool> CatchUp::by_state(std::uint64_t epoch, bool newer) {
  epoch_ = epoch;
  // who trains alone has no round to show, and its state is the former one until it stands at a border
  const std::uint64_t least = newer ? epoch + 1 : epoch;
  instead_in_a_row_ = 0;
  instead_ = {};
  const TimePoint start = needs_.clock.now();
  std::uint64_t asked = std::max(least, needs_.tracker.global_epoch().value_or(0));
  while (!leaving_ && needs_.clock.now() < start + kStateTime) {
    const auto donors = needs_.tracker.donors(0);
    if (donors.empty()) co_return false;
    state::WantedState wanted;
    wanted.epoch = asked;
    wanted.parameters = progress::majority(needs_.tracker.others(), asked);  // unknown while epochs are short
    wanted.ledger = progress::majority_ledger(needs_.tracker.others(), asked);
    wanted.deadline = start + kStateTime;
    const bool agreed = wanted.parameters.has_value();
    Arrival arrival;
    const auto snapshot = co_await download(std::move(wanted), donors, arrival);
    if (!snapshot) {
      asked = co_await epoch_instead(asked, least, snapshot.error());
      continue;
    }
    arrival.seconds = to_seconds(needs_.clock.now() - start);
    co_return co_await restore(*snapshot, agreed, std::move(arrival));
  }
  co_return false;
}

/// `arrival` is told from how many donors it came.
Task<boost::system::result<CatchUp::State, Refusal>> CatchUp::download(state::WantedState wanted,
                                                                       std::vector<PeerId> donors, Arrival& arrival) {
  Meanwhile meanwhile;
  const auto on_progress = [&](const state::Progress& progress) {
    arrival.donors = progress.donors;
    meanwhile.bytes = progress.bytes_total;
  };
  const state::Context context = downloads();
  boost::system::result<State, Refusal> came(Errc::gone);
  const auto body = [&](TaskGroup& tasks) -> Task<> {
    tasks.spawn("epoch.rounds_meanwhile", fetch_rounds_meanwhile(wanted.epoch, meanwhile));
    came = co_await state::download_and_share(context, needs_.store, std::move(wanted), std::move(donors), on_progress);
    meanwhile.is_here = true;
    if (came && meanwhile.round_comes) co_await tasks.join();  // it is what would be asked for next
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
  co_return came;
}

/// What donors name is hearsay: one who is alone in being reached could send us anywhere, and for ever.
Task<std::uint64_t> CatchUp::epoch_instead(std::uint64_t asked, std::uint64_t least, Refusal refusal) {
  needs_.log.info("state.not_yet", {{"epoch", asked}, {"reason", refusal.reason}, {"number", refusal.number}});
  const auto instead = instead_.after(refusal, asked, options_.epochs_max);
  const std::uint64_t farthest = needs_.tracker.global_epoch().value_or(epoch_) + kAheadOfRecords;
  const bool may_be = instead && *instead >= least && *instead <= farthest;
  if (may_be && ++instead_in_a_row_ % kInsteadAtOnce != 0) co_return *instead;
  co_await needs_.clock.sleep_until(needs_.clock.now() + options_.retry_min);
  co_await needs_.tracker.look(needs_.clock.now() + kLookTime);
  co_return std::max(least, needs_.tracker.global_epoch().value_or(asked));
}

/// `arrival`: how the snapshot was fetched. False when the trainer has left or the snapshot does not fit.
Task<bool> CatchUp::restore(State snapshot, bool agreed, Arrival arrival) {
  for (const auto& section : snapshot->sections) arrival.bytes += section.bytes.size();
  const auto into = std::make_shared<Arrival>(std::move(arrival));
  const auto work = [snapshot, into, epoch = epoch_](Trainer& trainer) {
    into->lost = trainer.drop();
    const auto restored = trainer.restore(*snapshot);
    into->by = restored ? Arrival::By::state : Arrival::By::nothing;
    into->epoch = restored ? snapshot->epoch : epoch;
    into->parameters = trainer.parameter_hash();
    into->ledger = trainer.ledger();
  };
  needs_.bridge.hold(Bridge::Reason::epoch);
  const auto done = co_await needs_.bridge.on_trainer(work);
  if (!done) co_return false;
  arrived(*into);
  if (into->by == Arrival::By::nothing) {
    co_await refuse_state(snapshot->epoch, agreed);
    co_return false;
  }
  misfits_ = 0;
  co_return true;
}

/// It was fetched and checked, and it is of something else. When it is what most hold, no other will come.
Task<> CatchUp::refuse_state(std::uint64_t epoch, bool agreed) {
  ++misfits_;
  needs_.log.warn("state.misfit", {{"epoch", epoch}, {"agreed", agreed}, {"in_a_row", misfits_}});
  if (agreed || misfits_ == kMisfitsMax) {
    throw Failure(ExitCode::incompatible, "the swarm's state does not fit the model or the optimizer here",
                  "the program the run was begun with: same tensors, same optimizer");
  }
  co_await needs_.clock.sleep_until(needs_.clock.now() + options_.retry_min);
}

}  // namespace collab::epoch
