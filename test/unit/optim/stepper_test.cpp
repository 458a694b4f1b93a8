#include "optim/stepper.hpp"

#include "base/error.hpp"
#include "optim/grad_scaler.hpp"
#include "optim/gradient_trainer.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/sgd.h>

#include <cmath>
#include <limits>
#include <vector>

#include "support/doctest.hpp"

namespace collab::optim {
namespace {

at::Tensor parameter(std::vector<std::int64_t> shape, double value) {
  return at::full(shape, value, at::kFloat).requires_grad_();
}

std::vector<NamedTensor> small_model() {
  return {{"a.weight", parameter({3, 2}, 0.5)}, {"a.bias", parameter({2}, 0.25)}};
}

std::vector<float> copy(std::span<const float> values) {
  return {values.begin(), values.end()};
}

std::vector<float> flat_state(const Stepper& stepper) {
  std::vector<float> values;
  for (const auto tensor : stepper.state()) values.insert(values.end(), tensor.begin(), tensor.end());
  return values;
}

const std::vector<float> kGradient = {0.1F, -0.2F, 0.3F, -0.4F, 0.5F, -0.6F, 0.7F, -0.8F};

StepReport step(Stepper& stepper, std::vector<float> averaged, std::uint64_t epoch) {
  return stepper.step(averaged, epoch);
}
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("model_trainer: a state that no joiner could be given is refused, with what would help") {
  TensorInfo all;
  all.shape = {(std::int64_t(1) << 30) - (std::int64_t(1) << 18)};  // with schedule and ledger just 4 GiB
  Schema state;
  state.tensors.push_back(all);
  check_size(state);
  state.tensors.front().shape.front() += 1;
  CHECK_THROWS_WITH_AS(check_size(state), doctest::Contains("4.0 GiB"), Failure);
}

TEST_CASE("grad_scaler: an overflow halves the scale, many microbatches without one double it") {
  GradScaler scaler({.initial = 8, .largest = 16, .double_after = 3});
  const auto after = [&](bool overflowed) {
    scaler.update(overflowed);
    return scaler.scale();
  };
  CHECK(after(true) == 4);
  CHECK(after(false) == 4);
  CHECK(after(false) == 4);
  CHECK(after(true) == 2);  // counted anew from here
  CHECK(after(false) == 2);
  CHECK(after(false) == 2);
  CHECK(after(false) == 4);
  for (int i = 0; i < 12; ++i) scaler.update(false);
  CHECK(scaler.scale() == 16);
  for (int i = 0; i < 12; ++i) scaler.update(true);
  CHECK(scaler.scale() == 1);
}

TEST_CASE("grad_scaler: a scale that would round is refused") {
  CHECK_THROWS_AS(GradScaler({.initial = 1000}), Failure);
  CHECK_THROWS_AS(GradScaler({.initial = 0.5}), Failure);
  CHECK_THROWS_AS(GradScaler({.initial = 64, .largest = 32}), Failure);
  CHECK_THROWS_AS(GradScaler({.double_after = 0}), Failure);
}

TEST_CASE("model_trainer: one overflow in half precision costs one microbatch, and the scale is in no gradient") {
  const auto model = small_model();
  Stepper stepper(model, lamb({}), {});
  GradientTrainer trainer(stepper);
  GradScaler scaler({.initial = 16384});
  const auto plain_model = small_model();
  Stepper plain_stepper(plain_model, lamb({}), {});
  GradientTrainer plain(plain_stepper);
  const auto backward = [](const std::vector<NamedTensor>& of, double factor, double scale) {
    ((of[0].second.to(at::kHalf) * factor).sum().to(at::kFloat) * scale).backward();
  };
  std::uint64_t dropped = 0;
  for (const double factor : {0.25, 0.5, 4.0, 0.75}) {  // 4 x 16384 is more than half precision holds
    backward(model, factor, scaler.scale());
    const bool counted = trainer.add_microbatch({4, Work()}, 1, scaler.scale()) == Microbatch::counted;
    scaler.update(!counted);
    dropped += counted ? 0 : 1;
    if (factor == 4.0) continue;
    backward(plain_model, factor, 1);
    REQUIRE(plain.add_microbatch({4, Work()}, 1) == Microbatch::counted);
  }
  CHECK(dropped == 1);
  CHECK(scaler.scale() == 8192);
  std::vector<float> scaled(8);
  std::vector<float> reference(8);
  CHECK(trainer.hand_over(scaled).samples == 12);
  CHECK(plain.hand_over(reference).samples == 12);
  CHECK(scaled == reference);
  CHECK(scaled[0] == 0.5F);
}

TEST_CASE("stepper: nothing can be counted to zero") {
  StepperOptions options;
  options.backup_every = 0;
  CHECK_THROWS_AS(Stepper(small_model(), use<torch::optim::SGD>(torch::optim::SGDOptions(0.1)), options), Failure);
  options = {};
  options.bad_steps_max = 0;
  CHECK_THROWS_AS(Stepper(small_model(), use<torch::optim::SGD>(torch::optim::SGDOptions(0.1)), options), Failure);
}

TEST_CASE("flatten: parameters are views, and gradients are read where backward put them") {
  auto model = small_model();
  FlatParameters flat(model);
  CHECK(flat.schema().tensors[1].name == "a.bias");
  CHECK(flat.schema().values() == 8);
  CHECK(copy(flat.parameters()) == std::vector<float>{0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25});
  flat.parameters()[7] = 9;
  CHECK(model[1].second[1].item<float>() == 9);
  for (int pass = 1; pass <= 2; ++pass) {
    (model[0].second.sum() * 2 + model[1].second.sum()).backward();
    const auto pieces = flat.gradient_pieces();
    REQUIRE(pieces.size() == 2);
    CHECK(pieces[0].values.data() == model[0].second.grad().const_data_ptr<float>());
    CHECK(pieces[0].values[5] == 2 * pass);
    CHECK(pieces[1].offset == 6);
    CHECK(pieces[1].values[1] == pass);
  }
  flat.clear_gradients();
  CHECK_FALSE(model[0].second.grad().defined());
  model[1].second.sum().backward();
  CHECK(flat.gradient_pieces().size() == 1);
}

TEST_CASE("flatten: a gradient of another layout is copied, value by value where it belongs") {
  auto model = small_model();
  FlatParameters flat(model);
  const at::Tensor turned = at::arange(6, at::kFloat).view({2, 3});
  model[0].second.mutable_grad() = turned.t();
  REQUIRE(model[0].second.sizes() == turned.t().sizes());
  const auto pieces = flat.gradient_pieces();
  REQUIRE(pieces.size() == 1);
  CHECK(copy(pieces[0].values) == std::vector<float>{0, 3, 1, 4, 2, 5});
}

TEST_CASE("flatten: a gradient that was reset or replaced is taken over, and the view comes back") {
  auto model = small_model();
  FlatParameters flat(model);
  model[0].second.sum().backward();
  model[0].second.mutable_grad() = at::Tensor();  // what zero_grad() does
  (model[0].second.sum() * 3).backward();
  flat.collect_gradients();
  CHECK(flat.gradients()[5] == 3);
  (model[0].second.sum() * 4).backward();
  CHECK(flat.gradients()[5] == 7);
  model[0].second.mutable_grad() = at::Tensor();
  flat.collect_gradients();
  CHECK(flat.gradients()[5] == 0);
}

TEST_CASE("flatten: tensors that cannot be averaged are refused by name") {
  CHECK_THROWS_AS(FlatParameters({}), Failure);
  CHECK_THROWS_AS(FlatParameters({{"x", at::ones({2}, at::kDouble).requires_grad_()}}), Failure);
  CHECK_THROWS_AS(FlatParameters({{"x", at::ones({2})}}), Failure);
}

TEST_CASE("stepper: equal averages keep two peers equal, and the schedule decides the rate") {
  const StepperOptions options{.schedule = [](std::uint64_t epoch) { return 0.01 * static_cast<double>(epoch + 1); }};
  Stepper one(small_model(), lamb({}), options), two(small_model(), lamb({}), options);
  for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
    const auto report = step(one, kGradient, epoch);
    step(two, kGradient, epoch);
    CHECK(report.outcome == StepOutcome::stepped);
    CHECK(report.learning_rate == doctest::Approx(0.01 * static_cast<double>(epoch + 1)));
    CHECK(report.gradient_norm == doctest::Approx(std::sqrt(2.04)));
  }
  CHECK(flat_state(one) == flat_state(two));
  CHECK(one.parameters()[0] != 0.5F);
  CHECK(one.gradient_pieces().empty());
}

TEST_CASE("stepper: the averaged gradient is clipped, so its length beyond the bound does not matter") {
  const StepperOptions options{.grad_norm_max = 0.5};
  const auto sgd = use<torch::optim::SGD>(torch::optim::SGDOptions(1.0));
  Stepper one(small_model(), sgd, options), two(small_model(), sgd, options);
  auto longer = kGradient;
  for (float& value : longer) value *= 8;
  step(one, kGradient, 0);
  two.step(longer, 0);
  for (std::size_t i = 0; i < 8; ++i) CHECK(one.parameters()[i] == doctest::Approx(two.parameters()[i]));
}

TEST_CASE("stepper: a joiner that loads the state goes on with equal bits, whatever the optimizer") {
  const std::pair<const char*, OptimizerFactory> factories[] = {
      {"lamb", lamb({.learning_rate = 0.01})},
      {"adamw", use<torch::optim::AdamW>(torch::optim::AdamWOptions(0.01).amsgrad(true))},
      {"sgd", use<torch::optim::SGD>(torch::optim::SGDOptions(0.01).momentum(0.9))}};
  for (const auto& [name, factory] : factories) {
    CAPTURE(name);
    Stepper old(small_model(), factory, {});
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) step(old, kGradient, epoch);
    Stepper joiner(small_model(), factory, {});
    CHECK(joiner.state_schema() == old.state_schema());
    REQUIRE(joiner.load_state(flat_state(old), old.steps()));
    CHECK(joiner.steps() == old.steps());
    step(old, kGradient, 3);
    step(joiner, kGradient, 3);
    CHECK(flat_state(joiner) == flat_state(old));
  }
}

