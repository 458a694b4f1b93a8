#include "progress/self_report.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace collab::progress {
namespace {

constexpr double kGrowthMax = 1.5;
constexpr double kRiseSeconds = 10;             // the rate history rises by kGrowthMax in this time
constexpr double kHalfLifeSeconds = 60;         // and forgets half of a higher rate in this
constexpr double kMicrobatchSecondsMax = 4;     // of work that ends all at once
constexpr std::int64_t kElapsedMsMax = 24'000;  // two periods of the longest, with their jitter
constexpr std::int64_t kClockMs = 1000;         // less cannot be told from a record's way
constexpr std::int64_t kWaysDifferMs = 10'000;  // of two records of one peer, at most

std::int64_t elapsed_max_ms(const Record& record) {
  return std::min(2 * std::int64_t(record.period_ms), kElapsedMsMax);
}

double microbatch_of(const Record& told, double rate, const Yardstick& yardstick) {
  const auto own = static_cast<double>(yardstick.microbatch);
  // who computes in bursts and shows no rate may still bring a share like anybody's
  const double most = std::max({own, kMicrobatchSecondsMax * rate, static_cast<double>(yardstick.share)});
  if (told.microbatch == 0) return most;
  return std::min(static_cast<double>(told.microbatch), most);
}

}  // namespace

std::uint64_t SelfReport::see(const Record& told, std::uint64_t sequence, const Yardstick& yardstick,
                              std::int64_t unix_ms) {
  if (seen_ && sequence == sequence_) return 0;
  if (told.heir) return leave(told, sequence, yardstick, unix_ms);
  const std::int64_t date = date_of(told, unix_ms);
  const std::int64_t elapsed_ms = seen_ ? elapsed_of(told, date, unix_ms) : elapsed_max_ms(told);
  const double seconds = static_cast<double>(elapsed_ms) / 1000;
  const auto share = static_cast<double>(yardstick.share);
  if (!measured_ && yardstick.samples_per_s <= 0) {
    take(told, sequence, date, std::min(static_cast<double>(told.samples), share), unix_ms);
    rate_ = believed_.samples_per_s = std::min(told.samples_per_s, share);  // of a second
    slack_ = microbatch_of(told, 0, yardstick);
    return 0;
  }
  if (!measured_) rate_ = 0;
  const double rate = rate_after(told.samples_per_s, seconds, yardstick);
  slack_ = microbatch_of(told, rate, yardstick);
  const bool same_epoch = measured_ && told.epoch == believed_.epoch;
  if (same_epoch && told.samples < believed_.samples) {
    goes_on_ = true;
    handed_over_ = static_cast<double>(believed_.samples);
  }
  const bool goes_on = same_epoch || (goes_on_ && told.epoch == believed_.epoch + 1);
  const double before = goes_on ? static_cast<double>(believed_.samples) : 0;
  if (!same_epoch) {
    goes_on_ = false;
    handed_over_ = 0;
  }
  credit_ = same_epoch ? std::min(credit_, slack_) : slack_;
  credit_ += kGrowthMax * std::max(rate_, rate) * seconds;
  if (!measured_ && (seen_ || yardstick.first_look)) credit_ += share;
  // all of it comes back at once, or none
  const bool back = static_cast<double>(told.samples) > before + rate * seconds + handed_over_ / 2;
  if (back) credit_ += std::exchange(handed_over_, 0);

  double samples = std::min(static_cast<double>(told.samples), std::floor(before + credit_));
  credit_ = std::max(0.0, credit_ - std::max(0.0, samples - before));
  samples += static_cast<double>(use_inherited(told, samples));
  if (const auto handed_over = static_cast<double>(told.handed_over); handed_over > handed_over_) {
    goes_on_ = true;  // since before we looked, or with more than its last record showed
    const double more = std::min(handed_over - handed_over_, credit_);
    handed_over_ += more;
    credit_ -= more;
  }
  rate_ = rate;
  measured_ = true;
  take(told, sequence, date, samples, unix_ms);
  believed_.samples_per_s = std::min(told.samples_per_s, rate_);
  return told.samples - believed_.samples;
}

