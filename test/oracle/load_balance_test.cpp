// Shares of the reference's closed form and linear programs.
#include "averaging/load_balance.hpp"

#include "base/random.hpp"
#include "support/approximately.hpp"
#include "tensor/partition.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "support/doctest.hpp"

namespace collab::averaging {
namespace {

using Members = std::vector<MemberLoad>;

constexpr LoadOptions kOneByte = {.part_bytes_per_value = 1, .result_bytes_per_value = 1};

Members operator*(int count, MemberLoad member) {
  return Members(static_cast<std::size_t>(count), member);
}
Members operator+(Members a, const Members& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Members nodes(const std::vector<double>& up, const std::vector<double>& down) {
  Members members;
  for (std::size_t i = 0; i < up.size(); ++i) members.push_back({up[i], down[i]});
  return members;
}

/// Model sizes per second; one value is the model, one byte a value.
double rate_of(const Members& members) {
  return 1 / best_shares(members, kOneByte)->seconds_per_value;
}

/// The time of member i by the definition, written anew.
double time_of(const Members& members, std::size_t i, double w, const LoadOptions& options) {
  double senders = 0;
  for (const MemberLoad& member : members) senders += member.sends ? 1 : 0;
  const double p = options.part_bytes_per_value;
  const double r = options.result_bytes_per_value;
  const double s = members[i].sends ? 1 : 0;
  return std::max((p * s * (1 - w) + r * w * (senders - s)) / members[i].up_bytes_per_s,
                  (p * w * (senders - s) + r * s * (1 - w)) / members[i].down_bytes_per_s);
}

std::vector<double> times_of(const Members& members, const std::vector<double>& shares, const LoadOptions& options) {
  std::vector<double> times;
  for (std::size_t i = 0; i < members.size(); ++i) times.push_back(time_of(members, i, shares[i], options));
  std::sort(times.begin(), times.end(), std::greater<>());
  return times;
}

struct Case {
  double part;
  double result;
  double seconds;
  Members members;
};

/// Random groups, and the time of the slowest member by linear program. The table is in MB/s.
std::vector<Case> random_cases() {
  std::vector<Case> cases = {
#include "tables/random_loads.inc"
  };
  for (Case& one : cases) {
    one.seconds /= 1e6;
    for (MemberLoad& member : one.members) {
      member.up_bytes_per_s *= 1e6;
      member.down_bytes_per_s *= 1e6;
    }
  }
  return cases;
}

}  // namespace

TEST_CASE("load_balance: plans A to D reach the rates of the linear program, and their gain over an equal split") {
  const auto check = [](const Members& members, double rate, double gain) {
    CHECK(rate_of(members) == test::approximately(rate, 1e-6));
    const auto senders = std::count_if(members.begin(), members.end(), [](const MemberLoad& one) { return one.sends; });
    std::vector<double> equal;
    for (const MemberLoad& one : members) equal.push_back(one.sends ? 1 / static_cast<double>(senders) : 0);
    CHECK(rate_of(members) * times_of(members, equal, kOneByte).front() == test::approximately(gain, 1e-4));
  };
  check(8 * MemberLoad{1000, 1000}, 571.428571, 1);
  check(1 * MemberLoad{2500, 2500} + 15 * MemberLoad{100, 100}, 100, 1.875);
  check(8 * MemberLoad{1000, 1000} + 16 * MemberLoad{100, 200}, 100, 1.9167);
  check(4 * MemberLoad{1000, 1000, false} + 16 * MemberLoad{100, 100}, 100, 1.875);
}

TEST_CASE("load_balance: shares of the reference") {
  const auto check = [](const Members& members, const std::vector<double>& expected, double seconds) {
    const auto shares = best_shares(members, kOneByte);
    REQUIRE(shares);
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(std::abs(shares->of_member[i] - expected[i]) <= 1e-6);
    CHECK(shares->seconds_per_value == test::approximately(seconds, 1e-6));
  };
  check(nodes({1, 2, 4, 8}, {1, 2, 4, 8}), {0, 0, 1.0 / 6, 5.0 / 6}, 1);
  check(nodes({10, 40, 40, 20}, {100, 40, 80, 100}), {0, 0.5, 0.5, 0}, 0.1);
  check({{1000, 1000}, {100, 100}, {100, 100}, {50, 50, true, false}}, {1, 0, 0, 0}, 0.02);
  Members only_auxiliary = 4 * MemberLoad{100, 100, true, false};
  only_auxiliary.push_back({100, 100, false, true});
  check(only_auxiliary, {0, 0, 0, 0, 1}, 0.04);
}

TEST_CASE("load_balance: two peers with equal codecs split by the slower direction of each") {
  const auto shares = best_shares(nodes({10, 90}, {60, 30}), kOneByte);
  REQUIRE(shares);
  CHECK(shares->of_member[0] == doctest::Approx(0.25));
  CHECK(shares->of_member[1] == doctest::Approx(0.75));
}

TEST_CASE("load_balance: for any roles, rates and codecs, as fast as the linear program") {
  for (const Case& one : random_cases()) {
    const LoadOptions options = {.part_bytes_per_value = one.part, .result_bytes_per_value = one.result};
    const auto shares = best_shares(one.members, options);
    REQUIRE(shares);
    CHECK(shares->seconds_per_value == test::approximately(one.seconds, 1e-7));
    CHECK(times_of(one.members, shares->of_member, options).front() == test::approximately(one.seconds, 1e-7));
    CHECK(std::accumulate(shares->of_member.begin(), shares->of_member.end(), 0.0) == doctest::Approx(1));
    for (std::size_t i = 0; i < one.members.size(); ++i) {
      CHECK(shares->of_member[i] >= 0);
      if (!one.members[i].reachable) CHECK(shares->of_member[i] == 0);
    }
  }
}

TEST_CASE("load_balance: no move of a little share between two peers makes the sorted times smaller") {
  for (const Case& one : random_cases()) {
    const LoadOptions options = {.part_bytes_per_value = one.part, .result_bytes_per_value = one.result};
    const auto shares = best_shares(one.members, options)->of_member;
    const auto best = times_of(one.members, shares, options);
    for (std::size_t from = 0; from < shares.size(); ++from) {
      for (std::size_t to = 0; to < shares.size(); ++to) {
        const double moved = std::min(shares[from], 1e-3);
        if (from == to || moved <= 0 || !one.members[to].reachable) continue;
        auto other = shares;
        other[from] -= moved;
        other[to] += moved;
        const auto times = times_of(one.members, other, options);
        const auto differs = [](double a, double b) { return std::abs(a - b) > 1e-9 * a; };
        const auto first = std::mismatch(best.begin(), best.end(), times.begin(), std::not_fn(differs));
        CHECK((first.first == best.end() || *first.first < *first.second));
      }
    }
  }
}

TEST_CASE("load_balance: an unknown rate is the median of the known, and 12.5 MB/s where none is") {
  const auto times = [](double rate) { return best_shares(nodes({10, rate, 30, 50}, {9, rate, 9, 9}), kOneByte); };
  CHECK(best_shares(nodes({10, 0, 30, 50}, {9, 0, 9, 9}), kOneByte)->of_member ==
        best_shares(nodes({10, 30, 30, 50}, {9, 9, 9, 9}), kOneByte)->of_member);
  for (const double nonsense :
       {-5.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
    CHECK(times(nonsense)->of_member == times(0)->of_member);
  const auto all_unknown = best_shares(4 * MemberLoad{}, kOneByte);
  CHECK(all_unknown->of_member[3] == doctest::Approx(0.25));
  CHECK(all_unknown->seconds_per_value == test::approximately(2 * 0.75 / 12.5e6, 1e-9));
}

TEST_CASE("load_balance: absurd claims give a plan all the same") {
  const auto plan = plan_load(nodes({1e-300, 1e300, 5e6, 1e-9}, {1e300, 1e300, 5e6, 1e-9}), 10'000'000, {});
  REQUIRE(plan);
  CHECK(std::accumulate(plan->units.begin(), plan->units.end(), 0U) == units_in(10'000'000));
  CHECK(std::isfinite(plan->seconds));
}

TEST_CASE("load_balance: refuses a group in which nobody can own or nobody sends") {
  CHECK(best_shares(3 * MemberLoad{1, 1, true, false}, {}).error() == Errc::bad_request);
  CHECK(best_shares(3 * MemberLoad{1, 1, false, true}, {}).error() == Errc::bad_request);
  CHECK(plan_load({}, 1, {}).error() == Errc::bad_request);
}

TEST_CASE("load_balance: units add up, follow the largest remainders, and small owners are dropped but for the last") {
  const auto units = [](const Members& members, std::size_t count) {
    const auto plan = plan_load(members, count * kUnitValues, kOneByte);
    REQUIRE(plan);
    return plan->units;
  };
  using Units = std::vector<std::uint32_t>;
  CHECK(units(nodes({1, 2, 4, 8}, {1, 2, 4, 8}), 100) == Units{0, 0, 17, 83});
  CHECK(units(nodes({10, 40, 40, 20}, {100, 40, 80, 100}), 100) == Units{0, 50, 50, 0});
  CHECK(units(3 * MemberLoad{5, 5}, 100) == Units{34, 33, 33});
  CHECK(units(4 * MemberLoad{5, 5}, 64) == Units{16, 16, 16, 16});
  CHECK(units(4 * MemberLoad{5, 5}, 63) == Units{21, 21, 21, 0});
  CHECK(units(4 * MemberLoad{5, 5}, 31) == Units{31, 0, 0, 0});
  CHECK(units(4 * MemberLoad{5, 5}, 1) == Units{1, 0, 0, 0});
  CHECK(units({{5, 5, true, false}, {5, 5}}, 3) == Units{0, 3});
  // The predicted time is the plan's, not that of the shares before rounding.
  CHECK(plan_load(2 * MemberLoad{4096, 4096} + 2 * MemberLoad{1, 1}, kUnitValues, kOneByte)->seconds ==
        doctest::Approx(4096));
}

TEST_CASE("load_balance: any group of 64 is planned within its bounds") {
  for (const std::uint64_t seed : test::seeds(20)) {
    CAPTURE(seed);
    Random rng(seed);
    Members members;
    for (int i = 0; i < 64; ++i) {
      members.push_back({std::exp2(static_cast<double>(rng.below(16))), std::exp2(static_cast<double>(rng.below(16))),
                         !rng.chance(0.1), !rng.chance(0.2)});
    }
    members[0] = {100, 100};
    const std::size_t values = 1 + rng.below(3'000'000);
    const auto plan = plan_load(members, values, {});
    REQUIRE(plan);
    CHECK(std::accumulate(plan->units.begin(), plan->units.end(), 0U) == units_in(values));
    std::size_t owners = 0;
    for (std::size_t i = 0; i < members.size(); ++i) {
      owners += plan->units[i] > 0 ? 1U : 0U;
      if (!members[i].reachable) CHECK(plan->units[i] == 0);
    }
    for (const std::uint32_t count : plan->units)
      if (count > 0 && owners > 1) CHECK(count >= 16);
  }
}

TEST_CASE("load_balance: a slow pair takes less of the vector, and everybody else as little more as can be") {
  const auto check = [](const Members& members, const PairLimit& pair, const std::vector<double>& expected,
                        double seconds) {
    const auto shares = best_shares(members, kOneByte, std::array{pair});
    REQUIRE(shares);
    CHECK(shares->pairs_weighed);
    CHECK(shares->seconds_per_value == test::approximately(seconds, 1e-8));
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(std::abs(shares->of_member[i] - expected[i]) <= 1e-7);
  };
  // (w0 + w1)/10 = T for the pair, (1 + w2)/100 = T for the third: T = 1/55
  check(3 * MemberLoad{100, 100}, {0, 1, 10}, {1.0 / 11, 1.0 / 11, 9.0 / 11}, 1.0 / 55);
  // a client owns nothing, so w0/10 = T and (2 - w0)/100 = T
  check({{100, 100}, {100, 100}, {100, 100, true, false}}, {0, 2, 10}, {2.0 / 11, 9.0 / 11, 0}, 1.0 / 55);
  // an auxiliary gets the client's parts and sends it results, w0 each; the nodes need (1 + w)/100
  check({{100, 100, false}, {100, 100}, {100, 100}, {100, 100, true, false}}, {3, 0, 10},
        {1.0 / 7, 3.0 / 7, 3.0 / 7, 0}, 1.0 / 70);
}

TEST_CASE("load_balance: limits that do not bind, or are not known, change nothing") {
  const Members members = nodes({10, 40, 40, 20}, {100, 40, 80, 100});
  const auto alone = best_shares(members, kOneByte)->of_member;
  for (const double rate : {10.0, 1e300, 0.0, -1.0, std::numeric_limits<double>::quiet_NaN()})
    CHECK(best_shares(members, kOneByte, std::array{PairLimit{1, 2, rate}})->of_member == alone);
  CHECK(best_shares(members, kOneByte, std::array{PairLimit{1, 2, 9.9}})->of_member != alone);
}

TEST_CASE("load_balance: refuses pairs that are none, and pairs in a swarm that is no group") {
  for (const PairLimit& pair : {PairLimit{1, 1, 5}, PairLimit{0, 3, 5}, PairLimit{SIZE_MAX, 0, 5}}) {
    CHECK(best_shares(3 * MemberLoad{5, 5}, {}, std::array{pair}).error() == Errc::bad_request);
    CHECK(plan_load(3 * MemberLoad{5, 5}, 1, {}, std::array{pair}).error() == Errc::bad_request);
  }
  const std::array pair{PairLimit{0, 1, 5}};
  CHECK(best_shares(64 * MemberLoad{50, 50}, {}, pair));
  CHECK(best_shares(65 * MemberLoad{50, 50}, {}, pair).error() == Errc::bad_request);
  CHECK(best_shares(65 * MemberLoad{50, 50}, {}));
  CHECK(predict(3 * MemberLoad{5, 5}, {}, std::array{0.5, 0.5}).error() == Errc::bad_request);
}

TEST_CASE(
    "load_balance: with limits of pairs no random shares of a group of 64 are faster, and equal calls give equal "
    "bits") {
  for (const std::uint64_t seed : test::seeds(3)) {
    CAPTURE(seed);
    Random rng(seed);
    Members members;
    std::vector<PairLimit> pairs;
    for (std::size_t i = 0; i < 64; ++i) {
      members.push_back({1e6 + static_cast<double>(rng.below(1'000'000)),
                         1e6 + static_cast<double>(rng.below(1'000'000)), !rng.chance(0.1), !rng.chance(0.2)});
      for (std::size_t j = 0; j < i; ++j)
        if (rng.chance(0.2)) pairs.push_back({i, j, 1e3 + static_cast<double>(rng.below(20'000))});
    }
    members[0] = {1e6, 1e6};
    const auto best = best_shares(members, {}, pairs);
    REQUIRE(best);
    CHECK(best->pairs_weighed);
    CHECK(best->of_member == best_shares(members, {}, pairs)->of_member);
    CHECK(best->seconds_per_value == predict(members, {}, best->of_member, pairs)->slowest);
    CHECK(best->seconds_per_value > best_shares(members, {})->seconds_per_value * 1.01);  // the limits matter
    for (int move = 0; move < 2000; ++move) {
      auto other = best->of_member;
      for (int step = 0; step < 3; ++step) {
        const auto from = rng.below(64);
        const auto to = rng.below(64);
        if (!members[to].reachable) continue;
        const double moved = other[from] * rng.uniform();
        other[from] -= moved;
        other[to] += moved;
      }
      CHECK(predict(members, {}, other, pairs)->slowest >= best->seconds_per_value * (1 - 1e-8));
    }
  }
}

TEST_CASE("load_balance: limits of pairs that are too much work give the plan without") {
  const Members members = 64 * MemberLoad{1e6, 1e6};
  std::vector<PairLimit> pairs;
  for (std::size_t i = 0; i < 64; ++i)
    for (std::size_t j = 0; j < i; ++j) pairs.push_back({i, j, static_cast<double>(1000 + 61 * i + 17 * j)});
  CHECK(plan_load(members, 64 * 100 * kUnitValues, {}, pairs)->pairs_weighed);
  const std::size_t small = 100 * kUnitValues;  // most owners are dropped, one after the other
  const auto plan = plan_load(members, small, {}, pairs);
  REQUIRE(plan);
  CHECK(!plan->pairs_weighed);
  CHECK(std::accumulate(plan->units.begin(), plan->units.end(), 0U) == 100);
}

}  // namespace collab::averaging
