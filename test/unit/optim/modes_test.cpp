#include "optim/job.hpp"
#include "optim/optimizer.hpp"
#include "optim/stepper.hpp"
#include "toy_swarm.hpp"

#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <chrono>
#include <cmath>
#include <utility>
#include <vector>

#include "support/doctest.hpp"

namespace collab::optim {
namespace {

/// Computes a toy for ten milliseconds at a time, and keeps when.
class SlowJob final : public Job {
 public:
  Loss gradients(std::span<const Unit> units) override {
    const auto begin = std::chrono::steady_clock::now();
    Loss loss;
    loss.samples = units.size();
    loss.total = toy_.gradients(units.front().index, units.size());
    while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(10)) {
    }
    computed.emplace_back(begin, std::chrono::steady_clock::now());
    return loss;
  }
  torch::nn::Module& module() override { return toy_.module(); }

  std::vector<std::pair<TimePoint, TimePoint>> computed;

 private:
  Toy toy_;
};

/// At the rate of `epoch` parameters overflow.
std::function<OptimizerOptions(std::uint64_t)> exploding(std::uint64_t epoch, std::uint64_t peers) {
  return [=](std::uint64_t number) {
    OptimizerOptions options;
    options.stepper.backup_every = 4;
    options.stepper.schedule = [=](std::uint64_t now) { return now == epoch && number < peers ? 1e38 : 0.02; };
    return options;
  };
}

ToySwarm adam_swarm(std::uint64_t exploding_peers) {
  ToySwarm swarm;
  swarm.peers = 4;
  swarm.epochs = 12;
  swarm.optimizer = use<torch::optim::AdamW>(torch::optim::AdamWOptions(0.02).weight_decay(10));
  swarm.options = exploding(6, exploding_peers);
  return swarm;
}

/// One machine whose gradients are of the parameters one step before.
Trace alone_one_behind(std::uint64_t epochs) {
  Toy toy;
  Stepper stepper(toy.module(), lamb(lamb_options()), {.offload = true});
  Trace trace;
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
    trace.losses.push_back(toy.gradients(epoch * kBatch, kBatch));
    stepper.collect_gradients();
    std::vector<float> gradients(stepper.gradients().begin(), stepper.gradients().end());
    stepper.clear_gradients();
    stepper.adopt();
    stepper.step(gradients, epoch);
  }
  trace.parameters.assign(stepper.parameters().begin(), stepper.parameters().end());
  return trace;
}

/// Held-out loss after so many epochs with a rate that falls to nothing; `behind`: gradients are one step behind.
double loss_after(std::uint64_t epochs, bool behind) {
  Toy toy;
  StepperOptions options;
  options.offload = behind;
  options.schedule = [epochs](std::uint64_t epoch) {
    return 0.02 * (1 - static_cast<double>(epoch) / static_cast<double>(epochs));
  };
  Stepper stepper(toy.module(), lamb(lamb_options()), options);
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
    toy.gradients(epoch * kBatch, kBatch);
    stepper.collect_gradients();
    std::vector<float> gradients(stepper.gradients().begin(), stepper.gradients().end());
    stepper.clear_gradients();
    stepper.adopt();
    stepper.step(gradients, epoch);
  }
  stepper.adopt();
  return toy.gradients(std::uint64_t(1) << 32U, 2000);
}

ToySwarm delayed(epoch::Delay delay, std::uint64_t epochs) {
  ToySwarm swarm;
  swarm.peers = 4;
  swarm.epochs = epochs;
  swarm.options = [delay](std::uint64_t number) {
    OptimizerOptions options;
    const bool waits = delay == epoch::Delay::step && number == 3;  // each peer's own matter
    options.delay = waits ? epoch::Delay::none : delay;
    return options;
  };
  return swarm;
}

void check_equal_peers(const std::vector<Trace>& traces, std::uint64_t epochs) {
  for (const Trace& trace : traces) {
    REQUIRE(trace.hashes.size() == epochs);
    CHECK(bool(trace.hashes == traces[0].hashes));
    CHECK(bool(trace.model == trace.parameters));  // the run is over: nothing is behind any more
  }
}

}  // namespace

TEST_CASE("modes: with delayed gradients four peers do what one machine does that is one step behind") {
  torch::set_num_threads(1);
  constexpr std::uint64_t kEpochs = 25;
  const Trace reference = alone_one_behind(kEpochs);
  CHECK(reference.losses[1] != reference.losses[2]);
  const auto traces = together(delayed(epoch::Delay::gradients, kEpochs));
  check_equal_peers(traces, kEpochs);
  for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    CAPTURE(epoch);
    double loss = 0;
    for (const Trace& trace : traces) loss += trace.losses[epoch] / 4;
    CHECK(loss == doctest::Approx(reference.losses[epoch]).epsilon(1e-3));
  }
  for (std::size_t i = 0; i < reference.parameters.size(); ++i)
    CHECK(std::abs(double(reference.parameters[i]) - double(traces[0].parameters[i])) <= 1e-4);
}

