#include "averaging/load_balance.hpp"

#include "averaging/linear_program.hpp"
#include "matchmaking/group.hpp"
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
constexpr int kBisections = 200;               // at most; the last bit of a double is reached in about 60
constexpr std::int64_t kWorkMax = 20'000'000;  // multiplications for pair limits: about 20 ms
constexpr double kLossSlack = 1e-9;            // of the time, so that rounding leaves the second program a solution
constexpr double kRateShareMin = 1e-3;         // of the fastest: slower lines count as this where losses are compared

/// base + slope·w: seconds per value that one direction of a link is busy.
struct Line {
  double base = 0;
  double slope = 0;
};

/// What one member sends another, in seconds per value: of_i·w_i + of_j·w_j.
struct PairTime {
  std::size_t i = 0;
  std::size_t j = 0;
  double of_i = 0;
  double of_j = 0;
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
  bool owns() const { return most_ > 0; }
  const std::array<Line, 2>& lines() const { return lines_; }
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
  Problem(std::span<const MemberLoad> members, const LoadOptions& options, std::span<const PairLimit> pairs)
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
    for (const PairLimit& pair : pairs) {
      if (!known(pair.bytes_per_s)) continue;
      const double rate = std::clamp(pair.bytes_per_s, kRateMin, kRateMax);
      const double s_a = members[pair.a].sends ? 1 : 0;
      const double s_b = members[pair.b].sends ? 1 : 0;
      pairs_.push_back({pair.a, pair.b, r * s_b / rate, p * s_a / rate});
      if (p != r) pairs_.push_back({pair.b, pair.a, r * s_a / rate, p * s_b / rate});  // else the same both ways
    }
  }

  std::vector<double> uncoupled() const {
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

  std::vector<double> times(std::span<const double> shares) const {
    std::vector<double> all;
    for (std::size_t i = 0; i < times_.size(); ++i) all.push_back(times_[i].at(shares[i]));
    return all;
  }
  double slowest_member(std::span<const double> shares) const {
    const std::vector<double> all = times(shares);
    return *std::max_element(all.begin(), all.end());
  }
  double slowest_pair(std::span<const double> shares) const {
    double seconds = 0;
    for (const PairTime& pair : pairs_)
      seconds = std::max(seconds, pair.of_i * shares[pair.i] + pair.of_j * shares[pair.j]);
    return seconds;
  }
  double slowest(std::span<const double> shares) const {
    return std::max(slowest_member(shares), slowest_pair(shares));
  }

  /// Of the shares of least time with the pair limits those that lose least against `alone`, the shares without.
  /// Nothing when `work` does not suffice.
  std::optional<std::vector<double>> coupled(std::span<const double> alone, std::int64_t& work) const {
    std::vector<std::size_t> variable(times_.size());
    Program program;
    program.shares = 0;
    for (std::size_t i = 0; i < times_.size(); ++i)
      if (times_[i].owns()) variable[i] = program.shares++;
    const double unit = slowest_member(alone);  // no limit makes it less
    program.least = 1;
    add_rows(variable, unit, program);
    const auto fastest = solve(program, work);
    if (!fastest) return std::nullopt;
    const double level = fastest->back() * (1 + kLossSlack);
    for (ProgramRow& row : program.rows) {
      row.bound -= row.terms[2].coefficient * level;
      row.terms[2].coefficient = 0;
    }
    program.least = 0;
    add_losses(variable, alone, program);
    const auto gentlest = solve(program, work);
    std::vector<double> shares(times_.size(), 0.0);
    for (std::size_t i = 0; i < times_.size(); ++i)
      if (times_[i].owns()) shares[i] = std::max(0.0, (gentlest ? *gentlest : *fastest)[variable[i]]);
    return shares;
  }

 private:
  /// Everybody's and every pair's time is at most that of the last variable, in `unit`s.
  void add_rows(const std::vector<std::size_t>& variable, double unit, Program& program) const {
    const std::size_t time = program.shares;
    for (std::size_t i = 0; i < times_.size(); ++i) {
      if (!times_[i].owns()) continue;
      for (const Line& line : times_[i].lines()) {
        const double scale = 1 / std::max(unit, std::abs(line.slope));
        program.rows.push_back({{{{variable[i], -line.slope * scale}, {}, {time, unit * scale}}}, line.base * scale});
      }
    }
    for (const PairTime& pair : pairs_) {
      const double of_i = times_[pair.i].owns() ? pair.of_i : 0;
      const double of_j = times_[pair.j].owns() ? pair.of_j : 0;
      const double scale = 1 / std::max({unit, of_i, of_j});
      program.rows.push_back(
          {{{{variable[pair.i], -of_i * scale}, {variable[pair.j], -of_j * scale}, {time, unit * scale}}}, 0});
    }
  }
  /// No share is smaller than its own by more than the last variable times the rate of its owner. (Whoever takes more
  /// is as late as the slowest, or is tied to somebody who takes less.)
  void add_losses(const std::vector<std::size_t>& variable, std::span<const double> alone, Program& program) const {
    const std::size_t loss = program.shares;
    double fastest = 0;
    for (std::size_t i = 0; i < times_.size(); ++i) fastest = std::max(fastest, std::min(up_[i], down_[i]));
    for (std::size_t i = 0; i < times_.size(); ++i) {
      if (!times_[i].owns()) continue;
      const double rate = std::max(std::min(up_[i], down_[i]) / fastest, kRateShareMin);
      program.rows.push_back({{{{variable[i], 1}, {}, {loss, rate}}}, alone[i]});
    }
  }
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
  std::vector<PairTime> pairs_;
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

bool solvable(std::span<const MemberLoad> members, std::span<const PairLimit> pairs) {
  if (!pairs.empty() && members.size() > matchmaking::kGroupSizeMax) return false;
  for (const PairLimit& pair : pairs)
    if (pair.a == pair.b || std::max(pair.a, pair.b) >= members.size()) return false;
  return std::any_of(members.begin(), members.end(), [](const MemberLoad& member) { return member.reachable; }) &&
         std::any_of(members.begin(), members.end(), [](const MemberLoad& member) { return member.sends; });
}

void normalize(std::vector<double>& shares) {
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share /= sum;
}

Shares shares_of(const Problem& problem, std::int64_t& work) {
  Shares shares;
  shares.of_member = problem.uncoupled();
  normalize(shares.of_member);
  if (problem.slowest_pair(shares.of_member) > problem.slowest_member(shares.of_member) * (1 + 1e-12)) {
    auto coupled = problem.coupled(shares.of_member, work);
    shares.pairs_weighed = coupled.has_value();
    if (coupled) normalize(*coupled);
    // what rounding may have spoilt is no better
    if (coupled && problem.slowest(*coupled) < problem.slowest(shares.of_member))
      shares.of_member = std::move(*coupled);
  }
  shares.seconds_per_value = problem.slowest(shares.of_member);
  return shares;
}

}  // namespace

