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

TEST_CASE("gradient accumulator: a sum that left the range of float32 is not taken back, and its samples are lost") {
  GradientAccumulator sum(1);
  const std::vector<float> huge = {std::numeric_limits<float>::max()};
  const FlatPiece piece{0, huge};
  REQUIRE(sum.add({&piece, 1}, {1, Work()}));
  REQUIRE(sum.add({&piece, 1}, {1, Work()}));  // each is finite, their sum is not
  std::vector<float> taken(1);
  CHECK(sum.hand_over(taken).samples == 2);
  CHECK(sum.give_back(taken, {2, Work()}) == 2);
  CHECK(sum.samples() == 0);
  CHECK(sum.hand_over(taken).samples == 0);
  CHECK(taken == std::vector<float>{0});
}

}  // namespace collab::epoch
