#include "epoch/gradient_accumulator.hpp"

#include <limits>
#include <vector>

#include "support/doctest.hpp"

namespace collab::epoch {

TEST_CASE("gradient accumulator: what a failed round gives back stands beside what was added since") {
  GradientAccumulator sum(2);
  const std::vector<float> first = {1, 2};
  const std::vector<float> second = {4, 8};
  const FlatPiece piece{0, first};
  const FlatPiece later{0, second};
  REQUIRE(sum.add({&piece, 1}, {2, Work({10, 2})}));
  std::vector<float> taken(2);
  const Gathered two = sum.hand_over(taken);
  CHECK(two.samples == 2);
  CHECK(two.work == Work({10, 2}));
  REQUIRE(sum.add({&later, 1}, {1, Work({12, 1})}));
  CHECK(sum.give_back(taken, two) == 0);
  CHECK(sum.work() == Work({10, 3}));
  CHECK(sum.hand_over(taken).samples == 3);
  CHECK(taken == std::vector<float>{2, 4});
  CHECK(sum.give_back(taken, {}) == 0);
  CHECK(sum.samples() == 0);
}

TEST_CASE("gradient accumulator: what another leaves is added whole, or not at all") {
  constexpr float kHuge = 3e38F;
  GradientAccumulator sum(2);
  const std::vector<float> own = {1, 2};
  const FlatPiece piece{0, own};
  REQUIRE(sum.add({&piece, 1}, {1, Work({0, 1})}));
  const std::vector<float> left = {4, 5};
  CHECK_FALSE(sum.take_on(left, {2, Work({0, 2})}, 8));  // unit 0 is here
  CHECK_FALSE(sum.take_on(left, {2, Work({5, 2})}, 1));  // of two ranges
  const std::vector<float> huge = {1, kHuge};
  CHECK_FALSE(sum.take_on(huge, {2, Work({5, 2})}, 8));
  CHECK(sum.samples() == 1);
  CHECK(sum.take_on(left, {2, Work({5, 2})}, 2));
  CHECK(sum.samples() == 3);
  std::vector<float> mean(2);
  const Gathered behind = sum.hand_over(mean);
  CHECK(behind.work.count() == 3);
  CHECK(mean == std::vector<float>{3, 4});
}

TEST_CASE("gradient accumulator: what is handed in for a mean is no part of the next one") {
  GradientAccumulator sum(2);
  const std::vector<float> ones = {1, 1};
  const FlatPiece second{1, std::span(ones).first(1)};  // of the first nothing is known: zero
  REQUIRE(sum.add({&second, 1}, {4, Work()}));
  std::vector<float> mean = {7, 7};
  CHECK(sum.hand_over(mean).samples == 4);
  CHECK(mean == std::vector<float>{0, 1});
  mean = {7, 7};
  CHECK(sum.hand_over(mean).samples == 0);
  CHECK(mean == std::vector<float>{0, 0});
  REQUIRE(sum.add({&second, 1}, {4, Work()}));
  CHECK(sum.drop().samples == 4);
  REQUIRE(sum.add({&second, 1}, {1, Work()}));
  mean = {7, 7};
  CHECK(sum.hand_over(mean).samples == 1);
  CHECK(mean == std::vector<float>{0, 1});
}

TEST_CASE("gradient accumulator: a sum that would leave the range of float32 is refused, and what was there stays") {
  constexpr float kHuge = std::numeric_limits<float>::max();
  GradientAccumulator sum(1);
  const std::vector<float> huge = {kHuge};
  const FlatPiece piece{0, huge};
  REQUIRE(sum.add({&piece, 1}, {1, Work({10, 1})}));
  CHECK_FALSE(sum.add({&piece, 1}, {1, Work({11, 1})}));  // each is finite, their sum is not
  CHECK(sum.samples() == 1);
  std::vector<float> taken(1);
  const Gathered one = sum.hand_over(taken);
  CHECK(one.work == Work({10, 1}));
  CHECK(taken == huge);
  REQUIRE(sum.add({&piece, 1}, {1, Work({12, 1})}));
  CHECK(sum.give_back(taken, one) == 1);  // there is no room for it beside what was added since
  CHECK(sum.hand_over(taken).work == Work({12, 1}));
  CHECK(taken == huge);
}

TEST_CASE("gradient accumulator: a gradient that is not finite somewhere leaves nothing of itself anywhere") {
  constexpr std::size_t kValues = 3000;  // of the last piece: blocks, and a rest
  const std::vector<float> ones(kValues, 1);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    for (const std::size_t at : {std::size_t(0), std::size_t(255), std::size_t(256), std::size_t(2999)}) {
      CAPTURE(at);
      GradientAccumulator sum(2 * kValues);
      std::vector<float> spoilt(kValues, 0.5F);
      spoilt[at] = bad;
      const std::vector<FlatPiece> good = {{0, ones}, {kValues, ones}};
      const std::vector<FlatPiece> half_bad = {{0, ones}, {kValues, spoilt}};
      REQUIRE(sum.add(good, {2, Work()}));
      CHECK_FALSE(sum.add(half_bad, {4, Work()}));
      std::vector<float> mean(2 * kValues);
      CHECK(sum.hand_over(mean).samples == 2);
      CHECK(mean == std::vector<float>(2 * kValues, 1));
    }
  }
}

}  // namespace collab::epoch
