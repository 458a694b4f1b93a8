#include "averaging/claimed_rates.hpp"

#include "tensor/partition.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace collab::averaging {
namespace {

constexpr double kUnproven = 2;  // x the median: of eight, one believed to be 8 times as fast would own everything
constexpr double kGrowth = 2;    // x what was shown
constexpr double kReplaced = 0.5;
constexpr unsigned kCleanRounds = 2;  // by then a replaced one counts as the others: 0.5 x 2^2 = 2
constexpr std::size_t kPeersMax = 1024;

double median_of(const std::vector<MemberLoad>& loads, double MemberLoad::*rate, double unknown) {
  std::vector<double> rates;
  for (const MemberLoad& load : loads) {
    const double told = load.*rate;
    rates.push_back(std::isfinite(told) && told > 0 ? told : unknown);
  }
  const auto middle = rates.begin() + static_cast<std::ptrdiff_t>((rates.size() - 1) / 2);
  std::nth_element(rates.begin(), middle, rates.end());
  return *middle;
}

/// Bytes that a member moves in a round, by the plan; see best_shares().
struct Moved {
  double up = 0;
  double down = 0;
};

Moved moved_by(const matchmaking::Member& member, double senders, double units, const LoadOptions& options,
               double values) {
  const double share = static_cast<double>(member.units) / units;
  const double sends = member.role == matchmaking::Role::auxiliary ? 0 : 1;
  const double owes = sends * (1 - share);
  const double serves = share * (senders - sends);
  return {values * (options.part_bytes_per_value * owes + options.result_bytes_per_value * serves),
          values * (options.part_bytes_per_value * serves + options.result_bytes_per_value * owes)};
}

/// By rank: whose segment another one served in the end.
std::vector<bool> replaced(const matchmaking::Group& group, const RoundReport& report) {
  std::vector<bool> out(group.roster.size());
  std::size_t segment = 0;
  for (std::size_t rank = 0; rank < group.roster.size(); ++rank) {
    if (group.roster[rank].units == 0) continue;
    if (segment < report.segments.size()) out[rank] = report.segments[segment].owner != rank;
    ++segment;
  }
  return out;
}

}  // namespace

double claimed_rate(double measured, const net::Cap& cap, const LoadOptions& options) {
  if (cap.reached) return cap.bytes_per_s;
  if (measured > 0) return std::min(measured, cap.bytes_per_s);
  return cap.bytes_per_s < options.rate_unknown ? cap.bytes_per_s : 0;  // others would think that it does that much
}

std::vector<MemberLoad> ClaimedRates::believed(std::span<const PeerId> roster, std::vector<MemberLoad> loads,
                                               const LoadOptions& options) const {
  if (loads.empty()) return loads;
  const double up = median_of(loads, &MemberLoad::up_bytes_per_s, options.rate_unknown);
  const double down = median_of(loads, &MemberLoad::down_bytes_per_s, options.rate_unknown);
  for (std::size_t i = 0; i < loads.size(); ++i) {
    const auto known = shown_.find(roster[i]);
    const Shown shown = known == shown_.end() ? Shown() : known->second;
    const auto bound = [&shown](double moved, double median) {
      if (shown.replaced) return kReplaced * median * static_cast<double>(1U << shown.clean_rounds);
      return std::max(kUnproven * median, kGrowth * moved);
    };
    loads[i].up_bytes_per_s = std::min(loads[i].up_bytes_per_s, bound(shown.up_bytes_per_s, up));
    loads[i].down_bytes_per_s = std::min(loads[i].down_bytes_per_s, bound(shown.down_bytes_per_s, down));
    const bool unknown = loads[i].up_bytes_per_s <= 0 && loads[i].down_bytes_per_s <= 0;
    if (!shown.replaced || !unknown) continue;
    loads[i].up_bytes_per_s = bound(0, up);  // who says nothing is no better off than who was believed
    loads[i].down_bytes_per_s = bound(0, down);
  }
  return loads;
}

void ClaimedRates::see(const matchmaking::Group& group, const RoundReport& report, const LoadOptions& options) {
  if (report.outcome != RoundReport::Outcome::committed || report.exchange_s <= 0) return;
  double senders = 0;
  double units = 0;
  for (const matchmaking::Member& member : group.roster) {
    senders += member.role == matchmaking::Role::auxiliary ? 0 : 1;
    units += member.units;
  }
  if (units == 0) return;
  if (shown_.size() > kPeersMax) std::erase_if(shown_, [&](const auto& entry) { return !group.rank_of(entry.first); });
  const std::vector<bool> gone = replaced(group, report);
  const double values = units * kUnitValues;
  for (std::size_t rank = 0; rank < group.roster.size(); ++rank) {
    const matchmaking::Member& member = group.roster[rank];
    Shown& shown = shown_[member.id];
    if (gone[rank]) {
      shown = Shown();
      shown.replaced = true;
      continue;
    }
    const Moved moved = moved_by(member, senders, units, options, values);
    shown.up_bytes_per_s = moved.up / report.exchange_s;
    shown.down_bytes_per_s = moved.down / report.exchange_s;
    if (shown.replaced && ++shown.clean_rounds >= kCleanRounds) shown.replaced = false;
  }
}

}  // namespace collab::averaging
