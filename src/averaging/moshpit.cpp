#include "averaging/moshpit.hpp"

#include "averaging/describe.hpp"
#include "base/task_group.hpp"
#include "matchmaking/search_until.hpp"

#include <algorithm>
#include <cassert>
#include <map>
#include <set>
#include <utility>

namespace collab::averaging {
namespace {

using matchmaking::Group;
using matchmaking::Matchmaker;
using matchmaking::Wanted;

constexpr Duration kLookWhetherItStands = std::chrono::milliseconds(100);
constexpr Duration kTryAgain = std::chrono::milliseconds(250);
constexpr Duration kSearchMax = std::chrono::minutes(10);  // of a round that is tried again and again

/// Of a round: its cell as a whole has no result, so far.
bool came_to_nothing(const boost::system::error_code& why) {
  using matchmaking::NoGroup;
  return why == Errc::late || why == Errc::gone || why == NoGroup::late || why == NoGroup::no_quorum ||
         why == NoGroup::alone;
}

/// Since when a pass waits, while it does. Of several at a time the first counts.
class Wait {
 public:
  Wait(std::optional<TimePoint>& since, Clock& clock) : since_(since), first_(!since) {
    if (first_) since_ = clock.now();
  }
  ~Wait() {
    if (first_) since_.reset();
  }
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;

 private:
  std::optional<TimePoint>& since_;
  bool first_;
};

class TrueForNow {
 public:
  explicit TrueForNow(bool& flag) : flag_(flag) { flag_ = true; }
  ~TrueForNow() { flag_ = false; }
  TrueForNow(const TrueForNow&) = delete;
  TrueForNow& operator=(const TrueForNow&) = delete;

 private:
  bool& flag_;
};

/// Whether all that it spoke for was left out, for its units are counted already.
bool overlapped(const RoundReport& report, Rank rank) {
  return std::all_of(report.segments.begin(), report.segments.end(),
                     [&](const SegmentReport& segment) { return contains(segment.overlapping, rank); });
}

}  // namespace

/// What a peer carries from round to round.
struct Moshpit::Progress {
  std::vector<float> values;
  Weights weights;
  Work work;
  Digest previous{};
  PassOutcome outcome;
  PassReport& report;
  std::uint32_t round = 1;
  bool again = false;          ///< this round was tried before
  bool lacks = false;          ///< it committed without a voice of every cell
  TaskGroup* tasks = nullptr;  ///< of the pass
  std::optional<TaskGroup::TaskId> learning = {};
  /// What the first group committed, if that was not known here at its end and nothing was made of it yet.
  std::optional<Outcome> learnt = {};
  bool knows_whether_counted = false;  ///< though its first group failed here

