// Modes in which each peer takes steps of its own.

#include "epoch/local_steps.hpp"
#include "epoch/manifest_options.hpp"
#include "optim/local_trainer.hpp"
#include "optim/optimizer.hpp"
#include "optim/stepper.hpp"
#include "toy_swarm.hpp"

#include <torch/optim/adamw.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <cstring>

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
  const epoch::Fragments turns(outer.agreed().size(), mode.fragments);
  const std::uint64_t share = kBatch / plan.peers;
  for (std::uint64_t epoch = 0; epoch < plan.epochs; ++epoch) {
    const Range part = turns.part(epoch);
    std::vector<double> sum(outer.carried());
    for (std::uint64_t i = 0; i < plan.peers; ++i) {
      for (std::uint64_t k = 0; k < plan.steps; ++k) {
        const std::uint64_t first = (epoch * plan.steps + k) * kBatch + i * share;
        take_own_step(peers[i]->toy, peers[i]->stepper, first, share, epoch);
      }
      const auto now = peers[i]->stepper.parameters();
      for (std::size_t v = 0; v < part.size; ++v) {
        const double fallen = double(outer.agreed()[part.begin + v]) - double(now[part.begin + v]);
        sum[v] += fallen / static_cast<double>(plan.peers);
      }
    }
    REQUIRE(outer.step(epoch, std::vector<float>(sum.begin(), sum.end())));
    for (auto& peer : peers) {
      std::vector<float> model(peer->stepper.parameters().begin(), peer->stepper.parameters().end());
      for (std::size_t v = part.begin; v < part.end(); ++v) model[v] = outer.agreed()[v];
      REQUIRE(peer->stepper.load_parameters(model));
    }
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

/// So many steps of two peers, `steps` of them an epoch, with a rate that falls to nothing.
Plan falling_rate(std::uint64_t all_steps, std::uint64_t steps, double noise) {
  constexpr double kRate = 0.005;
  Plan plan;
  plan.peers = 2;
  plan.epochs = all_steps / steps;
  plan.steps = steps;
  plan.noise = noise;
  plan.optimizer = use<torch::optim::AdamW>(torch::optim::AdamWOptions(kRate).weight_decay(0));
  plan.stepper.schedule = [epochs = plan.epochs](std::uint64_t epoch) {
    return kRate * (1 - static_cast<double>(epoch) / static_cast<double>(epochs));
  };
  return plan;
}

ToySwarm swarm_of(const Plan& plan, const std::string& mode) {
  ToySwarm swarm;
  swarm.mode = mode;
  swarm.codec = "float16";
  swarm.noise = plan.noise;
  swarm.peers = plan.peers;
  swarm.epochs = plan.epochs;
  swarm.steps = plan.steps;
  swarm.optimizer = plan.optimizer;
  swarm.options = [stepper = plan.stepper](std::uint64_t) {
    OptimizerOptions options;
    options.stepper = stepper;
    return options;
  };
  return swarm;
}

/// Of all peers: their ranks send different sizes.
double bytes_of_round(const std::vector<Trace>& of) {
  double bytes = 0;
  for (const Trace& trace : of) {
    REQUIRE(trace.rounds > 0);
    bytes += static_cast<double>(trace.bytes) / static_cast<double>(trace.rounds);
  }
  return bytes;
}

std::vector<float> copy_of(std::span<const float> values) {
  return {values.begin(), values.end()};
}

node::Mode mode_named(const std::string& text) {
  return node::parse_mode(text).value();
}

/// What the trainer's peers agree on.
std::vector<float> floats_of(const LocalTrainer& trainer) {
  const Bytes bytes = trainer.snapshot().find("parameters")->bytes;
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// Own steps, on units of its own.
void compute(Toy& toy, LocalTrainer& trainer, std::uint64_t first, std::uint64_t steps) {
  for (std::uint64_t k = 0; k < steps; ++k) {
    toy.gradients(first + 8 * k, 8);
    REQUIRE(trainer.add_microbatch({8, Work()}, 1) != Microbatch::dropped);
  }
}

}  // namespace

TEST_CASE("modes: four peers with steps of their own do what four models do that are averaged in one place") {
  torch::set_num_threads(1);
  const node::Mode streaming = node::parse_mode("diloco,inner_steps=15,fragments=3").value();
  for (const node::Mode& mode : {node::Mode::local(), node::Mode::diloco(5), streaming}) {
    CAPTURE(node::to_string(mode));
    Plan plan;
    plan.epochs = 7;
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
      CHECK(bool(trace.agreed == traces[0].agreed));
      CHECK(bool(trace.model == trace.agreed) == !mode.keeps_apart());
    }
    REQUIRE(reference.size() == traces[0].agreed.size());
    for (std::size_t i = 0; i < reference.size(); ++i)
      CHECK(std::abs(double(reference[i]) - double(traces[0].agreed[i])) <= 1e-4);
  }
}

