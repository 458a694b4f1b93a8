#include "averaging/claimed_rates.hpp"

#include "crypto/identity.hpp"
#include "tensor/partition.hpp"

#include <algorithm>
#include <limits>

#include "support/doctest.hpp"

namespace collab::averaging {
namespace {

constexpr std::size_t kClaimedValues = 4000 * kUnitValues;
constexpr double kHome = 2.5e6;  // bytes/s

/// A group whose members have lines of these rates, and tell these; what a round does follows from the plan.
struct Lines {
  std::vector<double> told;
  std::vector<double> real;
  std::vector<PeerId> roster;
  LoadOptions options;
  ClaimedRates rates;
  std::vector<std::uint32_t> units;

  Lines(std::vector<double> says, std::vector<double> has) : told(std::move(says)), real(std::move(has)) {
    for (std::size_t i = 0; i < told.size(); ++i)
      roster.push_back(Identity::generate({static_cast<unsigned char>(i + 1), 0x11}).id());
    std::sort(roster.begin(), roster.end());
  }

  std::vector<MemberLoad> loads(const std::vector<double>& lines) const {
    std::vector<MemberLoad> out;
    for (const double rate : lines) {
      MemberLoad& load = out.emplace_back();
      load.up_bytes_per_s = load.down_bytes_per_s = rate;
    }
    return out;
  }

  double share(std::size_t rank) const { return static_cast<double>(units[rank]) * kUnitValues / kClaimedValues; }

  /// Plans, and has the plan carried out; who is more than four times as late as planned is replaced.
  double round() {
    const auto plan = plan_load(rates.believed(roster, loads(told), options), kClaimedValues, options).value();
    units = plan.units;
    std::vector<double> shares;
    for (std::size_t i = 0; i < roster.size(); ++i) shares.push_back(share(i));
    const Times times = predict(loads(real), options, shares).value();
    matchmaking::Group group;
    RoundReport report;
    report.outcome = RoundReport::Outcome::committed;
    double exchange = 0;
    for (std::size_t i = 0; i < roster.size(); ++i) {
      const bool late = times.of_member[i] * kClaimedValues > 4 * plan.seconds && units[i] > 0;
      if (!late) exchange = std::max(exchange, times.of_member[i] * kClaimedValues);
      matchmaking::Member member;
      member.id = roster[i];
      member.units = units[i];
      group.roster.push_back(member);
      if (units[i] > 0) report.segments.emplace_back().owner = static_cast<Rank>(late ? (i + 1) % roster.size() : i);
    }
    report.exchange_s = exchange;
    rates.see(group, report, options);
    return exchange;
  }
};

}  // namespace

TEST_CASE("claimed rates: nobody claims more than its owner allows, and all of that once it was used up") {
  const LoadOptions options;
  const auto cap = [](double mbit, bool reached) { return net::Cap{mbit * 1e6 / 8, reached}; };
  CHECK(claimed_rate(3e6, net::Cap(), options) == 3e6);
  CHECK(claimed_rate(0, net::Cap(), options) == 0);
  CHECK(claimed_rate(3e6, cap(8, false), options) == 1e6);
  CHECK(claimed_rate(0.2e6, cap(8, false), options) == 0.2e6);  // the line is slower than what is allowed
  CHECK(claimed_rate(0.2e6, cap(8, true), options) == 1e6);     // one of five connections that shared it
  CHECK(claimed_rate(0, cap(8, false), options) == 1e6);
  CHECK(claimed_rate(0, cap(8000, false), options) == 0);
}

TEST_CASE("claimed rates: among equal lines nothing is cut") {
  Lines lines(std::vector<double>(8, kHome), std::vector<double>(8, kHome));
  lines.round();
  for (std::size_t i = 0; i < 8; ++i) CHECK(lines.units[i] == 500);
}

TEST_CASE("claimed rates: who claims any number makes rounds twice as long at most") {
  for (const double absurd : {1e12, 1e300, std::numeric_limits<double>::infinity()}) {
    Lines lines(std::vector<double>(8, kHome), std::vector<double>(8, kHome));
    const double best = lines.round();
    lines.told[3] = absurd;
    for (int i = 0; i < 5; ++i) {
      CHECK(lines.round() <= 2.1 * best);
      CHECK(lines.share(3) <= 0.36);  // believed at once it would own everything
    }
  }
}

TEST_CASE("claimed rates: who claims much and is replaced has little to own, and is tested again later") {
  Lines lines(std::vector<double>(8, kHome), std::vector<double>(8, kHome));
  lines.told[3] = 1e12;
  lines.real[3] = kHome / 8;
  lines.round();
  CHECK(lines.share(3) > 0.3);
  lines.round();
  CHECK(lines.share(3) < 0.1);
  lines.real[3] = kHome;  // it mends
  for (int i = 0; i < 2; ++i) lines.round();
  CHECK(lines.share(3) > 0.3);
}

TEST_CASE("claimed rates: who really is a hundred times as fast has its whole share within seven rounds") {
  std::vector<double> rates(8, kHome);
  rates[5] = 100 * kHome;
  Lines lines(rates, rates);
  const double best = best_shares(lines.loads(rates), lines.options).value().of_member[5];
  for (int i = 0; i < 7; ++i) lines.round();
  CHECK(lines.share(5) == doctest::Approx(best).epsilon(0.01));
}

TEST_CASE("claimed rates: a claim among unknown ones is measured by what an unknown line counts as") {
  std::vector<double> told(4, 0.0);
  told[0] = 1e12;
  Lines lines(told, std::vector<double>(4, 12.5e6));
  const auto believed = lines.rates.believed(lines.roster, lines.loads(told), lines.options);
  CHECK(believed[0].up_bytes_per_s == 2 * lines.options.rate_unknown);
  CHECK(believed[1].up_bytes_per_s == 0);
}

TEST_CASE("claimed rates: one who was replaced and tells nothing is not taken for as fast as the others") {
  Lines lines(std::vector<double>(8, kHome), std::vector<double>(8, kHome));
  lines.real[2] = kHome / 100;
  lines.round();
  lines.told[2] = 0;
  const auto believed = lines.rates.believed(lines.roster, lines.loads(lines.told), lines.options);
  CHECK(believed[2].up_bytes_per_s == kHome / 2);
}

}  // namespace collab::averaging
