#include "averaging/load_balance.hpp"

#include "tensor/partition.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <numeric>
#include <optional>

namespace collab::averaging {
namespace {

constexpr double kRateMin = 1;  // bytes/s; claims outside do not decide who is slowest
constexpr double kRateMax = 1e12;
constexpr int kBisections = 200;  // at most; the last bit of a double is reached in about 60

/// base + slope·w: seconds per value that one direction of a link is busy.
struct Line {
  double base = 0;
  double slope = 0;
};

/// One member's time as a function of its share w in [0, most]: the larger of two lines, so convex.
class MemberTime {
 public:
  MemberTime(Line up, Line down, bool reachable) : lines_{up, down}, most_(reachable ? 1 : 0) {
    std::array<double, 3> corners = {0, most_, 0};
    if (up.slope != down.slope) corners[2] = std::clamp((down.base - up.base) / (up.slope - down.slope), 0.0, most_);
    best_ = at(0);
    for (const double corner : corners) best_ = std::min(best_, at(corner));
    best_low_ = most_;
    for (const double corner : corners) {
      if (at(corner) > best_ * (1 + 1e-12)) continue;
      best_low_ = std::min(best_low_, corner);
      best_high_ = std::max(best_high_, corner);
    }
  }

  double at(double w) const {
    return std::max(lines_[0].base + lines_[0].slope * w, lines_[1].base + lines_[1].slope * w);
  }
  double best() const { return best_; }
  double worst() const { return std::max(at(0), at(most_)); }
  /// The shares at which it takes best(): an interval.
  double best_low() const { return best_low_; }
  double best_high() const { return best_high_; }

  /// The largest and the smallest share with which it takes no more than `time`; the best share where none does.
  double most_within(double time) const {
    double w = most_;
    for (const Line& line : lines_)
      if (line.slope > 0) w = std::min(w, (time - line.base) / line.slope);
    return time <= best_ ? best_high_ : std::max(w, best_high_);
  }
  double least_within(double time) const {
    double w = 0;
    for (const Line& line : lines_)
      if (line.slope < 0) w = std::max(w, (time - line.base) / line.slope);
    return time <= best_ ? best_low_ : std::min(w, best_low_);
  }

 private:
  std::array<Line, 2> lines_;
  double most_;
  double best_ = 0;
  double best_low_ = 0;
  double best_high_ = 0;
};

double median(std::vector<double> rates, double otherwise) {
  if (rates.empty()) return otherwise;
  std::sort(rates.begin(), rates.end());
  const std::size_t half = rates.size() / 2;
  return rates.size() % 2 == 1 ? rates[half] : (rates[half - 1] + rates[half]) / 2;
}

bool known(double rate) {
  return std::isfinite(rate) && rate > 0;
}

/// Rates of one direction, the unknown replaced by the median of the known.
std::vector<double> rates_of(std::span<const MemberLoad> members, double MemberLoad::*rate, double otherwise) {
  std::vector<double> seen;
  for (const MemberLoad& member : members)
    if (known(member.*rate)) seen.push_back(member.*rate);
  const double unknown = median(std::move(seen), otherwise);
  std::vector<double> rates;
  for (const MemberLoad& member : members)
    rates.push_back(std::clamp(known(member.*rate) ? member.*rate : unknown, kRateMin, kRateMax));
  return rates;
}

/// The smallest number in (low, high] from which on `enough` holds.
template <class Enough>
double bisect(double low, double high, Enough enough) {
  for (int i = 0; i < kBisections; ++i) {
    const double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) break;
    (enough(middle) ? high : low) = middle;
  }
  return high;
}

class Problem {
 public:
  Problem(std::span<const MemberLoad> members, const LoadOptions& options)
      : up_(rates_of(members, &MemberLoad::up_bytes_per_s, options.rate_unknown)),
        down_(rates_of(members, &MemberLoad::down_bytes_per_s, options.rate_unknown)) {
    const auto senders = static_cast<double>(
        std::count_if(members.begin(), members.end(), [](const MemberLoad& member) { return member.sends; }));
    const double p = options.part_bytes_per_value;
    const double r = options.result_bytes_per_value;
    for (std::size_t i = 0; i < members.size(); ++i) {
      const double s = members[i].sends ? 1 : 0;
      const Line up = {p * s / up_[i], (r * (senders - s) - p * s) / up_[i]};
      const Line down = {r * s / down_[i], (p * (senders - s) - r * s) / down_[i]};
      times_.emplace_back(up, down, members[i].reachable);
    }
  }