TEST_CASE("modes: DiLoCo with 50 inner steps ends within 2 % of the synchronous loss, for a fiftieth of the traffic") {
  torch::set_num_threads(1);
  constexpr double kNoise = 1;  // no held-out loss is below 1/3, as no text can be guessed altogether
  constexpr std::uint64_t kSteps = 80 * 50;
  const double synchronous = held_out_loss(on_one_machine(falling_rate(kSteps, 50, kNoise)), kNoise);
  const auto loss_of = [&](const std::vector<Trace>& traces) {
    for (const Trace& trace : traces) CHECK(bool(trace.hashes == traces[0].hashes));
    return held_out_loss(traces[0].agreed, kNoise);
  };
  const auto diloco = together(swarm_of(falling_rate(kSteps, 50, kNoise), "diloco,inner_steps=50"));
  const double plain = loss_of(diloco);
  CAPTURE(synchronous);
  CAPTURE(plain);
  CHECK(std::abs(plain / synchronous - 1) <= 0.02);

  ToySwarm every_step = swarm_of(falling_rate(20, 1, kNoise), "synchronous");  // a round costs the same in each
  const double bytes_of_step = bytes_of_round(together(every_step));
  const double bytes_of_inner_step = bytes_of_round(diloco) / 50;
  CHECK(bytes_of_step > 0);
  CHECK(bytes_of_inner_step <= bytes_of_step / 45);

  // in fragments: as it is in one place, where it is the same (above), and with rounds beside the computation
  const Plan streaming = falling_rate(kSteps, 10, kNoise);
  const node::Mode mode = mode_named("diloco,inner_steps=50,fragments=5");
  const double in_fragments = held_out_loss(in_one_place(streaming, mode), kNoise);
  CAPTURE(in_fragments);
  CHECK(std::abs(in_fragments / plain - 1) <= 0.02);
  CHECK(std::abs(in_fragments / synchronous - 1) <= 0.02);
  const double beside = loss_of(together(swarm_of(streaming, "diloco,inner_steps=50,fragments=5,overlap=3")));
  CAPTURE(beside);
  CHECK(std::abs(beside / plain - 1) <= 0.02);
  CHECK(std::abs(beside / synchronous - 1) <= 0.02);
}

TEST_CASE("modes: a round of DiLoCo in five fragments has a fifth of the bytes") {
  torch::set_num_threads(1);
  const auto bytes = [](const std::string& mode, std::uint64_t steps) {
    ToySwarm swarm;
    swarm.mode = mode;
    swarm.codec = "float16";
    swarm.width = 4096;  // so that what a round costs anyway, 1 kB, is little beside the values
    swarm.epochs = 10;
    swarm.steps = steps;
    return bytes_of_round(together(swarm));
  };
  const double plain = bytes("diloco,inner_steps=5", 5);
  const double streaming = bytes("diloco,inner_steps=5,fragments=5", 1);
  CHECK(plain > 2.0 * 2 * 57345);  // two peers, each sends half of the values and gets the other
  CHECK(streaming <= 1.02 * plain / 5);
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
  CHECK(epoch::schema_in_mode(tensors, node::Mode()) == tensors);
  for (std::size_t a = 0; a < modes.size(); ++a)
    for (std::size_t b = 0; b < modes.size(); ++b)
      CHECK((epoch::schema_in_mode(tensors, modes[a]) == epoch::schema_in_mode(tensors, modes[b])) == (a == b));
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
  for (const node::Mode& mode : {node::Mode::diloco(3), mode_named("diloco,inner_steps=9,fragments=3,mix=0.5")}) {
    Toy whole, first, second;
    Stepper stepper(whole.module(), lamb(lamb_options()), {});
    Stepper stepper1(first.module(), lamb(lamb_options()), {});
    Stepper stepper2(second.module(), lamb(lamb_options()), {});
    LocalTrainer at_once(stepper, mode);
    LocalTrainer before(stepper1, mode);
    LocalTrainer after(stepper2, mode);
    train(whole, at_once, 0, 20);
    train(first, before, 0, 10);
    REQUIRE(after.restore(before.snapshot()));
    REQUIRE(after.load_own_state(before.own_state()));
    train(second, after, 10, 20);
    CHECK(after.parameter_hash() == at_once.parameter_hash());
    CHECK_FALSE(after.load_own_state(Bytes(7)).has_value());
  }
}