TEST_CASE("modes: 500 epochs of delayed gradients end with the loss of 500 without, within one percent") {
  torch::set_num_threads(1);
  const double loss = loss_after(500, false);
  CHECK(loss < 0.5 * loss_after(0, false));
  CHECK(loss_after(500, true) == doctest::Approx(loss).epsilon(0.01));
}

TEST_CASE("modes: steps beside the microbatches, at some peers or at all, leave all with equal parameters") {
  torch::set_num_threads(1);
  const auto traces = together(delayed(epoch::Delay::step, 40));
  check_equal_peers(traces, 40);
  CHECK(traces[0].losses.back() < 0.7 * traces[0].losses.front());
}

TEST_CASE("modes: when a step is not finite anywhere, all go on from the same parameters of some epochs before") {
  torch::set_num_threads(1);
  const auto traces = together(adam_swarm(4));
  for (const Trace& trace : traces) {
    REQUIRE(trace.hashes.size() == 12);
    for (std::uint64_t epoch = 0; epoch < 12; ++epoch) CHECK(trace.hashes[epoch] == traces[0].hashes[epoch]);
    CHECK(trace.hashes[6] == trace.hashes[3]);  // after epoch 6 as before epoch 4
    CHECK(std::isfinite(trace.losses.back()));
  }
}

TEST_CASE("modes: whose step alone is not finite takes what the others hold") {
  torch::set_num_threads(1);
  ToySwarm swarm = adam_swarm(1);
  swarm.epochs = 100;
  swarm.pause = std::chrono::milliseconds(20);  // two seconds: the others' records must tell it
  const auto traces = together(swarm);
  CHECK(traces[1].hashes[6] != traces[1].hashes[3]);  // they lose nothing
  for (std::size_t peer = 1; peer < 4; ++peer) CHECK(bool(traces[peer].hashes == traces[1].hashes));
  CHECK(traces[0].parameters == traces[1].parameters);
}

TEST_CASE("modes: statistics of a batch normalisation are averaged along, and what every peer has is the mean of all") {
  torch::set_num_threads(1);
  constexpr std::uint64_t kEpochs = 12;
  ToySwarm swarm;
  swarm.peers = 4;
  swarm.epochs = kEpochs;
  swarm.norm = true;
  // LAMB would blow up the noise in the gradient of a bias before the normalisation, which is zero
  swarm.optimizer = use<torch::optim::SGD>(torch::optim::SGDOptions(0.1));
  const auto traces = together(swarm);

  std::vector<std::unique_ptr<Toy>> reference;  // the same in one place
  std::vector<std::unique_ptr<Stepper>> steppers;
  for (std::uint64_t i = 0; i < swarm.peers; ++i) {
    reference.push_back(std::make_unique<Toy>(0, true));
    steppers.push_back(std::make_unique<Stepper>(reference[i]->module(), swarm.optimizer, StepperOptions()));
  }
  const torch::NoGradGuard no_grad;
  for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    std::vector<float> mean(steppers[0]->schema().values());
    for (std::uint64_t i = 0; i < swarm.peers; ++i) {
      const torch::AutoGradMode with_gradients(true);
      reference[i]->gradients(epoch * kBatch + i * kBatch / swarm.peers, kBatch / swarm.peers);
      steppers[i]->collect_gradients();
      for (std::size_t v = 0; v < mean.size(); ++v) mean[v] += steppers[i]->gradients()[v] / 4;
    }
    for (auto& stepper : steppers) {
      std::vector<float> averaged = mean;
      stepper->clear_gradients();
      stepper->step(averaged, epoch);
    }
    for (std::size_t b = 0; b < 2; ++b) {  // running mean and variance
      at::Tensor sum = torch::zeros({24});
      for (const auto& toy : reference) sum += toy->module().buffers()[b] / 4;
      for (const auto& toy : reference) toy->module().buffers()[b].copy_(sum);
    }
  }
  const auto expected = reference[0]->module().buffers();
  REQUIRE(expected.size() == 3);
  CHECK(expected[1].max().item<double>() > 0.2);  // something was learnt of the data
  for (const Trace& trace : traces) {
    CHECK(bool(trace.hashes == traces[0].hashes));
    REQUIRE(trace.tracked.size() == 3);
    for (std::size_t b = 0; b < 3; ++b) CHECK(trace.tracked[b].equal(traces[0].tracked[b]));
    for (std::size_t b = 0; b < 2; ++b) CHECK((trace.tracked[b] - expected[b]).abs().max().item<double>() <= 1e-4);
    CHECK(trace.tracked[2].item<std::int64_t>() == static_cast<std::int64_t>(kEpochs));
  }
}

