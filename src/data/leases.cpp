#include "data/leases.hpp"

#include "data/lease_plan.hpp"
#include "directory/lease_record.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

namespace collab::data {
namespace {

constexpr Duration kLook = std::chrono::seconds(1);
constexpr Duration kAgain = std::chrono::milliseconds(100);
constexpr Duration kLeavesIn = std::chrono::seconds(5);  // who leaves us its units frees them within this time
constexpr std::uint64_t kPassesWatched = 4;
constexpr std::uint64_t kNoEnd = std::numeric_limits<std::uint64_t>::max();

}  // namespace

Leases::Leases(Needs needs, LeaseOptions options)
    : needs_(std::move(needs)), options_(options), wanted_(needs_.loop), ready_signal_(needs_.loop) {}

Leases::~Leases() = default;

Task<> Leases::run() {
  for (;;) {
    drop_lapsed();
    lease_inherited();
    if (known_ && !left_ && runs_low()) {
      co_await claim_some();
      continue;
    }
    const bool soon = !inherited_.empty() && needs_.clock.now() - inherited_at_ < kLeavesIn;
    const TimePoint next = needs_.clock.now() + (soon ? kAgain : kLook);
    co_await wanted_.wait_until(needs_.clock, next);
  }
}

std::uint64_t Leases::ahead() const {
  const double all_per_s = std::max(needs_.units_per_s(), units_per_s_);
  const double pass_s = all_per_s > 0 ? static_cast<double>(options_.units_per_pass) / all_per_s : options_.ahead_s;
  const double seconds = std::min(options_.ahead_s, pass_s / 2);
  const auto by_speed = static_cast<std::uint64_t>(std::max(0.0, units_per_s_ * seconds));
  const std::uint64_t share = options_.units_per_pass / (2 * peers().size());
  const std::uint64_t least = std::max(std::min(options_.ahead_min, share), 2 * largest_take_);
  return std::max({std::uint64_t(1), least, std::min({by_speed, options_.ahead_max, share})});
}

/// A claim costs a record at every storer, so units are fetched when half of them are gone; and none for a free-form
/// loop, which never takes any.
bool Leases::runs_low() const {
  if (largest_take_ == 0) return false;
  return ready_.count() < std::max(ahead() / 2, largest_take_) || ready_.empty();
}

/// Runs of one pass, as many as are wanted and fit a record.
Work Leases::choose(std::uint64_t wanted, Work taken) const {
  const std::vector<PeerId> known = peers();
  const LeaseView view{ledger_, taken, known, needs_.self, options_.units_per_pass};
  Work chosen;
  while (chosen.count() < wanted) {
    const Work run = choose_run(view, wanted - chosen.count());
    if (run.empty()) break;
    const auto pass = [this](const Work& work) {
      return pass_of(work.ranges().front().first, options_.units_per_pass);
    };
    if (!chosen.empty() && pass(run) != pass(chosen)) break;
    Work lease = of_pass(held_, pass(run));
    lease.add(chosen);
    lease.add(run);
    if (!directory::fits_lease(lease)) break;
    chosen.add(run);
    taken.add(run);
  }
  return chosen;
}

std::vector<PeerId> Leases::peers() const {
  std::vector<PeerId> peers = needs_.peers();
  peers.push_back(needs_.self);
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

Work Leases::of_pass(const Work& work, std::uint64_t pass) const {
  return work.common(Work(WorkRange{pass * options_.units_per_pass, options_.units_per_pass}));
}

bool Leases::is_gone(const PeerId& holder, const std::vector<PeerId>& present) {
  if (std::binary_search(present.begin(), present.end(), holder)) {
    missing_since_.erase(holder);
    return false;
  }
  const TimePoint since = missing_since_.try_emplace(holder, needs_.clock.now()).first->second;
  return needs_.clock.now() - since >= options_.gone;
}

/// In the passes that are worked on.
Leases::Others Leases::of_others() {
  const std::uint64_t pass = pass_of(ledger_.first_free(), options_.units_per_pass);
  std::erase_if(watches_, [pass](const auto& entry) { return entry.first < pass; });
  Work ahead = ledger_.committed();
  ahead.add(held_);
  const std::uint64_t newest = ahead.empty() ? 0 : pass_of(ahead.ranges().back().end(), options_.units_per_pass);
  Others others;
  const std::vector<PeerId> present = peers();
  std::set<PeerId> holders;
  for (std::uint64_t watched = pass; watched <= std::max(pass, newest) + 1; ++watched) {
    if (watched == pass + kPassesWatched) break;
    auto& watch = watches_[watched];
    if (!watch) watch = needs_.directory.watch(directory::lease_key(watched));
    for (const directory::Record& record : watch->records()) {
      if (record.owner == needs_.self) continue;
      const auto lease = directory::decode_lease(record.value);
      if (!lease) continue;
      holders.insert(record.owner);
      others.all.add(*lease);
      if (!is_gone(record.owner, present)) others.present.add(*lease);
    }
  }
  std::erase_if(missing_since_, [&](const auto& entry) { return !holders.contains(entry.first); });
  return others;
}

/// With what is ours or was another's a moment ago.
Work Leases::taken(Work by_others) {
  const TimePoint now = needs_.clock.now();
  std::erase_if(avoided_, [now](const auto& entry) { return entry.first <= now; });
  Work taken = std::move(by_others);
  taken.add(held_);
  taken.add(claiming_);
  for (const auto& [until, run] : avoided_) taken.add(run);
  return taken;
}

/// Without a lease, and counted.
Work Leases::own_runs(std::uint64_t wanted, const Work& by_others, std::uint64_t end) {
  const Work unfree = taken(by_others);
  const std::vector<PeerId> known = peers();
  const LeaseView view{ledger_, unfree, known, needs_.self, options_.units_per_pass};
  Work own = choose_own_run(view, wanted, end);
  if (own.empty()) return own;
  unleased_ += own.count();
  needs_.log.info("data.unleased", {{"units", own.count()}});
  return own;
}

/// Of the passes before that of `next`, this peer's share of what is left there: those who hold it are gone.
bool Leases::fill_gaps(std::uint64_t wanted, const Work& next, const Others& others) {
  if (next.empty()) return false;
  const std::uint64_t pass = pass_of(next.ranges().front().first, options_.units_per_pass);
  const Work own = own_runs(wanted, others.present, pass * options_.units_per_pass);
  take_over(own);
  return !own.empty();
}

/// Without storers, or after they were apart, two may have the same: theirs, for it costs nothing.
void Leases::drop_disputed(const Work& others) {
  const Work disputed = ready_.common(others);
  ready_.subtract(disputed);
  held_.subtract(disputed);
}

/// Whoever stood still for long has not renewed anything: what it had leased may be another's.
void Leases::drop_lapsed() {
  const TimePoint now = needs_.clock.now();
  const bool stood_still = looked_at_ != TimePoint() && now - looked_at_ > options_.ttl_min / 3;
  looked_at_ = now;
  if (!stood_still || ready_.empty()) return;
  needs_.log.info("data.leases_lapsed", {{"units", ready_.count()}});
  held_.subtract(ready_);
  ready_ = {};
}

Task<> Leases::claim_some() {
  const TimePoint now = needs_.clock.now();
  const Others others = of_others();
  drop_disputed(others.present);
  avoid_let_go(others.all);
  const std::uint64_t wanted = ahead() - std::min(ahead(), ready_.count());
  const Work runs = choose(wanted, taken(others.all));
  if (fill_gaps(wanted, runs, others)) co_return;
  if (runs.empty()) {  // everything is out, or we hold too much already: a commit changes that
    co_await wanted_.wait_until(needs_.clock, now + kLook);
    co_return;
  }
  const std::uint64_t pass = pass_of(runs.ranges().front().first, options_.units_per_pass);
  Work lease = of_pass(held_, pass);
  lease.subtract(others.all);
  lease.add(runs);
  // others may have torn what we hold to pieces: then a storer at least knows of what is claimed
  if (!directory::fits_lease(lease)) lease = runs;
  Bytes value = directory::encode_lease(lease);
  const TimePoint deadline = now + options_.claim_timeout;
  claiming_since_ = now;
  claiming_ = runs;
  const auto claimed =
      co_await needs_.directory.claim(directory::lease_key(pass), "", std::move(value), ttl(), deadline);
  claiming_since_.reset();
  claiming_ = {};
  if (left_) co_return;
  if (claimed) {
    if (!std::exchange(leasing_, true)) needs_.log.info("data.leasing_again");
    published_[pass] = lease;
    take_over(runs);
    co_return;
  }
  if (claimed.error() == Errc::denied) {
    avoid(runs);
    co_await needs_.clock.sleep_until(needs_.clock.now() + kAgain);
    co_return;
  }
  if (std::exchange(leasing_, false)) {
    needs_.log.warn("data.no_leases", {{"why", claimed.error().message()}, {"advice", "owners follow from a hash"}});
  }
  const Work by_others = of_others().present;
  const Work own = own_runs(wanted, by_others, kNoEnd);
  take_over(own);
  if (own.empty()) co_await needs_.clock.sleep_until(needs_.clock.now() + kAgain);
}

void Leases::avoid(const Work& run) {
  avoided_.emplace_back(needs_.clock.now() + options_.avoid, run);
}

/// What another lets go may be his heir's, who leases it in a moment.
void Leases::avoid_let_go(const Work& others) {
  Work let_go = std::exchange(of_others_before_, others);
  let_go.subtract(others);
  let_go.subtract(ledger_.committed());
  if (!let_go.empty()) avoid(let_go);
}

/// While the claim was on its way a round may have been committed.
void Leases::take_over(const Work& run) {
  Work fresh = run;
  fresh.subtract(ledger_.committed());
  held_.add(fresh);
  ready_.add(fresh);
  began_ = began_ || !ready_.empty();
  ready_signal_.notify();
}

/// What is leased ahead outlasts a claim, unless storers have died or the pass is at its end.
void Leases::feed_the_starved(std::uint64_t n) {
  if (!ready_.empty() || n == 0 || left_ || !began_) return starved_since_.reset();
  const TimePoint now = needs_.clock.now();
  if (!starved_since_) starved_since_ = now;
  const bool in_vain = !leasing_ && claiming_since_;  // so was the last claim: this one is not worth a wait
  if (!in_vain && now - *starved_since_ < options_.patience) return;
  take_over(own_runs(n, of_others().present, kNoEnd));
}

Duration Leases::ttl() const {
  if (units_per_s_ <= 0) return options_.ttl_min;
  const double seconds = 3 * static_cast<double>(held_.count() + kRunUnitsMax) / units_per_s_;
  return std::clamp(from_seconds(std::min(seconds, to_seconds(options_.ttl_max))), options_.ttl_min, options_.ttl_max);
}

Work Leases::take(std::uint64_t n) {
  largest_take_ = std::max(largest_take_, std::min(n, options_.ahead_max / 4));
  drop_lapsed();
  feed_the_starved(n);
  Work taken = ready_.take(n);
  if (runs_low()) wanted_.notify();
  return taken;
}

void Leases::give_back(const Work& work) {
  ready_.add(work.common(held_));
  if (!ready_.empty()) ready_signal_.notify();
}

bool Leases::is_of_others_than(const PeerId& holder, const Work& work) const {
  Work handed_out = held_;
  handed_out.subtract(ready_);
  if (handed_out.overlaps(work)) return true;
  for (const auto& [pass, watch] : watches_) {
    for (const directory::Record& record : watch->records()) {
      if (record.owner == holder || record.owner == needs_.self) continue;
      const auto lease = directory::decode_lease(record.value);
      if (lease && lease->overlaps(work)) return true;
    }
  }
  return false;
}

void Leases::inherit(const Work& work) {
  if (left_) return;
  held_.add(work);
  ready_.subtract(work);  // two who did not know of each other had the same: his are computed
  inherited_.add(work);
  inherited_at_ = needs_.clock.now();
  wanted_.notify();
}

void Leases::lease_inherited() {
  if (inherited_.empty() || claiming_since_ || left_) return;
  inherited_ = inherited_.common(held_);
  const Work others = of_others().all;
  if (inherited_.empty() || inherited_.overlaps(others)) return;
  while (!inherited_.empty()) {
    const std::uint64_t pass = pass_of(inherited_.ranges().front().first, options_.units_per_pass);
    inherited_.subtract(of_pass(inherited_, pass));
    Work lease = of_pass(held_, pass);
    lease.subtract(others);
    if (!directory::fits_lease(lease)) continue;  // then they are nobody's; who computes them as well counts once
    needs_.directory.publish(directory::lease_key(pass), "", directory::encode_lease(lease), ttl());
    published_[pass] = lease;
  }
}

void Leases::release(const Work& work) {
  held_.subtract(work);
  ready_.subtract(work);
  avoid(work);  // somebody else, if there is anybody
  publish_passes();
}

void Leases::advance(const Ledger& ledger) {
  ledger_ = ledger;
  known_ = true;
  held_.subtract(ledger_.committed());
  ready_.subtract(ledger_.committed());
  if (!ready_.empty()) drop_disputed(of_others().present);
  publish_passes();
  wanted_.notify();
}

/// Records shrink when half of what they name is done: not at every round, for a storer counts them.
void Leases::publish_passes() {
  if (claiming_since_ && !left_) return;
  for (auto entry = published_.begin(); entry != published_.end();) {
    auto& [pass, lease] = *entry;
    const Work rest = of_pass(held_, pass);
    if (rest.empty()) {
      needs_.directory.withdraw(directory::lease_key(pass), "");
      entry = published_.erase(entry);
      continue;
    }
    if (2 * rest.count() < lease.count()) {
      needs_.directory.publish(directory::lease_key(pass), "", directory::encode_lease(rest), ttl());
      lease = rest;
    }
    ++entry;
  }
}

void Leases::leave() {
  left_ = true;
  held_ = {};
  ready_ = inherited_ = {};
  publish_passes();
}

}  // namespace collab::data