  /// What was learnt is of use: the round that begins with it is not over.
  bool may_speak() const { return learnt.has_value() && round == 2 && previous == Digest{}; }
  void only_receive() {
    weights = 0;
    work = {};
    previous = {};
  }
};

Moshpit::Moshpit(Context context, matchmaking::Context searches, const CodecMap& codecs, MoshpitOptions options)
    : context_(context), searches_(searches), codecs_(codecs), options_(std::move(options)) {}

Moshpit::~Moshpit() = default;

void Moshpit::samples(std::uint64_t epoch, std::uint64_t own_total) {
  if (!matchmakers_.empty()) matchmakers_.front()->samples(epoch, own_total);
}

void Moshpit::samples_elsewhere(std::uint64_t total) {
  if (!matchmakers_.empty()) matchmakers_.front()->samples_elsewhere(total);
}

void Moshpit::bandwidth(std::uint64_t up_bytes_per_s, std::uint64_t down_bytes_per_s) {
  up_bytes_per_s_ = up_bytes_per_s;
  down_bytes_per_s_ = down_bytes_per_s;
  for (const auto& matchmaker : matchmakers_) matchmaker->bandwidth(up_bytes_per_s, down_bytes_per_s);
}

void Moshpit::role(matchmaking::Role role) {
  options_.matchmaking.role = role;
  for (const auto& matchmaker : matchmakers_) matchmaker->role(role);
}

bool Moshpit::fits(const Pass& pass) const {
  const PeerId& self = context_.identity.id();
  if (!pass.schedule || pass.schedule->rounds() != pass.grid.rounds() || pass.schedule->rounds() == 0) return false;
  if (!pass.schedule->contains(self)) return false;
  for (std::uint32_t round = 1; round <= pass.schedule->rounds(); ++round) {
    const std::size_t cell = pass.schedule->group(self, round).size();
    if (cell < 2 || cell > matchmaking::kGroupSizeMax) return false;
  }
  return true;
}

/// The bound is that of the largest group there can be: equal for all voices, so that all groups end with equal work.
Work Moshpit::for_next_round(Work work) const {
  const std::uint32_t voices = *std::max_element(pass_->grid.radices.begin(), pass_->grid.radices.end());
  const std::uint64_t closed = work.close_gaps(work_ranges_max(voices));
  if (closed > 0) context_.log.warn("averaging.work_skipped", {{"epoch", pass_->epoch}, {"units", closed}});
  return work;
}

void Moshpit::make_matchmakers() {
  const PeerId& self = context_.identity.id();
  while (matchmakers_.size() < pass_->schedule->rounds()) {
    const auto round = static_cast<std::uint32_t>(matchmakers_.size() + 1);
    auto options = search_options(options_.matchmaking, round);
    options.key = key_in(*pass_, options_.bundle, round, pass_->schedule->digits(self, round));
    matchmakers_.push_back(std::make_unique<Matchmaker>(searches_, std::move(options)));
    matchmakers_.back()->bandwidth(up_bytes_per_s_, down_bytes_per_s_);
  }
}

Wanted Moshpit::wanted(std::uint32_t round, const Progress& progress) const {
  const Pass& pass = *pass_;
  const PeerId& self = context_.identity.id();
  Wanted wanted = wanted_in(pass, options_.bundle, round, pass.schedule->group(self, round));
  std::erase_if(wanted.expected, [&](const matchmaking::Expected& one) {
    return matchmaking::seat_of(one.id) == matchmaking::seat_of(self);
  });
  wanted.previous = progress.previous;
  wanted.dropped = pass.schedule->dropped(self, round);
  const bool first_try = round == 1 && !progress.again;
  if (!first_try) wanted.target_samples = 0;  // of a round that has begun before, the batch was full
  wanted.deadline = first_try ? pass.deadline : context_.clock.now() + (pass.stands ? kSearchMax : options_.patience);
  return wanted;
}

/// Whether values of every cell that the grid sends here are in all of the result.
bool Moshpit::whole(const Group& group, const RoundReport& report) const {
  if (group.round == 1) return true;
  Ranks covered = ~Ranks(0);
  for (const SegmentReport& segment : report.segments) covered &= segment.spoken_for | segment.overlapping;
  std::set<std::uint32_t> missing;
  for (const PeerId& peer : pass_->schedule->group(context_.identity.id(), group.round))
    missing.insert(pass_->schedule->dropped(peer, group.round));
  for (std::size_t rank = 0; rank < group.roster.size(); ++rank)
    if (contains(covered, rank) && group.roster[rank].role != matchmaking::Role::auxiliary)
      missing.erase(pass_->schedule->dropped(group.roster[rank].id, group.round));
  return missing.empty();
}

Task<Result<Group>> Moshpit::find(std::uint32_t round, const Progress& progress) {
  Wanted search = wanted(round, progress);
  auto group = co_await matchmakers_.at(round - 1)->find_group(std::move(search));
  if (!group || as_foreseen(*group, *pass_->schedule)) co_return group;
  context_.log.warn("averaging.group_not_foreseen", {{"epoch", group->epoch}, {"round", group->round}});
  co_return Errc::bad_request;
}

/// The schedule was replaced, or others have been ahead for a while.
bool Moshpit::over() const {
  return pass_->stands && (!pass_->stands() || (pass_->overtaken && pass_->overtaken()));
}

/// Returns when it makes no sense to look for a group any more, or as one that only receives.
Task<boost::system::error_code> Moshpit::in_vain(const Progress& progress) const {
  Clock& clock = context_.clock;
  const Duration overtaken_max = std::max(options_.overtaken_max, longest_round() / 2);
  for (std::optional<TimePoint> overtaken_since; !pass_->stands || pass_->stands();) {
    const bool overtaken = pass_->overtaken && pass_->overtaken();
    if (!overtaken) overtaken_since.reset();
    if (overtaken && !overtaken_since) overtaken_since = clock.now();
    if (overtaken && clock.now() >= *overtaken_since + overtaken_max) co_return matchmaking::NoGroup::begun;
    if (progress.may_speak()) co_return matchmaking::NoGroup::begun;
    co_await clock.sleep_until(clock.now() + kLookWhetherItStands);
  }
  co_return matchmaking::NoGroup::late;
}

Task<Result<Group>> Moshpit::find_while_it_stands(Progress& progress) {
  const Wait wait(waits_since_, context_.clock);
  for (;;) {
    if (progress.may_speak()) speak_after_all(progress);
    auto group = co_await matchmaking::search_until(find(progress.round, progress), in_vain(progress));
    if (group || !progress.may_speak()) co_return group;
  }
}

bool Moshpit::stuck(Duration least, unsigned rounds) const {
  if (!waits_since_) return false;
  return too_light_ || context_.clock.now() - *waits_since_ >= std::max(least, rounds * longest_round());
}

Task<Result<Group>> Moshpit::begin(Pass pass) {
  first_.reset();
  first_talk_.reset();
  pass_.reset();
  if (!fits(pass)) co_return Errc::bad_request;
  pass_ = std::move(pass);
  PassReport nothing_yet;
  const Progress nothing{{}, {}, {}, {}, {}, nothing_yet};
  if (counted_in_ == here() && pass_->stands) {
    const Wait wait(waits_since_, context_.clock);
    co_return co_await in_vain(nothing);
  }
  too_light_ = false;
  make_matchmakers();
  if (forgotten_ == here() && pass_->stands) co_return matchmaking::NoGroup::begun;
  const Wait wait(seeks_since_, context_.clock);
  auto group = co_await find(1, nothing);
  if (group) {
    first_ = *group;
    first_talk_ = open_round(context_, *group);
  }
  co_return group;
}

/// What the last of them came to.
Task<Result<>> Moshpit::run_rounds(Progress& progress) {
  Result<> last;
  for (progress.round = 1; progress.round <= pass_->schedule->rounds(); ++progress.round) {
    last = co_await run_round(progress);
    if (progress.round == 2) stop_learning(progress);
    if (last) continue;
    if (last.error() == matchmaking::NoGroup::left) break;
    if (over()) {
      last = pass_->stands() ? matchmaking::NoGroup::begun : matchmaking::NoGroup::late;
      break;
    }
    if (progress.round == 1) start_learning(progress);
  }
  co_return last;
}

/// Until its cell has a whole result, with or without this peer, or the pass is over.
Task<Result<>> Moshpit::run_round(Progress& progress) {
  std::optional<Wait> wait;  // since the first try ended
  for (progress.again = false;; progress.again = true) {
    progress.lacks = false;
    auto done = co_await try_round(progress);
    const bool may_be_counted = progress.round == 1 && counted_in_ == here();
    const bool once_more = !done && (progress.lacks || came_to_nothing(done.error())) && !too_light_;
    if (!once_more || may_be_counted || !pass_->stands || over()) {
      if (!done) progress.only_receive();
      co_return done;
    }
    context_.log.info("averaging.round_again",
                      {{"epoch", pass_->epoch},
                       {"round", progress.round},
                       {"reason", progress.lacks ? "a voice was lost" : done.error().message()}});
    if (!wait) wait.emplace(waits_since_, context_.clock);
    co_await context_.clock.sleep_until(context_.clock.now() + kTryAgain);
  }
}

/// Of the time that a round took, what the values needed: where somebody was lost it has waited for that one as well.
Duration Moshpit::needed(const RoundReport& report, Duration took) const {
  const auto lost = [](const PeerReport& peer) { return peer.left_out != LeftOut::no; };
  const bool whole = report.outcome == RoundReport::Outcome::committed && report.views == 1 &&
                     std::none_of(report.peers.begin(), report.peers.end(), lost);
  return whole ? took : std::max(Duration(), took - options_.all_reduce.suspicion.silence_max);
}

Task<Result<>> Moshpit::try_round(Progress& progress) {
  const std::uint32_t round = progress.round;
  Result<Group> group = matchmaking::NoGroup::begun;
  if (round == 1 && !progress.again && first_) group = std::move(*first_);
  if (round > 1 || progress.again) group = co_await find_while_it_stands(progress);
  if (!group) co_return group.error();
  RoundReport& report = progress.report.rounds.emplace_back();
  auto talk = std::move(first_talk_);  // of later rounds none
  const TimePoint start = context_.clock.now();
  const TrueForNow averaging(averaging_);
  // a group that began while this peer was about to speak for its cell knows one that listens: another one speaks
  const bool listens = group->roster[group->rank_of(context_.identity.id()).value()].previous != progress.previous;
  Weights weights = listens ? Weights(0) : progress.weights;
  Work work = listens ? Work() : progress.work;
  auto outcome = co_await all_reduce(context_, *group, codecs_, progress.values, std::move(weights), std::move(work),
                                     options_.all_reduce, report, std::move(talk));
  longest_round_ = std::max(longest_round_, needed(report, context_.clock.now() - start));
  too_light_ = report.reason == RoundReport::Reason::weight_low;
  // others may commit what this peer has signed for: in another group of its cell it would be counted again
  if (round == 1 && report.undecided) counted_in_ = here();
  if (!outcome) co_return outcome.error();
  longest_committed_ = std::max(longest_committed_, needed(report, context_.clock.now() - start));
  if (round == 1) first_committed(*outcome, progress.report);
  progress.lacks = !whole(*group, report);
  if (progress.lacks && pass_->stands) {
    restore(progress);
    co_return Errc::stale;
  }
  co_return carry_on(std::move(*outcome), progress);
}

/// The round's result is in `progress.values`: the next one begins with it.
Result<> Moshpit::carry_on(Outcome outcome, Progress& progress) {
  const RoundReport report = outcome.report;
  const Group& group = outcome.proof->group();
  const auto self = group.rank_of(context_.identity.id());
  if (self && overlapped(report, static_cast<Rank>(*self))) {
    progress.report.counted = false;
    progress.report.overlapped = true;
  }
  // an owner that lies can have an average of nobody committed: there is nothing to bring to the next round
  const auto of_nobody = [](const WeightRun& run) { return run.weight == 0; };
  const bool empty = std::any_of(report.weight_runs.begin(), report.weight_runs.end(), of_nobody);
  progress.outcome.work = outcome.proof->work().all();
  progress.outcome.rounds.push_back(std::move(outcome));
  progress.outcome.weight = report.weight;
  if (empty || progress.lacks) return Errc::stale;
  if (self) matchmakers_.at(report.round - 1)->settled();
  progress.weights = Weights(report.weight_runs);
  progress.work = for_next_round(progress.outcome.work);
  progress.previous = report.group;
  return {};
}

void Moshpit::first_committed(const Outcome& outcome, PassReport& report) {
  const Group& group = outcome.proof->group();
  const auto self = group.rank_of(context_.identity.id());
  if (self) matchmakers_.front()->committed(group, outcome.proof->holders());
  report.counted = self && outcome.report.peers[*self].counted > 0;
  if (report.counted && forgotten_ != here()) counted_in_ = here();
  first_groups_.committed(outcome.report);
  if (pass_->keep_first) pass_->keep_first(outcome.proof);
}

void Moshpit::start_learning(Progress& progress) {
  if (pass_->fetch_first && pass_->schedule->rounds() > 1)
    progress.learning = progress.tasks->spawn("averaging.learn", learn(progress));
}

/// This peer has signed for what its first group came to, and lost sight of it; or the group began without this peer.
Task<> Moshpit::learn(Progress& progress) {
  WantedFirst wanted = first_of(*pass_, options_.bundle, context_.identity.id());
  auto round = co_await pass_->fetch_first(std::move(wanted));
  progress.learnt = Outcome{report_of(*round), round};
  first_committed(*progress.learnt, progress.report);
  progress.knows_whether_counted = true;
  context_.log.info("averaging.first_learnt",
                    {{"epoch", pass_->epoch}, {"round", progress.round}, {"counted", progress.report.counted}});
}

/// The round that would begin with it is over.
void Moshpit::stop_learning(Progress& progress) {
  if (progress.learning) progress.tasks->cancel(*progress.learning);
  progress.learnt.reset();
}

/// For its cell, as if it had been there when the first group committed.
void Moshpit::speak_after_all(Progress& progress) {
  Outcome first = *std::exchange(progress.learnt, std::nullopt);
  first.proof->apply(progress.values);
  (void)carry_on(std::move(first), progress);  // of an average of nobody it goes on to receive only
}

/// Who missed the round in which its groupmates' voice was left out learns it from the units of the result.
void Moshpit::look_whether_counted(const Work& own, Progress& progress) {
  Work missing = own;
  missing.subtract(progress.outcome.work);
  if (!progress.report.counted || missing.empty()) return;
  progress.report.counted = false;
  progress.report.overlapped = true;
}

/// The parts of a round that failed here were perhaps with their owners by then, and the whole result has them.
Task<> Moshpit::ask_whether_counted(PassReport& report) {
  const TimePoint until = context_.clock.now() + options_.inquiry_max;
  for (const RoundReport& tried : report.rounds) {
    if (tried.round != 1 || tried.outcome == RoundReport::Outcome::committed) continue;
    report.counted = co_await was_counted(context_.net, tried, until);
    if (report.counted) co_return;
  }
}

/// A result that is of no use has taken the place of what this peer brought.
void Moshpit::restore(Progress& progress) {
  if (progress.previous != Digest{}) progress.outcome.rounds.back().proof->apply(progress.values);
}

Task<Result<PassOutcome>> Moshpit::finish(std::span<float> values, std::uint64_t weight, Work work,
                                          PassReport& report) {
  report = {};
  if (!pass_ || values.size() != codecs_.length()) co_return Errc::bad_request;
  const PeerId& self = context_.identity.id();
  if (first_ && weight > first_->roster[first_->rank_of(self).value()].weight_max) co_return Errc::bad_request;
  const TimePoint start = context_.clock.now();
  const std::uint32_t rounds = pass_->schedule->rounds();
  const Work own_work = work;
  Progress progress{{values.begin(), values.end()}, weight, std::move(work), {}, {}, report};
  Result<> last;
  if (longest_committed_ > Duration()) longest_before_ = longest_committed_;
  longest_round_ = longest_committed_ = {};
  handed_over_ = weight;
  const auto body = [&](TaskGroup& tasks) -> Task<> {
    progress.tasks = &tasks;
    last = co_await run_rounds(progress);
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
  const bool asks = last && weight > 0 && !report.counted && !report.overlapped && !progress.knows_whether_counted;
  if (asks) co_await ask_whether_counted(report);
  if (last) look_whether_counted(own_work, progress);
  context_.log.info("averaging.pass", {{"epoch", pass_->epoch},
                                       {"rounds", rounds},
                                       {"committed", progress.outcome.rounds.size()},
                                       {"complete", last.has_value()},
                                       {"counted", report.counted},
                                       {"weight", progress.outcome.weight},
                                       {"seconds", to_seconds(context_.clock.now() - start)}});
  pass_.reset();
  handed_over_ = 0;
  if (!last) co_return last.error();
  std::copy(progress.values.begin(), progress.values.end(), values.begin());
  co_return std::move(progress.outcome);
}

std::uint32_t Moshpit::next_attempt(std::uint64_t epoch) const {
  return matchmakers_.empty() ? 0 : matchmakers_.front()->next_attempt(epoch);
}

void Moshpit::sit_out() {
  if (!matchmakers_.empty()) matchmakers_.front()->sit_out();
}

Task<> Moshpit::leave() {
  first_talk_.reset();
  const auto body = [&](TaskGroup& tasks) -> Task<> {
    for (const auto& matchmaker : matchmakers_) tasks.spawn("averaging.leave", matchmaker->leave());
    co_await tasks.join();
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
}

Task<> Moshpit::stop() {
  for (const auto& matchmaker : matchmakers_) co_await matchmaker->stop();
}

}  // namespace collab::averaging