/// As if it told for a last time what it has; then it has nothing, and nothing of that comes back.
std::uint64_t SelfReport::leave(const Record& told, std::uint64_t sequence, const Yardstick& yardstick,
                                std::int64_t unix_ms) {
  Record had = told;
  had.heir.reset();
  had.samples = std::exchange(had.left, 0);
  const bool again = left_ && left_->epoch == told.epoch;
  if (again) had.samples = 0;
  const std::uint64_t excess = see(had, sequence, yardstick, unix_ms);
  if (!again) left_ = Left{told.epoch, believed_.samples};
  believed_.samples = 0;
  goes_on_ = false;
  handed_over_ = credit_ = 0;
  return excess;
}

void SelfReport::inherit(std::uint64_t epoch, std::uint64_t samples) {
  if (epoch != inherited_.epoch) inherited_ = {epoch, 0};
  inherited_.samples += samples;
}

/// Only by what nothing else explains.
std::uint64_t SelfReport::use_inherited(const Record& told, double believed) {
  if (told.epoch > inherited_.epoch) inherited_ = {};
  if (told.epoch != inherited_.epoch) return 0;
  const std::uint64_t used = std::min(inherited_.samples, told.samples - static_cast<std::uint64_t>(believed));
  inherited_.samples -= used;
  return used;
}

void SelfReport::take(const Record& told, std::uint64_t sequence, std::int64_t date, double samples,
                      std::int64_t unix_ms) {
  seen_ = true;
  told_ms_ = told.unix_ms;
  came_ms_ = unix_ms;
  sequence_ = sequence;
  believed_ = told;
  believed_.samples = static_cast<std::uint64_t>(samples);
  believed_.unix_ms = date;
}

/// Between two dates of one clock, however wrong it is: what we take for its error changes with every record that was
/// long on its way, and is asked only when the clock was set. All such times together are ours and ten seconds at most.
std::int64_t SelfReport::elapsed_of(const Record& told, std::int64_t date, std::int64_t unix_ms) {
  const std::int64_t most = elapsed_max_ms(believed_);
  const bool in_order = told.unix_ms >= told_ms_ && told.unix_ms - told_ms_ <= most;
  const std::int64_t ours = std::max<std::int64_t>(0, unix_ms - came_ms_);
  const std::int64_t theirs =
      std::clamp<std::int64_t>(in_order ? told.unix_ms - told_ms_ : date - believed_.unix_ms, 0, most);
  const std::int64_t elapsed = std::min(theirs, ours + kWaysDifferMs - lead_ms_);
  lead_ms_ = std::max<std::int64_t>(0, lead_ms_ + elapsed - ours);
  return elapsed;
}

double SelfReport::rate_after(double told, double seconds, const Yardstick& yardstick) const {
  if (told < rate_) return std::max(told, rate_ * std::exp2(-seconds / kHalfLifeSeconds));
  const double risen = rate_ * std::pow(kGrowthMax, seconds / kRiseSeconds);
  // who waits while the only other one computes has nothing to measure it by; from 0 no factor leads anywhere
  const double least =
      yardstick.samples_per_s > 0 ? yardstick.samples_per_s : static_cast<double>(yardstick.share);  // of a second
  return std::min(told, std::max(risen, least));
}

/// By our clock, and never in the future. A first record may be an old one, so its date is taken as it is.
std::int64_t SelfReport::date_of(const Record& told, std::int64_t unix_ms) {
  const std::int64_t ahead = told.unix_ms - unix_ms;
  if (seen_) {
    // the record that travelled fastest tells best; a clock that was set right is not behind for ever
    if (!ahead_known_ || ahead > ahead_ms_ || ahead < ahead_ms_ - kClockMs) ahead_ms_ = ahead;
    ahead_known_ = true;
  }
  const bool wrong_clock = ahead_known_ && (ahead_ms_ > kClockMs || ahead_ms_ < -kClockMs);
  return std::min(told.unix_ms - (wrong_clock ? ahead_ms_ : 0), unix_ms);
}

double SelfReport::samples_max(std::uint64_t epoch, std::int64_t unix_ms) const {
  if (epoch < believed_.epoch) return 0;
  const double before = epoch == believed_.epoch ? static_cast<double>(believed_.samples) + handed_over_ : 0;
  const auto elapsed_ms = static_cast<double>(std::max<std::int64_t>(0, unix_ms - believed_.unix_ms));
  const double inherited = epoch == inherited_.epoch ? static_cast<double>(inherited_.samples) : 0;
  return before + kGrowthMax * rate_ * elapsed_ms / 1000 + slack_ + inherited;
}

}  // namespace collab::progress
