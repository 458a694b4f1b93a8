#include "epoch/local_steps.hpp"

#include "node/mode.hpp"

#include <limits>
#include <vector>

#include "support/doctest.hpp"

namespace collab::epoch {
namespace {

using Values = std::vector<float>;

Values seen(std::span<const float> values) {
  return {values.begin(), values.end()};
}

}  // namespace

TEST_CASE("local steps: with rate 1 the agreed parameters are the mean, and all models hold them to the bit") {
  const Values start = {0, 0, 0};
  const Values here = {1, 0.3F, 1e8F};  // far apart: a difference would round
  const Values there = {3, 0.1F, -3e8F + 32};
  LocalSteps one(start, node::Mode::local());
  LocalSteps other(start, node::Mode::local());
  Values moved(3), moved_there(3);
  one.hand_over(here, moved);
  other.hand_over(there, moved_there);
  Values mean(3);
  for (std::size_t i = 0; i < 3; ++i) mean[i] = (3 * moved[i] + moved_there[i]) / 4;  // three samples, and one
  REQUIRE(one.step(mean));
  REQUIRE(other.step(mean));
  Values model = here, model_there = there;
  one.adopt(model);
  other.adopt(model_there);
  CHECK(model == model_there);
  CHECK(model == seen(one.agreed()));
  CHECK(model[0] == doctest::Approx(1.5));
  CHECK(model[1] == doctest::Approx(0.25));
  CHECK(model[2] == 8);
}

TEST_CASE("local steps: a failed round loses no move, and the next one counts them all once") {
  LocalSteps local(Values{1, 1}, node::Mode::local());
  Values model = {2, 0.5F};
  Values moved(2);
  local.hand_over(model, moved);
  model[0] += 1;  // while the round ran
  local.give_back(moved);
  local.hand_over(model, moved);
  CHECK(moved == Values{-2, 0.5F});
  local.hand_over(model, moved);
  CHECK(moved == Values{0, 0});
}

TEST_CASE("local steps: what was moved during a round stays in the model, and counts in the next") {
  LocalSteps local(Values{0}, node::Mode::local());
  Values model = {4};
  Values moved(1);
  local.hand_over(model, moved);
  model[0] = 5;
  REQUIRE(local.step(Values{-2}));  // others went less far
  local.adopt(model);
  CHECK(seen(local.agreed()) == Values{2});
  CHECK(model == Values{3});
  local.hand_over(model, moved);
  CHECK(moved == Values{-1});
}

TEST_CASE("local steps: the outer step is SGD with Nesterov's momentum") {
  LocalSteps local(Values{1}, node::Mode::diloco());
  double parameter = 1, momentum = 0;
  for (int i = 0; i < 100; ++i) {
    const float gradient = 0.01F * static_cast<float>(i % 7) - 0.02F;
    REQUIRE(local.step(Values{gradient}));
    momentum = 0.9 * momentum + double(gradient);
    parameter -= 0.7 * (double(gradient) + 0.9 * momentum);
  }
  CHECK(double(local.agreed()[0]) == doctest::Approx(parameter).epsilon(1e-6));
}

TEST_CASE("local steps: an average that is not finite, or leads there, changes nothing") {
  LocalSteps local(Values{1, 3e38F}, node::Mode::diloco());
  REQUIRE(local.step(Values{0.5F, 0}));
  const Values before = seen(local.agreed());
  const Values momentum = seen(local.momentum());
  CHECK_FALSE(local.step(Values{1, std::numeric_limits<float>::infinity()}).has_value());
  CHECK_FALSE(local.step(Values{std::numeric_limits<float>::quiet_NaN(), 1}).has_value());
  CHECK_FALSE(local.step(Values{1, -3e38F}).has_value());
  CHECK(seen(local.agreed()) == before);
  CHECK(seen(local.momentum()) == momentum);
}

}  // namespace collab::epoch
