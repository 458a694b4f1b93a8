#include "base/work.hpp"
#include "crypto/hash.hpp"
#include "data/ledger.hpp"
#include "net/tcp.hpp"
#include "node/node.hpp"
#include "node/runtime.hpp"
#include "optim/optimizer.hpp"
#include "optim/stepper.hpp"
#include "support/temp_folder.hpp"

#include <boost/asio/co_spawn.hpp>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <cmath>
#include <cstdlib>
#include <future>
#include <thread>

#include "support/doctest.hpp"

namespace collab::optim {
namespace {

constexpr std::uint64_t kBatch = 32;  // units of an epoch, whoever computes them

struct Swarm {
  std::string codec;
  std::uint64_t peers;
  std::uint64_t epochs;
  double loss_tolerance;  ///< relative
};

/// A small regression whose samples are pure functions of their index.
class Toy {
 public:
  Toy() : model_(torch::nn::Linear(12, 24), torch::nn::Tanh(), torch::nn::Linear(24, 1)) {
    Random random(7);
    const torch::NoGradGuard guard;
    for (auto& parameter : model_->parameters()) {
      auto flat = parameter.view({-1});
      for (std::int64_t i = 0; i < flat.numel(); ++i) flat[i] = static_cast<float>(number(random) * 0.3);
    }
  }
  torch::nn::Module& module() { return *model_; }

  /// Backward of the mean loss over these units; returns it.
  double gradients(std::uint64_t first, std::uint64_t count) {
    std::vector<float> inputs;
    std::vector<float> targets;
    for (std::uint64_t unit = first; unit < first + count; ++unit) {
      Random random(unit + 1);
      double sum = 0;
      for (int i = 0; i < 12; ++i) {
        inputs.push_back(static_cast<float>(number(random)));
        sum += (i % 3 - 1) * double(inputs.back());
      }
      targets.push_back(static_cast<float>(std::sin(sum)));
    }
    const auto rows = static_cast<std::int64_t>(count);
    const auto predicted = model_->forward(torch::tensor(inputs).view({rows, 12}));
    auto loss = (predicted.view({rows}) - torch::tensor(targets)).pow(2).mean();
    loss.backward();
    return loss.item<double>();
  }

 private:
  static double number(Random& random) { return static_cast<double>(random.below(2'000'001)) * 1e-6 - 1; }
  torch::nn::Sequential model_;
};

LambOptions lamb_options() {
  LambOptions options;
  options.learning_rate = 0.02;
  return options;
}

/// The run's first node: directory and manifest, no training.
class Founder {
 public:
  Founder(const std::filesystem::path& home, const std::string& codec)
      : network_(runtime_.loop(), runtime_.clock()), stopping_(runtime_.loop()) {
    const Identity authority = Identity::create();
    node::Manifest manifest;
    manifest.run_id = "equal";
    manifest.authority = authority.id();
    manifest.sequence = 1;
    manifest.target_batch = kBatch;
    manifest.codec = codec;
    const Signed statement = node::sign_manifest(authority, manifest);
    node::NodeOptions options;
    options.home = home;
    options.run.run_id = manifest.run_id;
    options.listen = net::Address{"127.0.0.1", 0};
    options.serve_directory = true;
    runtime_.on_loop([&] {
      const node::NodeNeeds needs{runtime_.loop(), runtime_.workers(), runtime_.clock(), network_, Random(3), log_,
                                  metrics_};
      node_ = std::make_unique<node::Node>(needs, Identity::create(), options);
      node_->found(statement);
      address_ = net::to_string(node_->endpoint().listening().front());
    });
    served_ = asio::co_spawn(runtime_.loop(), serve(), asio::use_future);
  }
  ~Founder() {
    runtime_.on_loop([this] {
      stop_ = true;
      stopping_.notify();
    });
    served_.wait();
    runtime_.on_loop([this] { node_.reset(); });
  }
  const std::string& address() const { return address_; }

 private:
  Task<> serve() {
    const auto body = [this](TaskGroup& tasks) -> Task<> {
      tasks.spawn("node", node_->run());
      while (!stop_) co_await stopping_.wait();
    };
    auto scope = task_scope(rethrow, body);
    co_await std::move(scope);
  }

  Log log_;
  Metrics metrics_;
  node::Runtime runtime_;
  net::TcpNetwork network_;
  Signal stopping_;
  bool stop_ = false;
  std::unique_ptr<node::Node> node_;
  std::string address_;
  std::future<void> served_;
};

RunOptions run_options(const std::filesystem::path& home, const std::string& address) {
  RunOptions options;
  options.run_id = "equal";
  options.bootstrap = {address};
  options.home = home;
  options.listen = "127.0.0.1:0";
  options.discover_lan = false;
  options.log.stderr_level = LogLevel::off;
  return options;
}

struct Trace {
  std::vector<double> losses;  // before each step
  std::vector<Digest> hashes;  // after each step
  std::vector<float> parameters;
};

/// One peer of the swarm: its share of each epoch, then it waits for the others.
Trace take_part(const std::filesystem::path& home, const std::string& address, const Swarm& swarm,
                std::uint64_t number) {
  const std::uint64_t share = kBatch / swarm.peers;
  Collaboration run(run_options(home, address));
  Toy toy;
  OptimizerOptions optimizer_options;
  optimizer_options.epochs_max = swarm.epochs;
  // the same whether one has a module or only its tensors
  const auto made =
      number % 2 == 0
          ? std::make_unique<Optimizer>(run, toy.module(), lamb(lamb_options()), optimizer_options)
          : std::make_unique<Optimizer>(run, named_parameters(toy.module()), lamb(lamb_options()), optimizer_options);
  Optimizer& optimizer = *made;
  optimizer.join();
  Trace trace;
  while (optimizer.epoch() < swarm.epochs) {
    const std::uint64_t epoch = optimizer.epoch();
    const double loss = toy.gradients(epoch * kBatch + number * share, share);
    optimizer.step(static_cast<std::int64_t>(share), loss);
    while (optimizer.epoch() == epoch) optimizer.wait(std::chrono::seconds(1));
    trace.losses.push_back(loss);
    trace.hashes.push_back(optimizer.parameter_hash());
  }
  CHECK_THROWS_AS(optimizer.wait(std::chrono::seconds(1)), Stopped);  // the run is over
  const auto parameters = optimizer.stepper().parameters();
  trace.parameters.assign(parameters.begin(), parameters.end());
  return trace;
}

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
  const test::TempFolder folder;
  ::setenv("XDG_CONFIG_HOME", (folder.path() / "config").c_str(), 1);
  const Founder founder(folder.path() / "founder", swarm.codec);
  std::vector<std::future<Trace>> peers;
  for (std::uint64_t i = 0; i < swarm.peers; ++i) {
    const auto home = folder.path() / std::to_string(i);
    peers.push_back(std::async(std::launch::async, take_part, home, founder.address(), swarm, i));
  }
  std::vector<Trace> traces;
  for (auto& peer : peers) traces.push_back(peer.get());
  return traces;
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

}  // namespace collab::optim