TEST_CASE("local trainer: a joiner of a run in fragments is silent until each of them had an outer step") {
  Toy toy, joined;
  Stepper stepper(toy.module(), lamb(lamb_options()), {});
  Stepper other(joined.module(), lamb(lamb_options()), {});
  const node::Mode mode = mode_named("diloco,inner_steps=30,fragments=3");
  LocalTrainer donor(stepper, mode);
  LocalTrainer joiner(other, mode);
  const auto step_both = [&](std::uint64_t epoch) {
    for (LocalTrainer* trainer : {&donor, &joiner}) {
      std::vector<float> averaged(trainer->values(), 0.01F * static_cast<float>(epoch + 1));
      (void)trainer->take_step(averaged, epoch, Work());
      trainer->adopt();
    }
    CHECK(joiner.parameter_hash() == donor.parameter_hash());
  };
  compute(toy, donor, 0, 4);
  std::vector<float> values(donor.values(), 0.02F);
  (void)donor.take_step(values, 0, Work());
  donor.adopt();
  REQUIRE(joiner.restore(donor.snapshot()));
  for (std::uint64_t epoch = 1; epoch <= 3; ++epoch) {
    joined.gradients(0, 8);
    CHECK(joiner.add_microbatch({8, Work()}, 1) == Microbatch::silent);
    std::vector<float> nothing(joiner.values(), 1);
    CHECK(joiner.hand_over(nothing).samples == 0);
    CHECK(bool(nothing == std::vector<float>(nothing.size())));
    step_both(epoch);  // with the momentum of each fragment that it was given
  }
  joined.gradients(0, 8);
  CHECK(joiner.add_microbatch({8, Work()}, 1) == Microbatch::counted);
}

TEST_CASE("local trainer: with an overlap the model takes a fragment after so many own steps, and not before") {
  Toy toy;
  Stepper stepper(toy.module(), lamb(lamb_options()), {});
  LocalTrainer trainer(stepper, mode_named("diloco,inner_steps=12,fragments=2,overlap=2"));
  CHECK(trainer.adopts_at_hand_over());
  compute(toy, trainer, 0, 6);
  std::vector<float> values(trainer.values());
  CHECK(trainer.hand_over(values).samples == 48);
  values.assign(values.size(), 0.5F);  // others went another way, and far
  (void)trainer.take_step(values, 0, Work());
  const auto agreed = [&] { return floats_of(trainer); };
  const std::size_t fragment = trainer.values();
  const auto shows = [&] {  // but for its own moves meanwhile, which are small
    const auto model = copy_of(stepper.parameters());
    const auto fragment_agreed = agreed();
    double furthest = 0;
    for (std::size_t i = 0; i < fragment; ++i)
      furthest = std::max(furthest, std::abs(double(model[i]) - double(fragment_agreed[i])));
    return furthest < 0.2;
  };
  compute(toy, trainer, 100, 1);
  CHECK_FALSE(shows());
  compute(toy, trainer, 108, 1);
  CHECK(shows());
  CHECK(copy_of(stepper.parameters())[fragment] != agreed()[fragment]);  // whose turn is the next
}

TEST_CASE("local trainer: an epoch in fragments that is over without this peer takes its own moves back, no others") {
  Toy toy;
  Stepper stepper(toy.module(), lamb(lamb_options()), {});
  LocalTrainer trainer(stepper, mode_named("diloco,inner_steps=6,fragments=2"));
  compute(toy, trainer, 0, 3);
  std::vector<float> values(trainer.values());
  CHECK(trainer.hand_over(values).samples == 24);
  const auto begun = copy_of(stepper.parameters());
  compute(toy, trainer, 24, 2);
  CHECK(trainer.drop().samples == 16);
  CHECK(bool(copy_of(stepper.parameters()) == begun));
}