TEST_CASE("stepper: state of another length or with a NaN is refused and changes nothing") {
  Stepper stepper(small_model(), lamb({}), {});
  step(stepper, kGradient, 0);
  const auto before = flat_state(stepper);
  auto bad = before;
  bad[3] = kNan;
  CHECK(stepper.load_state(bad, 7).error() == Errc::bad_request);
  bad.pop_back();
  CHECK(stepper.load_state(bad, 7).error() == Errc::bad_request);
  CHECK(flat_state(stepper) == before);
  CHECK(stepper.steps() == 1);
}

TEST_CASE("stepper: a gradient that is not finite changes nothing; three in a row stop the training") {
  Stepper stepper(small_model(), lamb({}), {});
  step(stepper, kGradient, 0);
  const auto before = flat_state(stepper);
  auto bad = kGradient;
  bad[2] = kNan;
  CHECK(step(stepper, bad, 1).outcome == StepOutcome::skipped);
  CHECK(step(stepper, bad, 2).outcome == StepOutcome::skipped);
  CHECK(flat_state(stepper) == before);
  CHECK(step(stepper, kGradient, 3).outcome == StepOutcome::stepped);  // counted anew from here
  step(stepper, bad, 4);
  step(stepper, bad, 5);
  CHECK_THROWS_AS(step(stepper, bad, 6), Failure);
}

