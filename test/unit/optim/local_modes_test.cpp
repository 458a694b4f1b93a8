// Modes in which each peer takes steps of its own.

#include "epoch/local_steps.hpp"
#include "optim/local_trainer.hpp"
#include "optim/member_options.hpp"
#include "optim/optimizer.hpp"
#include "optim/stepper.hpp"
#include "toy_swarm.hpp"

#include <torch/optim/adamw.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "support/doctest.hpp"

namespace collab::optim {
namespace {

struct Plan {
  std::uint64_t peers = 4;
  std::uint64_t epochs = 10;
  std::uint64_t steps = 1;
  double noise = 0;
  OptimizerFactory optimizer = lamb(lamb_options());
  StepperOptions stepper = {};
};

void take_own_step(Toy& toy, Stepper& stepper, std::uint64_t first, std::uint64_t count, std::uint64_t epoch) {
  toy.gradients(first, count);
  stepper.collect_gradients();
  std::vector<float> gradients(stepper.gradients().begin(), stepper.gradients().end());
  stepper.clear_gradients();
  stepper.step(gradients, epoch);
}

/// The same swarm on one machine: models that move apart and are brought together, without trainer, bridge or network.
std::vector<float> in_one_place(const Plan& plan, const node::Mode& mode) {
  struct Peer {
    explicit Peer(const Plan& of) : toy(of.noise), stepper(toy.module(), of.optimizer, of.stepper) {}
    Toy toy;
    Stepper stepper;
  };
  std::vector<std::unique_ptr<Peer>> peers;
  for (std::uint64_t i = 0; i < plan.peers; ++i) peers.push_back(std::make_unique<Peer>(plan));
  epoch::LocalSteps outer(peers[0]->stepper.parameters(), mode);
  const std::size_t values = outer.agreed().size();
  const std::uint64_t share = kBatch / plan.peers;
  for (std::uint64_t epoch = 0; epoch < plan.epochs; ++epoch) {
    std::vector<double> sum(values);
    for (std::uint64_t i = 0; i < plan.peers; ++i) {
      for (std::uint64_t k = 0; k < plan.steps; ++k) {
        const std::uint64_t first = (epoch * plan.steps + k) * kBatch + i * share;
        take_own_step(peers[i]->toy, peers[i]->stepper, first, share, epoch);
      }
      const auto now = peers[i]->stepper.parameters();
      for (std::size_t v = 0; v < values; ++v)
        sum[v] += (double(outer.agreed()[v]) - double(now[v])) / static_cast<double>(plan.peers);
    }
    REQUIRE(outer.step(std::vector<float>(sum.begin(), sum.end())));
    for (auto& peer : peers) REQUIRE(peer->stepper.load_parameters(outer.agreed()));
  }
  return {outer.agreed().begin(), outer.agreed().end()};
}

std::vector<float> on_one_machine(const Plan& plan) {
  Toy toy(plan.noise);
  Stepper stepper(toy.module(), plan.optimizer, plan.stepper);
  for (std::uint64_t step = 0; step < plan.epochs * plan.steps; ++step)
    take_own_step(toy, stepper, step * kBatch, kBatch, step / plan.steps);
  return {stepper.parameters().begin(), stepper.parameters().end()};
}

double held_out_loss(const std::vector<float>& parameters, double noise) {
  Toy toy(noise);
  Stepper stepper(toy.module(), lamb(lamb_options()), {});
  REQUIRE(stepper.load_parameters(parameters));
  return toy.gradients(std::uint64_t(1) << 32U, 4000);
}

}  // namespace

TEST_CASE("modes: four peers with steps of their own do what four models do that are averaged in one place") {
  torch::set_num_threads(1);
  for (const node::Mode& mode : {node::Mode::local(), node::Mode::diloco(5)}) {
    CAPTURE(node::to_string(mode));
    Plan plan;
    plan.epochs = 6;
    plan.steps = 5;
    const std::vector<float> reference = in_one_place(plan, mode);
    ToySwarm swarm;
    swarm.mode = node::to_string(mode);
    swarm.peers = plan.peers;
    swarm.epochs = plan.epochs;
    swarm.steps = plan.steps;
    const auto traces = together(swarm);
    for (const Trace& trace : traces) {
      REQUIRE(trace.hashes.size() == plan.epochs);
      CHECK(bool(trace.hashes == traces[0].hashes));
      CHECK(bool(trace.model == trace.parameters));
      CHECK(bool(trace.model == traces[0].model));
    }
    REQUIRE(reference.size() == traces[0].parameters.size());
    for (std::size_t i = 0; i < reference.size(); ++i)
      CHECK(std::abs(double(reference[i]) - double(traces[0].parameters[i])) <= 1e-4);
  }
}

TEST_CASE("modes: DiLoCo with 50 inner steps ends within 2 % of the synchronous loss, for a fiftieth of the traffic") {
  torch::set_num_threads(1);
  constexpr double kRate = 0.005;
  constexpr double kNoise = 1;  // no held-out loss is below 1/3, as no text can be guessed altogether
  Plan plan;
  plan.peers = 2;
  plan.epochs = 80;
  plan.steps = 50;
  plan.noise = kNoise;
  plan.optimizer = use<torch::optim::AdamW>(torch::optim::AdamWOptions(kRate).weight_decay(0));
  plan.stepper.schedule = [epochs = plan.epochs](std::uint64_t epoch) {
    return kRate * (1 - static_cast<double>(epoch) / static_cast<double>(epochs));
  };
  const double synchronous = held_out_loss(on_one_machine(plan), kNoise);

  ToySwarm swarm;
  swarm.mode = "diloco,inner_steps=50";
  swarm.codec = "float16";
  swarm.noise = kNoise;
  swarm.peers = plan.peers;
  swarm.epochs = plan.epochs;
  swarm.steps = plan.steps;
  swarm.optimizer = plan.optimizer;
  swarm.options = [&](std::uint64_t) {
    OptimizerOptions options;
    options.stepper = plan.stepper;
    return options;
  };
  const auto traces = together(swarm);
  for (const Trace& trace : traces) CHECK(bool(trace.hashes == traces[0].hashes));
  const double local = held_out_loss(traces[0].parameters, kNoise);
  CAPTURE(synchronous);
  CAPTURE(local);
  CHECK(std::abs(local / synchronous - 1) <= 0.02);

  ToySwarm every_step = swarm;  // what its rounds cost is the same in each
  every_step.mode = "synchronous";
  every_step.steps = 1;
  every_step.epochs = 20;
  const auto bytes_of_round = [](const std::vector<Trace>& of) {  // of all peers: their ranks send different sizes
    double bytes = 0;
    for (const Trace& trace : of) {
      REQUIRE(trace.rounds > 0);
      bytes += static_cast<double>(trace.bytes) / static_cast<double>(trace.rounds);
    }
    return bytes;
  };
  const double bytes_of_step = bytes_of_round(together(every_step));
  const double bytes_of_inner_step = bytes_of_round(traces) / static_cast<double>(plan.steps);
  CHECK(bytes_of_step > 0);
  CHECK(bytes_of_inner_step <= bytes_of_step / 45);
}

TEST_CASE("modes: with a round in the background moves of its own stay in the model, and all end equal") {
  torch::set_num_threads(1);
  ToySwarm swarm;
  swarm.mode = "local";
  swarm.epochs = 20;
  swarm.steps = 4;
  swarm.options = [](std::uint64_t number) {
    OptimizerOptions options;
    options.delay = number == 0 ? epoch::Delay::gradients : epoch::Delay::step;
    return options;
  };
  const auto traces = together(swarm);
  for (const Trace& trace : traces) {
    CHECK(bool(trace.hashes == traces[0].hashes));
    CHECK(bool(trace.parameters == traces[0].parameters));
  }
  CHECK(traces[0].losses.back() < 0.7 * traces[0].losses.front());
}

TEST_CASE("modes: a peer that insists on another mode than the run's is refused") {
  const test::TempFolder folder;
  ::setenv("XDG_CONFIG_HOME", (folder.path() / "config").c_str(), 1);
  const Founder founder(folder.path() / "founder", "float32", "diloco,inner_steps=50");
  Collaboration run(run_options(folder.path() / "peer", founder.address()));
  Toy toy;
  OptimizerOptions options;
  options.epochs_max = 1;
  for (const node::Mode& mode : {node::Mode(), node::Mode::local(), node::Mode::diloco(51)}) {
    options.mode = mode;
    CHECK_THROWS_WITH_AS(Optimizer(run, toy.module(), lamb(lamb_options()), options),
                         doctest::Contains("this run trains in the mode \"diloco,inner_steps=50"), Failure);
  }
  options.mode = node::Mode::diloco(50);
  CHECK_NOTHROW(Optimizer(run, toy.module(), lamb(lamb_options()), options));
}

TEST_CASE("modes: peers of two modes do not have the same schema, and never meet in a group") {
  const std::vector<node::Mode> modes = {node::Mode(), node::Mode::local(), node::Mode::local(2),
                                         node::Mode::diloco(2)};
  const Digest tensors = hash_bytes("collab schema", {});
  CHECK(schema_in_mode(tensors, node::Mode()) == tensors);
  for (std::size_t a = 0; a < modes.size(); ++a)
    for (std::size_t b = 0; b < modes.size(); ++b)
      CHECK((schema_in_mode(tensors, modes[a]) == schema_in_mode(tensors, modes[b])) == (a == b));
}

TEST_CASE("local trainer: with masters apart from the model its own steps show at once, with the same bits") {
  Toy here, there;
  StepperOptions apart;
  apart.offload = true;
  Stepper stepper(here.module(), lamb(lamb_options()), {});
  Stepper offloaded(there.module(), lamb(lamb_options()), apart);
  LocalTrainer plain(stepper, node::Mode::local());
  LocalTrainer other(offloaded, node::Mode::local());
  for (std::uint64_t unit = 0; unit < 40; unit += 8) {
    CHECK(here.gradients(unit, 8) == there.gradients(unit, 8));
    REQUIRE(plain.add_microbatch({8, Work()}, 1) == Microbatch::counted);
    REQUIRE(other.add_microbatch({8, Work()}, 1) == Microbatch::counted);
  }
  CHECK(bool(std::ranges::equal(stepper.parameters(), offloaded.parameters())));
}

TEST_CASE("local trainer: a failed round leaves the model where it is and keeps every sample and move") {
  Toy toy;
  Stepper stepper(toy.module(), lamb(lamb_options()), {});
  LocalTrainer trainer(stepper, node::Mode::local());
  const std::vector<float> start(stepper.parameters().begin(), stepper.parameters().end());
  std::vector<float> values(trainer.values());
  const auto compute = [&](std::uint64_t unit) {
    toy.gradients(unit, 8);
    REQUIRE(trainer.add_microbatch({8, Work({unit, 8})}, 1) == Microbatch::counted);
  };
  compute(0);
  const Gathered behind = trainer.hand_over(values);
  CHECK(trainer.samples() == 0);
  compute(8);
  const std::vector<float> model(stepper.parameters().begin(), stepper.parameters().end());
  CHECK(trainer.give_back(values, behind) == 0);
  CHECK(bool(std::vector<float>(stepper.parameters().begin(), stepper.parameters().end()) == model));
  CHECK(trainer.samples() == 16);
  const Gathered all = trainer.hand_over(values);
  CHECK(all.work == Work({0, 16}));
  for (std::size_t i = 0; i < values.size(); ++i)
    CHECK(double(values[i]) == doctest::Approx(double(start[i]) - double(model[i])).epsilon(1e-4));
}

TEST_CASE("local trainer: who has fetched the state computes silently for one epoch of DiLoCo, then counts") {
  Toy toy, joined;
  Stepper stepper(toy.module(), lamb(lamb_options()), {});
  Stepper other(joined.module(), lamb(lamb_options()), {});
  LocalTrainer donor(stepper, node::Mode::diloco(3));
  LocalTrainer joiner(other, node::Mode::diloco(3));
  std::vector<float> averaged(donor.values(), 0.01F);
  (void)donor.take_step(averaged, 0, Work());
  donor.adopt();
  REQUIRE(joiner.restore(donor.snapshot()));
  CHECK(joiner.parameter_hash() == donor.parameter_hash());
  CHECK(joiner.epoch() == 1);
  for (const Microbatch expected : {Microbatch::silent, Microbatch::silent, Microbatch::silent, Microbatch::counted}) {
    joined.gradients(0, 8);
    CHECK(joiner.add_microbatch({8, Work()}, 1) == expected);
  }
  CHECK(joiner.drop().samples == 8);

  REQUIRE(joiner.restore(donor.snapshot()));
  joined.gradients(0, 8);
  REQUIRE(joiner.add_microbatch({8, Work()}, 1) == Microbatch::silent);
  std::vector<float> values(joiner.values(), 1);
  CHECK(joiner.hand_over(values).samples == 0);
  CHECK(bool(values == std::vector<float>(values.size())));
  (void)donor.take_step(averaged, 1, Work());
  averaged.assign(averaged.size(), 0.01F);
  (void)joiner.take_step(averaged, 1, Work());  // with the momentum that it was given
  joiner.adopt();
  CHECK(joiner.parameter_hash() == donor.parameter_hash());
  CHECK(bool(std::ranges::equal(other.parameters(), stepper.parameters())) == false);  // the donor has yet to adopt
  donor.adopt();
  CHECK(bool(std::ranges::equal(other.parameters(), stepper.parameters())));
  joined.gradients(0, 8);
  CHECK(joiner.add_microbatch({8, Work()}, 1) == Microbatch::counted);
}

TEST_CASE("local trainer: what is saved between two epochs goes on as if nothing had been") {
  const auto train = [](Toy& toy, LocalTrainer& trainer, std::uint64_t from, std::uint64_t to) {
    std::vector<float> values(trainer.values());
    for (std::uint64_t epoch = from; epoch < to; ++epoch) {
      for (std::uint64_t k = 0; k < 3; ++k) {
        toy.gradients((3 * epoch + k) * 8, 8);
        REQUIRE(trainer.add_microbatch({8, Work()}, 1) == Microbatch::counted);
      }
      (void)trainer.hand_over(values);
      (void)trainer.take_step(values, epoch, Work());
      trainer.adopt();
    }
  };
  Toy whole, first, second;
  Stepper stepper(whole.module(), lamb(lamb_options()), {});
  Stepper stepper1(first.module(), lamb(lamb_options()), {});
  Stepper stepper2(second.module(), lamb(lamb_options()), {});
  LocalTrainer at_once(stepper, node::Mode::diloco(3));
  LocalTrainer before(stepper1, node::Mode::diloco(3));
  LocalTrainer after(stepper2, node::Mode::diloco(3));
  train(whole, at_once, 0, 20);
  train(first, before, 0, 10);
  REQUIRE(after.restore(before.snapshot()));
  REQUIRE(after.load_own_state(before.own_state()));
  train(second, after, 10, 20);
  CHECK(after.parameter_hash() == at_once.parameter_hash());
  CHECK_FALSE(after.load_own_state(Bytes(7)).has_value());
}

}  // namespace collab::optim