TEST_CASE(
    "local trainer: averaged statistics are all peers' mean, a part of them in each epoch, and a joiner has them") {
  const node::Mode mode = mode_named("local,inner_steps=2,average_statistics=exp_avg_sq,state_averaging_every=2");
  struct Peer {
    explicit Peer(const node::Mode& mode) : stepper(toy.module(), lamb(lamb_options()), {}), trainer(stepper, mode) {}
    std::vector<float> squares() {
      std::vector<float> values;
      for (const auto moment : stepper.moments_named({"exp_avg_sq"}))
        values.insert(values.end(), moment.begin(), moment.end());
      return values;
    }
    Toy toy;
    Stepper stepper;
    LocalTrainer trainer;
  };
  Peer one(mode), other(mode), joiner(mode);
  const std::size_t parameters = one.stepper.parameters().size();
  REQUIRE(parameters == 337);
  REQUIRE(one.trainer.values() == 337 + 169);
  const auto epoch = [&](std::uint64_t number) {
    compute(one.toy, one.trainer, 100 * number, 2);
    compute(other.toy, other.trainer, 100 * number + 50, 2);
    const auto of_one = one.squares(), of_other = other.squares();
    std::vector<float> mean(one.trainer.values()), second(mean.size());
    (void)one.trainer.hand_over(mean);
    (void)other.trainer.hand_over(second);
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] = (mean[i] + second[i]) / 2;
    for (Peer* peer : {&one, &other}) {
      std::vector<float> averaged = mean;
      (void)peer->trainer.take_step(averaged, number, Work());
      peer->trainer.adopt();
    }
    const std::size_t begin = number % 2 == 0 ? 0 : 169;
    const std::size_t end = number % 2 == 0 ? 169 : 337;
    const auto after_one = one.squares(), after_other = other.squares();
    for (std::size_t i = 0; i < parameters; ++i) {
      CAPTURE(i);
      const bool turn = i >= begin && i < end;
      CHECK(after_one[i] == (turn ? (of_one[i] + of_other[i]) / 2 : of_one[i]));
      CHECK(after_other[i] == (turn ? after_one[i] : of_other[i]));
    }
  };
  epoch(0);
  epoch(1);
  CHECK(bool(one.trainer.snapshot().find("statistics")->bytes == other.trainer.snapshot().find("statistics")->bytes));
  REQUIRE(joiner.trainer.restore(one.trainer.snapshot()));
  const auto given = joiner.squares(), mean = one.squares();
  CHECK(std::equal(given.begin() + 169, given.end(), mean.begin() + 169));
  CHECK(*std::max_element(given.begin(), given.end()) > 0);
  CHECK(joiner.stepper.steps() == 4);
  CHECK_THROWS_WITH_AS(Peer(mode_named("local,average_statistics=square_avg")), doctest::Contains("square_avg"),
                       Failure);
  CHECK_FALSE(joiner.trainer.restore(LocalTrainer(one.stepper, node::Mode::local(2)).snapshot()).has_value());
}

TEST_CASE("modes: peers that average a statistic of their optimizers along stay equal, and learn") {
  torch::set_num_threads(1);
  ToySwarm swarm;
  swarm.mode = "diloco,inner_steps=6,fragments=3,average_statistics=exp_avg_sq,state_averaging_every=4";
  swarm.codec = "float16";
  swarm.peers = 4;
  swarm.epochs = 60;
  swarm.steps = 2;
  swarm.norm = true;
  const auto traces = together(swarm);
  for (const Trace& trace : traces) {
    CHECK(bool(trace.hashes == traces[0].hashes));
    CHECK(bool(trace.agreed == traces[0].agreed));
    for (std::size_t b = 0; b < 3; ++b) CHECK(trace.tracked[b].equal(traces[0].tracked[b]));
  }
  CHECK(traces[0].losses.back() < 0.7 * traces[0].losses.front());
}

}  // namespace collab::optim
