#include "averaging/linear_program.hpp"

#include <cmath>

#include "support/doctest.hpp"

namespace collab::averaging {
namespace {

/// Three shares whose multiples of these are to be as small as can be.
Program three_shares(double a, double b, double c) {
  Program program;
  program.shares = 3;
  program.rows = {{{{{0, -a}, {3, 1}, {}}}, 0}, {{{{1, -b}, {3, 1}, {}}}, 0}, {{{{2, -c}, {3, 1}, {}}}, 0}};
  return program;
}

}  // namespace

TEST_CASE("linear_program: shares that are equally dear, or as the least minimum allows") {
  std::int64_t work = 10'000;
  const auto equal = solve(three_shares(1, 0.5, 0.25), work);
  REQUIRE(equal);
  CHECK((*equal)[3] == doctest::Approx(1.0 / 7));
  CHECK((*equal)[0] == doctest::Approx(1.0 / 7));
  CHECK((*equal)[2] == doctest::Approx(4.0 / 7));
  CHECK(work < 10'000);

  Program lazy = three_shares(1, 0.5, 0.25);
  lazy.least = 0.5;
  const auto some = solve(lazy, work);
  REQUIRE(some);
  CHECK((*some)[3] == 0.5);
  CHECK((*some)[0] + (*some)[1] + (*some)[2] == doctest::Approx(1));
  CHECK((*some)[0] <= 0.5);
}

TEST_CASE("linear_program: a share that is forced is paid for, and rows that contradict have no answer") {
  std::int64_t work = 10'000;
  Program program = three_shares(1, 0.5, 0.25);
  program.rows.push_back({{{{0, 1}, {1, 1}, {}}}, 0.9});  // the dear ones take 0.9: 0.3 and 0.6
  const auto forced = solve(program, work);
  REQUIRE(forced);
  CHECK((*forced)[3] == doctest::Approx(0.3));
  CHECK((*forced)[1] == doctest::Approx(0.6));
  program.rows.push_back({{{{0, -1}, {1, -1}, {}}}, -0.8});
  CHECK(!solve(program, work));
  CHECK(work > 0);
}

TEST_CASE("linear_program: one share is all; work that does not suffice gives nothing") {
  Program program;
  program.rows = {{{{{0, -1}, {1, 0.5}, {}}}, 0}};
  std::int64_t work = 1000;
  const auto all = solve(program, work);
  REQUIRE(all);
  CHECK((*all)[0] == 1);
  CHECK((*all)[1] == 2);
  work = 10;
  CHECK(!solve(program, work));
}

}  // namespace collab::averaging
