#include "progress/standing.hpp"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

namespace collab::progress {

namespace {
constexpr std::int64_t kFutureMaxMs = 60'000;
}

bool is_fresh(const Record& record, std::int64_t unix_ms, std::int64_t slack_ms) {
  const std::int64_t age_ms = unix_ms - record.unix_ms;
  return age_ms <= 2 * std::int64_t(record.period_ms) + slack_ms && age_ms >= -kFutureMaxMs;
}

std::int64_t stays_so_until(const Record& record, std::int64_t unix_ms, std::int64_t slack_ms) {
  if (unix_ms - record.unix_ms < -kFutureMaxMs) return record.unix_ms - kFutureMaxMs - 1;
  const std::int64_t last_ms = record.unix_ms + 2 * std::int64_t(record.period_ms) + slack_ms;
  return unix_ms <= last_ms ? last_ms : std::numeric_limits<std::int64_t>::max();
}

void EpochsShown::add(std::uint64_t epoch) {
  if (++count_ == 1 || epoch > highest_) {
    second_ = std::exchange(highest_, epoch);
  } else if (count_ == 2 || epoch > second_) {
    second_ = epoch;
  }
}

std::optional<std::uint64_t> EpochsShown::global() const {
  if (count_ == 0) return std::nullopt;
  return count_ <= 2 ? highest_ : second_;
}

std::optional<std::uint64_t> global_epoch(const std::vector<Standing>& standings) {
  EpochsShown epochs;
  for (const Standing& standing : standings) epochs.add(standing.record.epoch);
  return epochs.global();
}

void Votes::add(const Digest& hash, std::uint64_t samples) {
  For& votes = votes_[hash];
  ++votes.peers;
  votes.samples += samples;
}

std::optional<Digest> Votes::most() const {
  std::optional<Digest> best;
  for (const auto& [hash, votes] : votes_) {  // ascending, so a tie stays with the lower hash
    const For& leading = best ? votes_.at(*best) : votes;
    if (!best || std::tie(votes.peers, votes.samples) > std::tie(leading.peers, leading.samples)) best = hash;
  }
  return best;
}

std::optional<Digest> majority(const std::vector<Standing>& standings, std::uint64_t epoch) {
  Votes votes;
  for (const auto& [peer, record] : standings)
    if (record.epoch == epoch) votes.add(record.parameters, record.samples);
  return votes.most();
}

std::optional<Digest> majority_ledger(const std::vector<Standing>& standings, std::uint64_t epoch) {
  const auto parameters = majority(standings, epoch);
  Votes votes;
  for (const auto& [peer, record] : standings)
    if (record.epoch == epoch && record.parameters == parameters && record.ledger != Digest{})
      votes.add(record.ledger, record.samples);
  return votes.most();
}

double gathered(const Record& record, std::uint64_t epoch, std::int64_t unix_ms) {
  if (record.epoch != epoch || !record.taking_part) return 0;
  const auto age_ms = std::clamp<std::int64_t>(unix_ms - record.unix_ms, 0, 2 * std::int64_t(record.period_ms));
  return static_cast<double>(record.samples) + record.samples_per_s * static_cast<double>(age_ms) / 1000;
}

double gathered(const std::vector<Standing>& standings, std::uint64_t epoch, std::int64_t unix_ms) {
  double sum = 0;
  for (const Standing& standing : standings) sum += gathered(standing.record, epoch, unix_ms);
  return sum;
}

void Steps::take(std::uint64_t next, std::int64_t now_ms) {
  const bool in_step = began_ms != kNever && next == epoch + 1;
  before_ms = in_step ? last_ms : kNever;
  last_ms = in_step ? now_ms : kNever;
  began_ms = now_ms;
  epoch = next;
}

bool gathers(const Record& record, const Steps& steps) {
  if (!record.taking_part || record.epoch > steps.epoch) return false;
  switch (steps.epoch - record.epoch) {
    case 0: return true;
    case 1: return record.unix_ms <= steps.last_ms;
    case 2: return record.unix_ms <= steps.before_ms;
    default: return false;
  }
}

double gathered(const Record& record, const Steps& steps, std::int64_t unix_ms) {
  if (record.epoch == steps.epoch) return gathered(record, steps.epoch, unix_ms);
  if (!gathers(record, steps)) return 0;
  const std::int64_t until_ms = std::min(unix_ms, record.unix_ms + 2 * std::int64_t(record.period_ms));
  return record.samples_per_s * static_cast<double>(std::max<std::int64_t>(0, until_ms - steps.began_ms)) / 1000;
}

double samples_per_s(const std::vector<Standing>& standings, std::uint64_t epoch) {
  double sum = 0;
  for (const auto& [peer, record] : standings) {
    if (record.taking_part && record.epoch + 1 >= epoch) sum += record.samples_per_s;
  }
  return sum;
}

}  // namespace collab::progress
