#include "base/work.hpp"
#include "crypto/hash.hpp"
#include "data/ledger.hpp"
#include "optim/optimizer.hpp"
#include "optim/stepper.hpp"
#include "support/temp_folder.hpp"
#include "toy_swarm.hpp"

#include <torch/utils.h>

#include <cmath>
#include <cstdlib>
#include <future>

#include "support/doctest.hpp"

namespace collab::optim {
namespace {

struct Swarm {
  std::string codec;
  std::uint64_t peers;
  std::uint64_t epochs;
  double loss_tolerance;  ///< relative
};

/// The same units on one machine, without a network.
Trace alone(std::uint64_t epochs) {
  Toy toy;
  Stepper stepper(toy.module(), lamb(lamb_options()), {});
  Trace trace;
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
    trace.losses.push_back(toy.gradients(epoch * kBatch, kBatch));
    stepper.collect_gradients();
    std::vector<float> gradients(stepper.gradients().begin(), stepper.gradients().end());
    stepper.clear_gradients();
    stepper.step(gradients, epoch);
  }
  trace.parameters.assign(stepper.parameters().begin(), stepper.parameters().end());
  return trace;
}

std::vector<Trace> together(const Swarm& swarm) {
  ToySwarm toys;
  toys.codec = swarm.codec;
  toys.peers = swarm.peers;
  toys.epochs = swarm.epochs;
  return together(toys);
}

/// The mean of the peers' losses is the one machine's loss, epoch for epoch, and the peers are equal to the bit.
void check_equal(const std::vector<Trace>& traces, const Trace& reference, const Swarm& swarm) {
  for (std::uint64_t epoch = 0; epoch < swarm.epochs; ++epoch) {
    CAPTURE(epoch);
    double loss = 0;
    for (const Trace& trace : traces) {
      REQUIRE(trace.losses.size() == swarm.epochs);
      loss += trace.losses[epoch] / static_cast<double>(swarm.peers);
      CHECK(trace.hashes[epoch] == traces[0].hashes[epoch]);
    }
    CHECK(std::abs(loss - reference.losses[epoch]) <= swarm.loss_tolerance * reference.losses[epoch]);
  }
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(double(a[i]) - double(b[i])));
  return largest;
}

/// What one peer that works by leases saw.
struct Leased {
  std::vector<std::uint64_t> units;  ///< that it computed
  std::uint64_t duplicates = 0;      ///< as its reports tell
  data::Ledger ledger;               ///< at the end
};

Leased work_by_leases(const std::filesystem::path& home, const std::string& address, std::uint64_t epochs) {
  Collaboration run(run_options(home, address));
  Toy toy;
  OptimizerOptions optimizer_options;
  optimizer_options.epochs_max = epochs;
  optimizer_options.units_per_pass = 300;
  Optimizer optimizer(run, toy.module(), lamb(lamb_options()), optimizer_options);
  optimizer.join();
  Leased seen;
  try {
    while (optimizer.epoch() < epochs) {
      const auto units = optimizer.next_units(4);
      for (const Unit& unit : units) seen.units.push_back(unit.index);
      const double loss = toy.gradients(units.front().index, units.size());
      const StepResult result = optimizer.step(static_cast<std::int64_t>(units.size()), loss);
      if (result != StepResult::committed) continue;
      seen.duplicates += optimizer.last_report()->work.duplicates;
    }
  } catch (const Stopped&) {
    // the last epoch ended while this peer waited for units
  }
  seen.ledger = data::Ledger::decode(optimizer.snapshot().find(data::kLedgerSection)->bytes).value();
  return seen;
}

}  // namespace

TEST_CASE("optimizer: leased units are committed once, and the ledger is equal on all peers") {
  torch::set_num_threads(1);
  constexpr std::uint64_t kEpochs = 25;  // almost three passes of 300 units
  const test::TempFolder folder;
  ::setenv("XDG_CONFIG_HOME", (folder.path() / "config").c_str(), 1);
  const Founder founder(folder.path() / "founder", "float32");
  std::vector<std::future<Leased>> working;
  for (std::uint64_t i = 0; i < 3; ++i) {
    const auto home = folder.path() / std::to_string(i);
    working.push_back(std::async(std::launch::async, work_by_leases, home, founder.address(), kEpochs));
  }
  std::vector<Leased> peers;
  for (auto& peer : working) peers.push_back(peer.get());
  Work computed;
  for (const Leased& peer : peers) {
    CHECK(peer.duplicates == 0);
    CHECK(peer.ledger == peers[0].ledger);
    for (const std::uint64_t unit : peer.units) computed.add(WorkRange{unit, 1});
  }
  const data::Ledger& ledger = peers[0].ledger;
  CHECK(ledger.committed().count() >= kEpochs * kBatch);
  CHECK(ledger.duplicates() == 0);
  CHECK(ledger.skipped() == 0);
  CHECK(ledger.committed().common(computed) == ledger.committed());  // nothing that nobody computed
}

TEST_CASE("equivalence: eight peers and one machine see the same loss step for step for 200 epochs") {
  torch::set_num_threads(1);
  const Swarm swarm{"float32", 8, 200, 1e-3};
  const Trace reference = alone(swarm.epochs);
  CHECK(reference.losses.back() < 0.5 * reference.losses.front());  // something is learnt
  const auto traces = together(swarm);
  check_equal(traces, reference, swarm);
}

TEST_CASE("equivalence: with every codec peers are equal to the bit, and near one machine") {
  torch::set_num_threads(1);
  const Swarm exact{"float32", 4, 25, 1e-3};
  const Trace reference = alone(exact.epochs);
  const auto exact_traces = together(exact);
  check_equal(exact_traces, reference, exact);
  CHECK(largest_difference(exact_traces[0].parameters, reference.parameters) <= 1e-4);
  for (const std::string codec : {"float16", "linear8", "dynamic8"}) {
    CAPTURE(codec);
    const Swarm swarm{codec, 4, 25, 0.1};
    check_equal(together(swarm), reference, swarm);
  }
}

TEST_CASE("equivalence: what a round costs is what the run's codec says") {
  torch::set_num_threads(1);
  std::vector<double> bytes_of_round;
  for (const std::string codec : {"float32", "float16"}) {
    ToySwarm swarm;
    swarm.codec = codec;
    swarm.width = 4096;  // so that what a round costs anyway is little beside the values
    double bytes = 0;
    for (const Trace& trace : together(swarm)) {
      REQUIRE(trace.rounds > 0);
      bytes += static_cast<double>(trace.bytes) / static_cast<double>(trace.rounds);
    }
    bytes_of_round.push_back(bytes);
  }
  CHECK(bytes_of_round[0] == doctest::Approx(2 * bytes_of_round[1]).epsilon(0.05));
}

}  // namespace collab::optim
