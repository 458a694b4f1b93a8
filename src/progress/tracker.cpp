#include "progress/tracker.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

namespace collab::progress {
namespace {

constexpr Duration kAskAlone = std::chrono::seconds(5);         // for the answer
constexpr Duration kAloneForgotten = std::chrono::seconds(15);  // without another answer
constexpr std::int64_t kRecordTtlPeriods = 6;  // two make a record stale; the rest bridges a lost server
constexpr std::size_t kReportsMax = 1024;
constexpr Duration kAskKeepers = std::chrono::seconds(2);  // for the answer; without one nobody waits for them
constexpr Duration kLookWhileLeaving = std::chrono::milliseconds(500);
constexpr Duration kLeavesShow = std::chrono::seconds(2);  // by then everybody has read who else leaves
constexpr std::uint64_t kEpochsAhead = 2;                  // records travel: one may well be further than any two show
constexpr Duration kNothingNew = std::chrono::seconds(2);  // between two records that say the same
constexpr int kLooksPerPeriod = 4;
constexpr Duration kCountsEarly = std::chrono::seconds(1);
constexpr Duration kPaceMax = std::chrono::milliseconds(500);    // later, who has a wrong clock is misjudged
constexpr Duration kRestPerPeer = std::chrono::milliseconds(4);  // after each reading of all
constexpr std::size_t kHoldersMin = 2;                           // of another state, before it is the majority's
constexpr double kNearlyFull = 0.8;  // of the target batch: records are late, and a leader knows more
constexpr double kFasterMax = 2;     // than what it is measured by, so much a newcomer is believed to be at once

/// std::erase_if of maps in one piece.
template <class Map, class Gone>
void erase_from(Map& map, const Gone& gone) {
  for (auto next = map.begin(); next != map.end();) next = gone(*next) ? map.erase(next) : std::next(next);
}

std::int64_t to_ms(Duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

/// Of what others act upon; a rate alone, or a loss, is no news.
bool says_the_same(const Record& a, const Record& b) {
  const auto told = [](const Record& record) {
    return std::tie(record.epoch, record.samples, record.handed_over, record.left, record.given_up, record.group,
                    record.parameters, record.taking_part, record.averaging, record.heir);
  };
  return told(a) == told(b);
}

/// In how long it may be one of a group. A moment early, as its clock is not quite ours.
Duration counts_in(const Record& record, std::int64_t now_ms) {
  if (record.taking_part) return Duration::zero();
  const Duration waits = std::chrono::milliseconds(record.votes_from_ms - now_ms) - kCountsEarly;
  return std::clamp<Duration>(waits, Duration::zero(), kSilentCounts);
}

}  // namespace

Tracker::Tracker(Needs needs, TrackerOptions options)
    : needs_(std::move(needs)),
      options_(options),
      watch_(needs_.directory.watch(std::string(kProgressKey))),
      changed_(needs_.loop),
      due_(needs_.loop) {}

Tracker::~Tracker() = default;

Task<> Tracker::run() {
  const auto body = [this](TaskGroup& tasks) -> Task<> {
    tasks.spawn("progress.publish", publish());
    tasks.spawn("progress.alone", ask_whether_alone());
    co_await follow();
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
}

void Tracker::show(Record own) {
  const bool news = !shown_ || own.epoch != own_.epoch || own.group != own_.group ||
                    own.taking_part != own_.taking_part || own.given_up != own_.given_up ||
                    own.votes_from_ms != own_.votes_from_ms ||
                    (own.samples_per_s > 0 && own_.samples_per_s == 0);  // without it nobody knows an ETA
  if (news) {
    history_[own.epoch] = {own.parameters, own.ledger};
    while (history_.size() > options_.history) history_.erase(history_.begin());
  }
  own.unix_ms = needs_.clock.unix_ms();
  own.period_ms = own_.period_ms;
  if (!shown_ || own.epoch != own_.epoch) {
    steps_.take(own.epoch, own.unix_ms);
    fresh_.until_ms = std::numeric_limits<std::int64_t>::min();  // samples grow from now on, not from when it was made
  }
  own_ = std::move(own);
  shown_ = true;
  if (own_.heir && !heir_shown_) {
    heir_shown_ = needs_.clock.now();
    const auto heir = reports_.find(PeerId{*own_.heir});
    if (heir != reports_.end()) heir->second.inherit(own_.epoch, own_.left);
    send();
  }
  if (!news) return;
  urgent_ = true;
  due_.notify();
}

Task<> Tracker::leave(TimePoint deadline, bool run_is_over) {
  const bool last_state = run_is_over || current_peers() == 1;
  leaving_since_ = needs_.clock.unix_ms();
  if (shown_) {
    Record last = own_;
    last.taking_part = false;
    last.votes_from_ms = 0;
    last.samples = 0;
    show(last);
  }
  while (!somebody_stays() && needs_.clock.now() < deadline) {
    const TimePoint look = std::min(deadline, needs_.clock.now() + kLookWhileLeaving);
    if (somebody_is_behind()) {
      co_await changed_.wait_until(needs_.clock, look);  // records also go stale by themselves
      continue;
    }
    bool wanted = false;
    if (last_state) wanted = co_await a_keeper_is_behind(deadline);
    if (!wanted) break;
    // asked by the clock: when a swarm ends, every record changes, and each of its peers is here
    co_await needs_.clock.sleep_until(look);
  }
  if (heir_shown_) co_await needs_.clock.sleep_until(std::min(deadline, *heir_shown_ + kLeavesShow));
  left_ = true;
  needs_.directory.withdraw(std::string(kProgressKey), "");
}

bool Tracker::somebody_is_behind() const {
  const auto& fresh = others();
  return shown_ && std::any_of(fresh.begin(), fresh.end(), [&](const Standing& standing) {
           return standing.record.taking_part && standing.record.epoch < own_.epoch;
         });
}

Task<bool> Tracker::a_keeper_is_behind(TimePoint deadline) {
  if (!shown_ || !needs_.directory.connected()) co_return false;
  const TimePoint patience = std::min(deadline, needs_.clock.now() + kAskKeepers);
  const auto records = co_await needs_.directory.get(std::string(kKeeperKey), patience);
  if (!records) co_return false;
  co_return std::any_of(records->begin(), records->end(), [&](const directory::Record& record) {
    const auto keeper = decode_keeper(record.value);
    return keeper && keeper->epoch < own_.epoch;
  });
}

/// Of two who leave together each sees the other taking part in a record from before: only newer ones tell, or time.
bool Tracker::somebody_stays() const {
  const auto& fresh = others();
  const bool settled = needs_.clock.unix_ms() >= leaving_since_ + to_ms(kLeavesShow);
  return std::any_of(fresh.begin(), fresh.end(), [&](const Standing& standing) {
    const Record& record = standing.record;
    return record.taking_part && record.epoch >= own_.epoch && (settled || record.unix_ms >= leaving_since_);
  });
}

Task<> Tracker::publish() {
  while (!shown_) co_await due_.wait();
  while (!left_) {
    // news at most every period_min, so that epochs of a blink do not flood the directory
    const Duration look = period();
    // far from the end of an epoch nobody needs every record at once
    pace_ = std::min<Duration>(look / kLooksPerPeriod, kPaceMax);
    watch_->relax(pace_);
    if (ask_) ask_();
    const bool same = sent_ && says_the_same(*sent_, own_);
    const Duration wait = same ? std::max(look, kNothingNew) : look;
    own_.period_ms = static_cast<std::uint32_t>(to_ms(wait));
    urgent_ = false;
    send();
    sent_ = own_;
    if (!first_published_) first_published_ = needs_.clock.now();
    const TimePoint published = needs_.clock.now();
    co_await needs_.clock.sleep_until(published + options_.period_min);
    for (;;) {
      if (same && ask_) ask_();
      const bool news = urgent_ || (same && !says_the_same(*sent_, own_));
      if (news || needs_.clock.now() >= published + wait) break;
      co_await due_.wait_until(needs_.clock, std::min(published + wait, needs_.clock.now() + look));
    }
  }
}

void Tracker::send() {
  const Duration least = options_.period_min;
  const Duration period = std::max<Duration>(std::chrono::milliseconds(own_.period_ms), least);
  own_.period_ms = static_cast<std::uint32_t>(to_ms(period));
  own_.unix_ms = needs_.clock.unix_ms();
  const Duration ttl =
      std::clamp<Duration>(kRecordTtlPeriods * period, std::chrono::seconds(10), std::chrono::seconds(60));
  needs_.directory.publish(std::string(kProgressKey), "", encode(own_), ttl);
}

Duration Tracker::period() {
  // of all, not only of those who tell of this epoch: where epochs are shorter than records travel nobody does, and who
  // died then would count for long
  const double rate = samples_per_s();
  const double left = std::max(0.0, static_cast<double>(options_.target_batch) - samples());
  const Duration wanted = rate > 0 ? from_seconds(std::min(left / rate / 8, 3600.0)) : options_.period_max;
  const Duration least = std::clamp<Duration>(spread(), options_.period_min, options_.period_max);
  const Duration bounded = std::clamp<Duration>(wanted, least, options_.period_max);
  const double jitter = 0.8 + 0.4 * static_cast<double>(needs_.random.below(1U << 20U)) * 0x1p-20;
  return from_seconds(to_seconds(bounded) * jitter);
}

Duration Tracker::spread() const {
  return from_seconds(static_cast<double>(current_peers()) / options_.read_per_s_max);
}

Task<> Tracker::follow() {
  for (;;) {
    read_records(watch_->records());
    // every reading is of all of them, and the news of a large swarm are many a second
    const Duration rest = std::min<Duration>(kRestPerPeer * current_peers(), pace_ / 2);
    const Duration pause = std::max(options_.read_pause, rest);
    if (pause > Duration::zero()) co_await needs_.clock.sleep_until(needs_.clock.now() + pause);
    // records also go stale by themselves, so look again even when nothing comes
    co_await watch_->changed_until(needs_.clock.now() + std::chrono::seconds(1));
  }
}

Task<Result<>> Tracker::look(TimePoint deadline) {
  const auto records = co_await needs_.directory.get(std::string(kProgressKey), deadline);
  if (!records) co_return records.error();
  read_records(*records);
  co_return Result<>();
}

void Tracker::read_records(const std::vector<directory::Record>& records) {
  std::vector<PeerId> present;  // sorted, as the records are
  std::vector<const directory::Record*> news;
  present.reserve(records.size());
  auto before = told_.begin();  // sorted too
  for (const directory::Record& record : records) {
    if (!record.subkey.empty()) continue;
    if (record.owner == needs_.self) {
      if (const auto progress = decode(record.value); progress && !shown_) former_life_ = *progress;
      continue;
    }
    if (needs_.expelled && needs_.expelled(record.owner)) continue;
    while (before != told_.end() && before->first < record.owner) ++before;
    const bool told = before != told_.end() && before->first == record.owner;
    if (!told || before->second.sequence != record.sequence) {
      const auto progress = decode(record.value);
      if (!progress) {
        needs_.log.warn("progress.bad_record", {{"peer", record.owner.short_text()}});
        continue;
      }
      before = told_.insert_or_assign(before, record.owner, Told{record.sequence, *progress});
      news.push_back(&record);
    }
    present.push_back(record.owner);
  }
  fresh_.until_ms = std::numeric_limits<std::int64_t>::min();
  // who is new need not be forgotten
  if (!std::includes(present.begin(), present.end(), present_.begin(), present_.end())) forget_all_but(present);
  present_ = std::move(present);
  Yardsticks yardsticks;
  if (!news.empty()) {
    for (const auto& [peer, told] : told_) yardsticks.add(told.record);
    yardsticks.sort();
  }
  // who leaves comes first: what it leaves is then believed of its heir
  std::stable_partition(news.begin(), news.end(), [this](const directory::Record* record) {
    return told_.at(record->owner).record.heir.has_value();
  });
  for (const directory::Record* record : news) {
    believe(*record, yardsticks);
    known_.insert_or_assign(record->owner, reports_.at(record->owner).believed());
  }
  read_any_ = read_any_ || !told_.empty();
  tell_odd(news);
  note_who_gathers();
  changed_.notify();
}

/// `present`: sorted.
void Tracker::forget_all_but(const std::vector<PeerId>& present) {
  const auto gone = [&](const PeerId& peer) { return !std::binary_search(present.begin(), present.end(), peer); };
  erase_from(told_, [&](const auto& entry) { return gone(entry.first); });
  std::erase_if(odd_, gone);
  std::erase_if(handed_over_, [&](const auto& entry) { return gone(entry.first); });
  erase_from(known_, [&](const auto& entry) {
    if (!gone(entry.first)) return false;
    // that of who falls silent goes stale long before it goes, so this one was withdrawn
    if (is_fresh(entry.second, needs_.clock.unix_ms())) gathered_at_.erase(entry.first);
    recent_.until = TimePoint::min();
    return true;
  });
  if (reports_.size() > kReportsMax) {
    std::erase_if(reports_, [&](const auto& of) { return gone(of.first); });
    std::erase_if(credited_, [&](const auto& of) { return gone(of.first); });
  }
}

/// Of who says what cannot be, or holds what nobody else holds: said once, until it is in line again. With fewer than
/// three voters nobody is odd.
void Tracker::tell_odd(const std::vector<const directory::Record*>& news) {
  std::optional<Common> common;  // looked for once, and not at all where all are alike
  for (const directory::Record* from : news) {
    const PeerId& peer = from->owner;
    const Record& record = known_.at(peer);
    const bool like_mine = record.epoch == own_.epoch && record.parameters == own_.parameters;
    if (shown_ && (like_mine || record.epoch < own_.epoch)) {  // as most records are
      odd_.erase(peer);
      continue;
    }
    if (!common) common = common_of();
    if (common->voters < 3 || !record.taking_part) continue;
    const char* why = nullptr;
    if (record.epoch > common->epoch + kEpochsAhead) why = "epochs ahead of all others";
    if (record.epoch == common->epoch && record.parameters != common->parameters) why = "other parameters than most";
    if (why == nullptr) {
      if (record.epoch == common->epoch) odd_.erase(peer);
    } else if (odd_.insert(peer).second) {
      needs_.log.warn("progress.odd", {{"peer", peer.short_text()}, {"epoch", record.epoch}, {"why", why}});
    }
  }
}

Tracker::Common Tracker::common_of() const {
  std::vector<const Record*> voters;
  for (const Standing& standing : others())
    if (standing.record.taking_part) voters.push_back(&standing.record);
  if (shown_ && own_.taking_part) voters.push_back(&own_);
  EpochsShown epochs;
  for (const Record* record : voters) epochs.add(record->epoch);
  const std::uint64_t epoch = epochs.global().value_or(0);
  Votes votes;
  for (const Record* record : voters)
    if (record->epoch == epoch) votes.add(record->parameters, record->samples);
  return {voters.size(), epoch, votes.most()};
}

void Tracker::note_who_gathers() {
  const TimePoint now = needs_.clock.now();
  const std::int64_t now_ms = needs_.clock.unix_ms();
  recent_.until = TimePoint::min();
  auto gathered = gathered_at_.begin();  // sorted as these are
  for (const auto& [peer, record] : known_) {
    while (gathered != gathered_at_.end() && gathered->first < peer) ++gathered;
    const bool there = gathered != gathered_at_.end() && gathered->first == peer;
    if (!record.taking_part && record.votes_from_ms == 0) {
      if (there) gathered = gathered_at_.erase(gathered);
    } else if (is_fresh(record, now_ms)) {
      gathered = gathered_at_.insert_or_assign(gathered, peer, now + counts_in(record, now_ms));
    }
  }
  erase_from(gathered_at_, [&](const auto& entry) {
    return now - entry.second > kSilentCounts || (needs_.expelled && needs_.expelled(entry.first));
  });
}

Yardstick Tracker::yardstick(const PeerId& peer, const Yardsticks& all) const {
  const Record* told = &told_.at(peer).record;
  Yardstick out;
  out.samples_per_s = kFasterMax * std::max(own_.samples_per_s, all.samples_per_s(told));
  out.microbatch = std::max(own_.microbatch, all.microbatch(told));
  out.share = options_.target_batch / (told_.size() + 1);
  out.first_look = !read_any_;
  return out;
}

void Tracker::believe(const directory::Record& from, const Yardsticks& all) {
  const Record& told = told_.at(from.owner).record;
  SelfReport& report = reports_[from.owner];
  const std::uint64_t excess = report.see(told, from.sequence, yardstick(from.owner, all), needs_.clock.unix_ms());
  if (report.handed_over() > 0) handed_over_[from.owner] = report.handed_over();
  if (report.handed_over() == 0) handed_over_.erase(from.owner);
  if (told.heir) credit_heir(from.owner);
  if (excess == 0) {
    if (report.believed().samples == told.samples) doubted_.erase(from.owner);
    return;
  }
  if (needs_.metrics != nullptr) needs_.metrics->add("collab_refused_total", 1, {{"reason", "self_report"}});
  if (!doubted_.insert(from.owner).second) return;  // said once, until it is believed again
  needs_.log.warn("progress.not_believed", {{"peer", from.owner.short_text()},
                                            {"epoch", told.epoch},
                                            {"samples", told.samples},
                                            {"believed", report.believed().samples}});
}

/// Once in an epoch, however often it is told.
void Tracker::credit_heir(const PeerId& leaver) {
  const auto left = reports_.at(leaver).left();
  const auto heir = reports_.find(PeerId{*told_.at(leaver).record.heir});
  if (!left || heir == reports_.end() || heir->first == leaver) return;
  const auto [credited, first] = credited_.try_emplace(leaver, left->epoch);
  if (!first && credited->second >= left->epoch) return;
  credited->second = left->epoch;
  heir->second.inherit(left->epoch, left->samples);
}

std::optional<std::uint64_t> Tracker::left_by(const PeerId& peer) const {
  const auto told = told_.find(peer);
  if (told == told_.end() || told->second.record.epoch != epoch()) return std::nullopt;
  const auto& heir = told->second.record.heir;
  const auto& left = reports_.at(peer).left();
  if (heir != needs_.self.key || !left || left->epoch != epoch()) return std::nullopt;
  return left->samples;
}

const Tracker::Fresh& Tracker::fresh() const {
  const std::int64_t now_ms = needs_.clock.unix_ms();
  if (fresh_.from_ms <= now_ms && now_ms <= fresh_.until_ms) return fresh_;
  auto standings = std::move(fresh_.standings);
  standings.clear();
  Fresh& fresh = fresh_ = Fresh();
  fresh.standings = std::move(standings);
  fresh.from_ms = now_ms;
  fresh.until_ms = std::numeric_limits<std::int64_t>::max();
  fresh.standings.reserve(known_.size());
  for (const auto& [peer, record] : known_) {
    fresh.until_ms = std::min(fresh.until_ms, stays_so_until(record, now_ms));
    fresh.until_ms = std::min(fresh.until_ms, stays_so_until(record, now_ms, 0));  // so long its samples grow
    if (!is_fresh(record, now_ms)) continue;
    fresh.standings.push_back({peer, record});
    fresh.epochs.add(record.epoch);
    if (!record.taking_part) continue;
    ++fresh.taking_part;
    fresh.samples_per_s += record.samples_per_s;
  }
  return fresh;
}

const std::vector<Standing>& Tracker::others() const {
  return fresh().standings;
}

std::optional<std::uint64_t> Tracker::global_epoch() const {
  EpochsShown epochs = fresh().epochs;
  if (shown_) epochs.add(own_.epoch);
  return epochs.global();
}

std::vector<Standing> Tracker::all() const {
  auto standings = others();
  if (shown_) standings.push_back({needs_.self, own_});
  return standings;
}

std::size_t Tracker::current_peers() const {
  return fresh().taking_part + 1;
}

std::size_t Tracker::recent_peers() const {
  const TimePoint now = needs_.clock.now();
  if (now <= recent_.until) return recent_.peers;
  recent_ = {1, TimePoint::max()};
  for (const auto& [peer, gathered_at] : gathered_at_) {
    if (now - gathered_at > kSilentCounts) continue;
    const bool counts = gathered_at <= now;
    recent_.until = std::min(recent_.until, counts ? gathered_at + kSilentCounts : gathered_at - Duration(1));
    if (counts) ++recent_.peers;
  }
  return recent_.peers;
}

std::vector<PeerId> Tracker::recent() const {
  const TimePoint now = needs_.clock.now();
  std::vector<PeerId> peers;
  for (const auto& [peer, gathered_at] : gathered_at_)
    if (gathered_at <= now && now - gathered_at <= kSilentCounts) peers.push_back(peer);
  if (shown_ && own_.taking_part) peers.insert(std::upper_bound(peers.begin(), peers.end(), needs_.self), needs_.self);
  return peers;
}

std::vector<PeerId> Tracker::taking_part() const {
  std::vector<PeerId> peers;
  peers.reserve(fresh().taking_part + 1);
  for (const Standing& standing : others())
    if (standing.record.taking_part) peers.push_back(standing.peer);
  if (shown_ && own_.taking_part) peers.push_back(needs_.self);
  return peers;
}

std::vector<PeerId> Tracker::clients() const {
  std::vector<PeerId> peers;
  for (const auto& [peer, record] : known_)
    if (record.client) peers.push_back(peer);
  if (own_.client) peers.insert(std::upper_bound(peers.begin(), peers.end(), needs_.self), needs_.self);
  return peers;
}

bool Tracker::nobody_can_be_dialled() const {
  const bool own = shown_ && own_.taking_part;
  const auto& others = this->others();  // once: what it is may change with the time
  if (fresh_.taking_part + (own ? 1 : 0) < 2 || (own && !own_.client)) return false;
  const auto may_be = [](const Standing& one) { return one.record.taking_part && !one.record.client; };
  return std::none_of(others.begin(), others.end(), may_be);
}

bool Tracker::hears_all() const {
  const TimePoint steady = needs_.directory.steady_since();
  return steady != TimePoint::max() && needs_.clock.now() >= steady + options_.back_after;
}

bool Tracker::hears_nobody() const {
  const bool long_known = first_published_ && needs_.clock.now() - *first_published_ >= options_.alone_after;
  if (!long_known || !needs_.directory.connected() || (met_others_ && !hears_all())) return false;
  return current_peers() == 1 && donors(epoch() + 1).empty();
}

bool Tracker::alone() const {
  return hears_nobody() && confirmed_alone_ && needs_.clock.now() < *confirmed_alone_ + kAloneForgotten;
}

Task<> Tracker::ask_whether_alone() {
  for (;;) {
    met_others_ = met_others_ || current_peers() > 1;
    if (!hears_nobody()) {
      confirmed_alone_.reset();
      co_await needs_.clock.sleep_until(needs_.clock.now() + std::chrono::seconds(1));
      continue;
    }
    const auto answered = co_await look(needs_.clock.now() + kAskAlone);
    const TimePoint now = needs_.clock.now();
    if (answered && hears_nobody()) {
      confirmed_alone_ = now;
      changed_.notify();
    }
    co_await needs_.clock.sleep_until(now + std::chrono::seconds(1));
  }
}

/// Who shows nothing was in no epoch before: for it only those gather who say so.
Steps Tracker::steps() const {
  if (shown_) return steps_;
  Steps steps;
  steps.epoch = epoch();
  return steps;
}

const Tracker::Sum& Tracker::sum() const {
  (void)fresh();  // moves on with the time
  Fresh& fresh = fresh_;
  const Steps steps = this->steps();
  if (fresh.sum && fresh.sum->epoch == steps.epoch) return *fresh.sum;
  Sum& sum = fresh.sum.emplace();
  sum.epoch = steps.epoch;
  for (const auto& [peer, record] : fresh.standings) {
    if (!gathers(record, steps)) continue;
    sum.samples += gathered(record, steps, fresh.from_ms);
    if (is_fresh(record, fresh.from_ms, 0)) sum.per_ms += record.samples_per_s / 1000;
  }
  for (const auto& [peer, samples] : handed_over_) {
    const auto known = known_.find(peer);
    const bool counts = known != known_.end() && known->second.epoch == sum.epoch && known->second.taking_part;
    if (counts && is_fresh(known->second, fresh.from_ms)) sum.handed_over += samples;
  }
  return sum;
}

double Tracker::samples() const {
  const Sum& sum = this->sum();
  const auto age_ms = static_cast<double>(needs_.clock.unix_ms() - fresh_.from_ms);
  return sum.samples + sum.per_ms * age_ms + static_cast<double>(own_.samples);
}

double Tracker::samples_per_s() const {
  return fresh().samples_per_s + (shown_ && own_.taking_part ? own_.samples_per_s : 0);
}

double Tracker::samples_elsewhere(const std::vector<PeerId>& peers) const {
  const std::int64_t now_ms = needs_.clock.unix_ms();
  const Steps steps = this->steps();
  double elsewhere = samples() - static_cast<double>(own_.samples) + sum().handed_over;
  for (const PeerId& peer : peers) {
    const auto known = known_.find(peer);
    if (known == known_.end() || !is_fresh(known->second, now_ms)) continue;
    elsewhere -= gathered(known->second, steps, now_ms);
    const auto handed_over = handed_over_.find(peer);
    const bool counts = known->second.epoch == steps.epoch && known->second.taking_part;
    if (counts && handed_over != handed_over_.end()) elsewhere -= handed_over->second;
  }
  return std::max(0.0, elsewhere);
}

std::optional<Standing> Tracker::first_from(const PeerId& from) const {
  const auto found = known_.lower_bound(from);
  return found == known_.end() ? std::nullopt : std::optional<Standing>({found->first, found->second});
}

std::uint64_t Tracker::samples_max(const PeerId& peer, Duration ahead) const {
  if (peer == needs_.self) return std::numeric_limits<std::uint64_t>::max();
  const std::size_t peers = std::max<std::size_t>(2, current_peers());
  const std::uint64_t share = (options_.target_batch + peers - 1) / peers;
  const auto report = reports_.find(peer);
  if (report == reports_.end()) return share;
  // late records must not keep an epoch from beginning: a share is believed of everybody
  const double most = report->second.samples_max(epoch(), needs_.clock.unix_ms() + to_ms(ahead));
  return std::max(share, static_cast<std::uint64_t>(std::min(most, 0x1p53)));
}

double Tracker::eta_of_others_s() const {
  const double rate = progress::samples_per_s(others(), epoch());
  if (rate <= 0) return std::numeric_limits<double>::infinity();
  return std::max(0.0, static_cast<double>(options_.target_batch) - samples()) / rate;
}

double Tracker::eta_s() const {
  const double own = shown_ && own_.taking_part ? own_.samples_per_s : 0;
  const double rate = progress::samples_per_s(others(), epoch()) + own;
  if (rate <= 0) return std::numeric_limits<double>::infinity();
  return std::max(0.0, static_cast<double>(options_.target_batch) - samples()) / rate;
}

double Tracker::loss() const {
  double sum = 0;
  std::size_t count = 0;
  const auto add = [&](const Record& record) {
    if (!record.taking_part || !std::isfinite(record.loss)) return;
    sum += record.loss;
    ++count;
  };
  for (const Standing& standing : others()) add(standing.record);
  if (shown_) add(own_);
  return count == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(count);
}

std::vector<PeerId> Tracker::donors(std::uint64_t epoch) const {
  std::vector<const Standing*> there;
  for (const Standing& standing : others())
    if (standing.record.epoch >= epoch) there.push_back(&standing);
  std::stable_sort(there.begin(), there.end(),
                   [](const Standing* a, const Standing* b) { return a->record.epoch > b->record.epoch; });
  std::vector<PeerId> peers;
  for (const Standing* standing : there) peers.push_back(standing->peer);
  return peers;
}

std::size_t Tracker::turn_in_epoch(std::uint64_t epoch) const {
  if (turns_.epoch != epoch) turns_ = {epoch, {}};
  const auto place = [&](const PeerId& peer) {
    const auto [known, fresh] = turns_.places.try_emplace(peer);
    if (fresh) known->second = Hasher("collab turn").add(peer.key).add(epoch).finish();
    return known->second;
  };
  const Digest own = place(needs_.self);
  const auto& fresh = others();
  const auto before = std::count_if(fresh.begin(), fresh.end(), [&](const Standing& standing) {
    return standing.record.taking_part && place(standing.peer) < own;
  });
  return static_cast<std::size_t>(before);
}

std::optional<std::uint64_t> Tracker::diverged_at() const {
  const auto& fresh = others();
  std::set<std::uint64_t> epochs;  // asked whenever a record has come, of whom hardly any holds something else
  for (const auto& [peer, record] : fresh) {
    const auto held = history_.find(record.epoch);
    if (held != history_.end() && held->second.is_unlike(record)) epochs.insert(record.epoch);
  }
  for (const std::uint64_t epoch : epochs) {
    const Held& own = history_.at(epoch);
    Record mine = own_;
    mine.epoch = epoch;
    mine.parameters = own.parameters;
    mine.ledger = own.ledger;
    std::vector<Standing> there = {{needs_.self, mine}};
    mine.samples = 0;
    for (const auto& [peer, record] : fresh) {
      if (record.epoch == epoch) there.push_back({peer, record});
      if (record.epoch < epoch && record.taking_part) there.push_back({peer, mine});
      // who holds what we hold now came the same way
      const bool like_us = record.epoch == own_.epoch && record.parameters == own_.parameters;
      if (like_us && record.epoch > epoch) there.push_back({peer, mine});
    }
    const auto outvoted = [&](std::optional<Digest> most, Digest Record::*held) {
      const auto holds = [&](const Standing& one) { return one.record.*held == most; };
      const auto holders = static_cast<std::size_t>(std::count_if(there.begin(), there.end(), holds));
      // of many, the first one to come is no majority
      return most != mine.*held && holders >= std::min(kHoldersMin, current_peers() - 1);
    };
    if (outvoted(majority(there, epoch), &Record::parameters)) return epoch;
    if (own.ledger != Digest{} && outvoted(majority_ledger(there, epoch), &Record::ledger)) return epoch;
  }
  return std::nullopt;
}

bool Tracker::has_handed_over(std::uint64_t epoch) const {
  const std::int64_t now_ms = needs_.clock.unix_ms();
  const auto has = [&](const auto& entry) {
    const Record& record = entry.second.record;
    return record.epoch == epoch && record.handed_over > 0 && is_fresh(record, now_ms, to_ms(kSilentCounts));
  };
  return std::any_of(told_.begin(), told_.end(), has);
}

bool Tracker::others_average(std::uint64_t epoch) const {
  const auto averages = [epoch](const Standing& one) {
    const Record& record = one.record;
    return record.averaging && record.taking_part && record.epoch <= epoch && epoch - record.epoch <= 1;
  };
  const auto& others = this->others();
  return std::count_if(others.begin(), others.end(), averages) >= 2;
}

bool Tracker::has_given_up(const PeerId& peer, std::uint64_t epoch, std::uint32_t attempt,
                           std::uint64_t incarnation) const {
  const auto told = told_.find(peer);
  if (told == told_.end()) return false;
  const Record& record = told->second.record;
  return record.incarnation == incarnation && record.epoch == epoch && record.given_up > attempt;
}

bool Tracker::may_have_promised(std::uint64_t epoch) const {
  const std::int64_t now_ms = needs_.clock.unix_ms();
  const bool lately = former_life_ && is_fresh(*former_life_, now_ms, to_ms(kSilentCounts));
  if (!lately || !former_life_->taking_part || former_life_->epoch < epoch) return false;
  std::vector<Standing> then = {{needs_.self, *former_life_}};  // also of those who are silent now: they may know
  for (const auto& [peer, told] : told_) {
    if (told.record.epoch > former_life_->epoch) return true;
    then.push_back({peer, told.record});
  }
  return gathered(then, former_life_->epoch, now_ms) >= kNearlyFull * static_cast<double>(options_.target_batch);
}

}  // namespace collab::progress