TEST_CASE("modes: a peer computes no more of the time than it may, and tells of each epoch") {
  constexpr std::uint64_t kEpochs = 6;
  const test::TempFolder folder;
  ::setenv("XDG_CONFIG_HOME", (folder.path() / "config").c_str(), 1);
  const Founder founder(folder.path() / "founder", "float32");
  Collaboration run(run_options(folder.path() / "peer", founder.address()));
  OptimizerOptions options;
  options.epochs_max = kEpochs;
  options.cpu_percent = 20;
  SlowJob job;
  Optimizer optimizer(run, job.module(), lamb(lamb_options()), options);
  std::uint64_t told = 0;
  while (optimizer.epoch() < kEpochs) told += optimizer.run(job, kBatch / 2) == StepResult::committed ? 1 : 0;
  CHECK(told == kEpochs);
  REQUIRE(job.computed.size() >= 2 * kEpochs);
  Duration busy{};
  for (std::size_t i = 0; i + 1 < job.computed.size(); ++i) busy += job.computed[i].second - job.computed[i].first;
  CHECK(to_seconds(busy) <= 0.2 * to_seconds(job.computed.back().first - job.computed.front().first));
}

TEST_CASE("modes: who leaves while its last round runs is told of that round, too") {
  const test::TempFolder folder;
  ::setenv("XDG_CONFIG_HOME", (folder.path() / "config").c_str(), 1);
  const Founder founder(folder.path() / "founder", "float32");
  OptimizerOptions options;
  options.epochs_max = 10;
  std::promise<void> first_epoch;
  std::promise<void> giving;
  const auto stay = std::async(std::launch::async, [&, given = giving.get_future()] {
    Collaboration run(run_options(folder.path() / "stays", founder.address()));
    Toy toy;
    Optimizer optimizer(run, toy.module(), lamb(lamb_options()), options);
    while (optimizer.epoch() < 1) optimizer.step(kBatch, toy.gradients(0, kBatch));
    first_epoch.set_value();
    while (given.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
      optimizer.wait(std::chrono::milliseconds(100));
    for (StepResult result = StepResult::accumulated; result != StepResult::committed;)
      result = optimizer.step(kBatch / 2, toy.gradients(kBatch / 2, kBatch / 2));
    CHECK(optimizer.reports().size() == 1);
    CHECK(optimizer.reports().front().epoch == optimizer.last_report()->epoch);
  });
  std::promise<void> has_given = std::move(giving);  // ends before `stay`, whatever fails
  REQUIRE(first_epoch.get_future().wait_for(std::chrono::seconds(60)) == std::future_status::ready);
  RunOptions its_options = run_options(folder.path() / "leaves", founder.address());
  its_options.leave_wait = std::chrono::seconds(60);
  Collaboration run(its_options);
  Toy toy;
  Optimizer optimizer(run, toy.module(), lamb(lamb_options()), options);
  REQUIRE(optimizer.join());
  CHECK(optimizer.step(kBatch / 2, toy.gradients(0, kBatch / 2)) == StepResult::accumulated);
  CHECK(optimizer.reports().empty());
  has_given.set_value();
  CHECK(optimizer.finish() == 0);
  REQUIRE(optimizer.reports().size() == 1);
  CHECK(optimizer.reports().front().own_weight == kBatch / 2);
  CHECK(optimizer.reports().front().epoch + 1 == optimizer.epoch());
}

TEST_CASE("modes: what is tracked is in the file that an optimizer saves, and is named before the first step") {
  const test::TempFolder folder;
  ::setenv("XDG_CONFIG_HOME", (folder.path() / "config").c_str(), 1);
  const Founder founder(folder.path() / "founder", "float32");
  Collaboration run(run_options(folder.path() / "peer", founder.address()));
  OptimizerOptions options;
  options.epochs_max = 1;
  const auto file = folder.path() / "saved";
  Toy toy(0, true), later(0, true), bare(0, true);
  toy.module().buffers()[0].fill_(3);
  toy.module().buffers()[2].fill_(7);
  Optimizer optimizer(run, toy.module(), lamb(lamb_options()), options);
  for (const auto& [name, buffer] : named_buffers(toy.module())) optimizer.track(name, buffer);
  optimizer.save(file);

  Optimizer next(run, later.module(), lamb(lamb_options()), options);
  for (const auto& [name, buffer] : named_buffers(later.module())) next.track(name, buffer);
  REQUIRE(next.load(file));
  CHECK(later.module().buffers()[0].equal(torch::full({24}, 3.0F)));
  CHECK(later.module().buffers()[2].item<std::int64_t>() == 7);
  Optimizer without(run, bare.module(), lamb(lamb_options()), options);
  CHECK_FALSE(without.load(file).has_value());

  REQUIRE(next.join());
  CHECK_THROWS_WITH_AS(next.track("late", torch::zeros({1})), doctest::Contains("too late"), Failure);
}

}  // namespace collab::optim
