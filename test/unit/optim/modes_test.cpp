#include "optim/optimizer.hpp"
#include "toy_swarm.hpp"

#include <torch/optim/adamw.h>

#include <cmath>

#include "support/doctest.hpp"

namespace collab::optim {
namespace {

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

}  // namespace

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
  const auto traces = together(adam_swarm(1));
  CHECK(traces[1].hashes[6] != traces[1].hashes[3]);  // they lose nothing
  for (std::size_t peer = 1; peer < 4; ++peer) CHECK(bool(traces[peer].hashes == traces[1].hashes));
  CHECK(traces[0].parameters == traces[1].parameters);
}

}  // namespace collab::optim