TEST_CASE("stepper: the step reads the average where it lies, and leaves none of it behind") {
  const auto model = small_model();
  Stepper stepper(model, lamb({}), {});
  auto averaged = kGradient;
  CHECK(stepper.step(averaged, 0).outcome == StepOutcome::stepped);
  for (const auto& [name, tensor] : model) CHECK_FALSE(tensor.grad().defined());
  Stepper other(small_model(), lamb({}), {});
  model[0].second.sum().backward();  // what nobody took out is no part of a step
  step(stepper, kGradient, 1);
  for (std::uint64_t epoch = 0; epoch < 2; ++epoch) step(other, kGradient, epoch);
  CHECK(flat_state(stepper) == flat_state(other));
}

TEST_CASE("stepper: parameters that overflow go back to the snapshot, moments and count of steps with them") {
  bool explode = false;
  const StepperOptions options{.schedule = [&](std::uint64_t) { return explode ? 1e38 : 0.01; }, .backup_every = 4};
  Stepper stepper(small_model(), use<torch::optim::AdamW>(torch::optim::AdamWOptions(0.01).weight_decay(10)), options);
  for (std::uint64_t epoch = 0; epoch < 4; ++epoch) step(stepper, kGradient, epoch);
  const auto snapshot = flat_state(stepper);  // what epoch 4 starts from
  step(stepper, kGradient, 4);
  explode = true;
  const auto report = step(stepper, kGradient, 5);
  CHECK(report.outcome == StepOutcome::restored);
  CHECK(flat_state(stepper) == snapshot);
  CHECK(stepper.steps() == 4);
  explode = false;
  CHECK(step(stepper, kGradient, 6).outcome == StepOutcome::stepped);
}

