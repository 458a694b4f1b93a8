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
  one.hand_over(0, here, moved);
  other.hand_over(0, there, moved_there);
  Values mean(3);
  for (std::size_t i = 0; i < 3; ++i) mean[i] = (3 * moved[i] + moved_there[i]) / 4;  // three samples, and one
  REQUIRE(one.step(0, mean));
  REQUIRE(other.step(0, mean));
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
  local.hand_over(0, model, moved);
  model[0] += 1;  // while the round ran
  local.give_back(0, moved);
  local.hand_over(0, model, moved);
  CHECK(moved == Values{-2, 0.5F});
  local.hand_over(0, model, moved);
  CHECK(moved == Values{0, 0});
}

TEST_CASE("local steps: what was moved during a round stays in the model, and counts in the next") {
  LocalSteps local(Values{0}, node::Mode::local());
  Values model = {4};
  Values moved(1);
  local.hand_over(0, model, moved);
  model[0] = 5;
  REQUIRE(local.step(0, Values{-2}));  // others went less far
  local.adopt(model);
  CHECK(seen(local.agreed()) == Values{2});
  CHECK(model == Values{3});
  local.hand_over(0, model, moved);
  CHECK(moved == Values{-1});
}

TEST_CASE("local steps: the outer step is SGD with Nesterov's momentum") {
  LocalSteps local(Values{1}, node::Mode::diloco());
  double parameter = 1, momentum = 0;
  for (int i = 0; i < 100; ++i) {
    const float gradient = 0.01F * static_cast<float>(i % 7) - 0.02F;
    REQUIRE(local.step(0, Values{gradient}));
    momentum = 0.9 * momentum + double(gradient);
    parameter -= 0.7 * (double(gradient) + 0.9 * momentum);
  }
  CHECK(double(local.agreed()[0]) == doctest::Approx(parameter).epsilon(1e-6));
}

TEST_CASE("local steps: an average that is not finite, or leads there, changes nothing") {
  LocalSteps local(Values{1, 3e38F}, node::Mode::diloco());
  REQUIRE(local.step(0, Values{0.5F, 0}));
  const Values before = seen(local.agreed());
  const Values momentum = seen(local.momentum());
  CHECK_FALSE(local.step(0, Values{1, std::numeric_limits<float>::infinity()}).has_value());
  CHECK_FALSE(local.step(0, Values{std::numeric_limits<float>::quiet_NaN(), 1}).has_value());
  CHECK_FALSE(local.step(0, Values{1, -3e38F}).has_value());
  CHECK(seen(local.agreed()) == before);
  CHECK(seen(local.momentum()) == momentum);
}

TEST_CASE("turns: each value has its turn once, in parts of one length") {
  for (const std::size_t values : {0, 1, 5, 12, 13}) {
    for (const std::uint64_t parts : {1, 3, 4, 20}) {
      const Fragments turns(values, parts);
      std::size_t covered = 0;
      for (std::uint64_t epoch = 0; epoch < parts; ++epoch) {
        const Range part = turns.part(epoch);
        CHECK(part.begin == covered);
        CHECK(part.size <= turns.length());
        CHECK(part == turns.part(epoch + 3 * parts));
        covered = part.end();
      }
      CHECK(covered == values);
      CHECK(turns.length() == (values + parts - 1) / parts);
    }
  }
}

namespace {

node::Mode streaming(double mix) {
  node::Mode mode = node::Mode::of_moves(4, 1, 0);
  mode.fragments = 2;
  mode.mix = mix;
  return mode;
}

}  // namespace

TEST_CASE("local steps: an epoch moves its fragment only, by all that it has fallen since its turn before") {
  LocalSteps local(Values{0, 0, 0}, streaming(1));
  REQUIRE(local.carried() == 2);
  Values model = {1, 2, 3};
  Values moved(2, 9);
  local.hand_over(0, model, moved);
  CHECK(moved == Values{-1, -2});
  REQUIRE(local.step(0, Values{-3, -4}));  // others went further
  local.adopt(model);
  CHECK(model == Values{3, 4, 3});
  CHECK(seen(local.agreed()) == Values{3, 4, 0});
  model = {3.5F, 4, 5};
  local.hand_over(1, model, moved);
  CHECK(moved == Values{-5, 0});  // of two epochs; the fragment is one value short
  REQUIRE(local.step(1, Values{-1, 0}));
  local.adopt(model);
  CHECK(model == Values{3.5F, 4, 1});
  CHECK(seen(local.agreed()) == Values{3, 4, 1});
  local.hand_over(2, model, moved);
  CHECK(moved == Values{-0.5F, 0});
}

TEST_CASE("local steps: a model that mixes goes part of the way, and what is left is handed over again") {
  LocalSteps local(Values{0, 0}, streaming(0.25));
  Values model = {4, 0};
  Values moved(1);
  local.hand_over(0, model, moved);
  model = {8, 0};  // while the round ran
  REQUIRE(local.step(0, Values{4}));
  local.adopt(model);
  CHECK(seen(local.agreed()) == Values{-4, 0});
  CHECK(model == Values{6, 0});  // 2, and what it has moved by meanwhile
  local.hand_over(2, model, moved);
  CHECK(moved == Values{-10});
}

TEST_CASE(
    "local steps: an epoch without this peer takes back its moves of that epoch, not those of fragments to come") {
  LocalSteps local(Values{0, 0}, streaming(1));
  Values model = {1, 1};
  Values moved(1);
  local.hand_over(0, model, moved);
  REQUIRE(local.step(0, Values{-2}));
  local.adopt(model);
  CHECK(seen(local.begun()) == Values{2, 1});  // the second fragment's move of epoch 0 counts in epoch 1
  local.hand_over(1, Values{3, 4}, moved);
  CHECK(seen(local.begun()) == Values{3, 4});
  local.give_back(1, moved);
  CHECK(seen(local.begun()) == Values{2, 0});  // whose moves they were is not known any more
}

}  // namespace collab::epoch
