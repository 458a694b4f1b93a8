#include "data/order.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include "support/doctest.hpp"

namespace collab::data {

namespace {

bool is_bijective(std::uint64_t size, std::uint64_t seed, std::uint64_t pass) {
  const Permutation permutation(size, seed, pass);
  std::vector<bool> seen(size, false);
  for (std::uint64_t index = 0; index < size; ++index) {
    const std::uint64_t value = permutation(index);
    if (value >= size || seen[value]) return false;
    seen[value] = true;
  }
  return true;
}

}  // namespace

TEST_CASE("order: every pass is a permutation, whatever the size") {
  for (std::uint64_t size = 1; size <= 300; ++size) {
    CAPTURE(size);
    CHECK(is_bijective(size, 7, size));
  }
  CHECK(is_bijective(1'000'000, 1, 0));
  CHECK(is_bijective(1'000'007, 2, 3));
}

TEST_CASE("order: the largest sizes neither overflow nor wander") {
  const Permutation permutation(~std::uint64_t(0), 1, 1);
  std::set<std::uint64_t> values;
  for (std::uint64_t index = 0; index < 1000; ++index) values.insert(permutation(~std::uint64_t(0) - 1 - index));
  CHECK(values.size() == 1000);
}

TEST_CASE("order: passes and seeds give unrelated orders") {
  constexpr std::uint64_t size = 10'000;
  const Permutation first(size, 1, 0);
  const Permutation next_pass(size, 1, 1);
  const Permutation next_seed(size, 2, 0);
  int same_pass = 0;
  int same_seed = 0;
  int neighbours = 0;
  for (std::uint64_t index = 0; index + 1 < size; ++index) {
    same_pass += first(index) == next_pass(index);
    same_seed += first(index) == next_seed(index);
    neighbours += first(index) + 1 == first(index + 1);
  }
  // One is expected of each; more than 8 has a chance of one in a million.
  CHECK(same_pass <= 8);
  CHECK(same_seed <= 8);
  CHECK(neighbours <= 8);
}

TEST_CASE("order: a pass of units meets every window once, the next pass in another order, no two units share a seed") {
  constexpr std::uint64_t windows = 1009;
  std::set<std::uint64_t> seeds;
  std::vector<int> seen(windows, 0);
  int moved = 0;
  for (std::uint64_t unit = 0; unit < 3 * windows; ++unit) {
    const Sample sample = sample_of_unit(unit, windows, 42);
    REQUIRE(sample.window < windows);
    ++seen[sample.window];
    seeds.insert(sample.seed);
    moved += sample.window != sample_of_unit(unit + windows, windows, 42).window;
    if ((unit + 1) % windows != 0) continue;
    const int pass = int(unit / windows) + 1;
    CHECK(std::all_of(seen.begin(), seen.end(), [&](int times) { return times == pass; }));
  }
  CHECK(seeds.size() == 3 * windows);
  CHECK(moved > int(3 * windows) - 30);
}

TEST_CASE("order: the samples of a unit never change, or peers of two versions would train on different data") {
  const Sample first = sample_of_unit(0, 1'000'007, 42);
  CHECK(first.window == 782'265);
  CHECK(first.seed == 7'565'664'945'503'846'093U);
  const Sample later = sample_of_unit(123'456'789'012, 1'000'007, 42);
  CHECK(later.window == 213'189);
  CHECK(later.seed == 13'459'536'761'640'605'733U);
}

}  // namespace collab::data