TEST_CASE("stepper: with offload a step shows when it is adopted, with the bits of one that shows at once") {
  const auto model = small_model();
  Stepper apart(model, lamb({}), {.offload = true});
  Stepper together(small_model(), lamb({}), {});
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    const float before = model[0].second.flatten()[0].item<float>();
    model[0].second.sum().backward();  // of a microbatch that the step must leave alone
    step(apart, kGradient, epoch);
    step(together, kGradient, epoch);
    CHECK(model[0].second.flatten()[0].item<float>() == before);
    CHECK(apart.gradient_pieces().size() == 1);
    apart.clear_gradients();
    apart.adopt();
    CHECK(flat_state(apart) == flat_state(together));
    CHECK(model[0].second.flatten()[0].item<float>() == together.parameters()[0]);
    CHECK(model[1].second.flatten()[1].item<float>() == together.parameters()[7]);
  }
}

TEST_CASE("stepper: what somebody changed while a step ran beside stays, and all else is the step's to the bit") {
  const auto model = small_model();
  Stepper stepper(model, lamb({}), {.offload = true});
  step(stepper, kGradient, 0);
  {
    const at::NoGradGuard no_grad;
    model[0].second.flatten()[2] += 0.125F;  // a view: the parameter itself
  }
  for (std::uint64_t epoch = 1; epoch <= 2; ++epoch) {
    stepper.adopt();
    for (std::size_t i = 0; i < 8; ++i) {
      const auto flat = model[i < 6 ? 0 : 1].second.flatten();
      const float here = flat[static_cast<std::int64_t>(i < 6 ? i : i - 6)].item<float>();
      if (i == 2) {
        CHECK(std::abs(double(here) - double(stepper.parameters()[i]) - 0.125) <= 1e-6);
      } else {
        CHECK(here == stepper.parameters()[i]);
      }
    }
    step(stepper, kGradient, epoch);
  }
}

TEST_CASE("stepper: an optimizer whose state a joiner could not get is refused") {
  CHECK_THROWS_AS(Stepper(small_model(), use<torch::optim::LBFGS>(torch::optim::LBFGSOptions(1.0)), {}), Failure);
  CHECK_THROWS_AS(
      Stepper(small_model(), use<torch::optim::SGD>(torch::optim::SGDOptions(0.1).momentum(0.9).dampening(0.5)), {}),
      Failure);
}

TEST_CASE("grad scaler: a later process goes on with the scale that was found, and refuses what is none") {
  GradScaler before({.initial = 1024, .largest = 4096, .double_after = 3});
  before.update(true);
  before.update(false);
  before.update(false);
  GradScaler after({.initial = 1024, .largest = 4096, .double_after = 3});
  REQUIRE(after.load(before.state()));
  CHECK(after.scale() == 512);
  after.update(false);  // the third without an overflow
  CHECK(after.scale() == 1024);
  CHECK_FALSE(after.load(Bytes(15)).has_value());
  CHECK_FALSE(after.load(Bytes(16)).has_value());  // a scale of 0
  CHECK(after.scale() == 1024);
}

}  // namespace collab::optim