Result<Shares> best_shares(std::span<const MemberLoad> members, const LoadOptions& options,
                           std::span<const PairLimit> pairs) {
  if (!solvable(members, pairs)) return Errc::bad_request;
  std::int64_t work = kWorkMax;
  return shares_of(Problem(members, options, pairs), work);
}

Result<Times> predict(std::span<const MemberLoad> members, const LoadOptions& options, std::span<const double> shares,
                      std::span<const PairLimit> pairs) {
  if (!solvable(members, pairs) || shares.size() != members.size()) return Errc::bad_request;
  const Problem problem(members, options, pairs);
  return Times{problem.times(shares), problem.slowest(shares)};
}

Result<LoadPlan> plan_load(std::span<const MemberLoad> members, std::size_t values, const LoadOptions& options,
                           std::span<const PairLimit> pairs) {
  assert(values > 0);
  if (!solvable(members, pairs)) return Errc::bad_request;
  const auto total = static_cast<std::uint32_t>(units_in(values));
  std::vector<MemberLoad> owners(members.begin(), members.end());
  std::int64_t work = kWorkMax;
  for (;;) {
    const Shares shares = shares_of(Problem(owners, options, pairs), work);
    LoadPlan plan{round_to_units(shares.of_member, total), 0, shares.pairs_weighed};
    if (const auto drop = too_small(plan.units, options.segment_units_min)) {
      owners[*drop].reachable = false;
      continue;
    }
    std::vector<double> rounded;
    for (const std::uint32_t count : plan.units) rounded.push_back(double(count) / total);
    plan.seconds = Problem(members, options, pairs).slowest(rounded) * static_cast<double>(values);
    return plan;
  }
}

}  // namespace collab::averaging