  std::vector<double> solve() const {
    double low = 0;
    double high = 0;
    double latest = 0;
    double earliest = times_.front().best();
    for (const MemberTime& member : times_) {
      low += member.best_low();
      high += member.best_high();
      latest = std::max(latest, member.worst());
      earliest = std::min(earliest, member.best());
    }
    if (high < 1) {  // somebody must take more than is best for it
      const auto most = [&](std::size_t i, double time) { return times_[i].most_within(time); };
      return shares(most, bisect(earliest, latest, [&](double time) { return sum(most, time) >= 1; }));
    }
    if (low > 1) {
      const auto least = [&](std::size_t i, double time) { return times_[i].least_within(time); };
      return shares(least, bisect(earliest, latest, [&](double time) { return sum(least, time) <= 1; }));
    }
    // All are at their best whatever the split: in proportion to the slower direction of each.
    const auto by_rate = [&](std::size_t i, double scale) {
      return std::clamp(scale * std::min(up_[i], down_[i]), times_[i].best_low(), times_[i].best_high());
    };
    return shares(by_rate, bisect(0, 1 / kRateMin, [&](double scale) { return sum(by_rate, scale) >= 1; }));
  }

  double slowest(std::span<const double> shares) const {
    double seconds = 0;
    for (std::size_t i = 0; i < times_.size(); ++i) seconds = std::max(seconds, times_[i].at(shares[i]));
    return seconds;
  }

 private:
  template <class Share>
  std::vector<double> shares(Share share, double level) const {
    std::vector<double> all;
    for (std::size_t i = 0; i < times_.size(); ++i) all.push_back(share(i, level));
    return all;
  }
  template <class Share>
  double sum(Share share, double level) const {
    double all = 0;
    for (std::size_t i = 0; i < times_.size(); ++i) all += share(i, level);
    return all;
  }

  std::vector<double> up_;
  std::vector<double> down_;
  std::vector<MemberTime> times_;
};

/// Floors, then one more for the largest remainders; remainders closer than 1e-9 are ties.
std::vector<std::uint32_t> round_to_units(std::span<const double> shares, std::uint32_t total) {
  std::vector<std::uint32_t> units;
  std::vector<std::pair<double, std::size_t>> remainders;  // negative, so that the largest comes first
  std::uint32_t given = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const double exact = shares[i] * total;
    units.push_back(std::min(static_cast<std::uint32_t>(std::floor(exact + 1e-9)), total - given));
    given += units.back();
    remainders.emplace_back(-std::round((exact - units.back()) * 1e9), i);
  }
  std::sort(remainders.begin(), remainders.end());
  for (std::size_t k = 0; given < total; ++k, ++given) ++units[remainders[k % remainders.size()].second];
  return units;
}

/// The owner to drop: the smallest under `least`, of equals the highest rank; none when it is the only owner.
std::optional<std::size_t> too_small(std::span<const std::uint32_t> units, std::uint32_t least) {
  std::optional<std::size_t> smallest;
  std::size_t owners = 0;
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (units[i] == 0) continue;
    ++owners;
    if (!smallest || units[i] <= units[*smallest]) smallest = i;
  }
  if (owners < 2 || units[*smallest] >= least) return std::nullopt;
  return smallest;
}

bool solvable(std::span<const MemberLoad> members) {
  return std::any_of(members.begin(), members.end(), [](const MemberLoad& member) { return member.reachable; }) &&
         std::any_of(members.begin(), members.end(), [](const MemberLoad& member) { return member.sends; });
}

}  // namespace

Result<Shares> best_shares(std::span<const MemberLoad> members, const LoadOptions& options) {
  if (!solvable(members)) return Errc::bad_request;
  const Problem problem(members, options);
  Shares shares{problem.solve(), 0};
  const double sum = std::accumulate(shares.of_member.begin(), shares.of_member.end(), 0.0);
  for (double& share : shares.of_member) share /= sum;
  shares.seconds_per_value = problem.slowest(shares.of_member);
  return shares;
}

Result<LoadPlan> plan_load(std::span<const MemberLoad> members, std::size_t values, const LoadOptions& options) {
  assert(values > 0);
  const auto total = static_cast<std::uint32_t>(units_in(values));
  std::vector<MemberLoad> owners(members.begin(), members.end());
  for (;;) {
    const auto shares = best_shares(owners, options);
    if (!shares) return shares.error();
    LoadPlan plan{round_to_units(shares->of_member, total), 0};
    if (const auto drop = too_small(plan.units, options.segment_units_min)) {
      owners[*drop].reachable = false;
      continue;
    }
    std::vector<double> rounded;
    for (const std::uint32_t count : plan.units) rounded.push_back(double(count) / total);
    plan.seconds = Problem(members, options).slowest(rounded) * static_cast<double>(values);
    return plan;
  }
}

}  // namespace collab::averaging
