#pragma once
// Peers in one process that learn a toy together, over real connections.

#include "net/tcp.hpp"
#include "node/node.hpp"
#include "node/runtime.hpp"
#include "optim/extras.hpp"
#include "optim/optimizer.hpp"
#include "support/temp_folder.hpp"

#include <boost/asio/co_spawn.hpp>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/doctest.hpp"

namespace collab::optim {

inline constexpr std::uint64_t kBatch = 32;  // units of an epoch, whoever computes them

/// A small regression whose samples are pure functions of their index.
class Toy {
 public:
  /// `noise`: of the targets, up to so much either way; nothing can learn it. `norm`: with a batch normalisation.
  explicit Toy(double noise = 0, bool norm = false, std::int64_t width = 24)
      : noise_(noise), model_(torch::nn::Linear(12, width)) {
    if (norm) model_->push_back(torch::nn::BatchNorm1d(width));
    model_->push_back(torch::nn::Tanh());
    model_->push_back(torch::nn::Linear(width, 1));
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
      targets.push_back(static_cast<float>(std::sin(sum) + noise_ * number(random)));
    }
    const auto rows = static_cast<std::int64_t>(count);
    const auto predicted = model_->forward(torch::tensor(inputs).view({rows, 12}));
    auto loss = (predicted.view({rows}) - torch::tensor(targets)).pow(2).mean();
    loss.backward();
    return loss.item<double>();
  }

 private:
  static double number(Random& random) { return static_cast<double>(random.below(2'000'001)) * 1e-6 - 1; }
  double noise_;
  torch::nn::Sequential model_;
};

inline LambOptions lamb_options() {
  LambOptions options;
  options.learning_rate = 0.02;
  return options;
}

/// The run's first node: directory and manifest, no training.
class Founder {
 public:
  Founder(const std::filesystem::path& home, const std::string& codec, const std::string& mode = "synchronous",
          std::uint64_t target_batch = kBatch)
      : network_(runtime_.loop(), runtime_.clock()), stopping_(runtime_.loop()) {
    const Identity authority = Identity::create();
    node::Manifest manifest;
    manifest.run_id = "equal";
    manifest.authority = authority.id();
    manifest.sequence = 1;
    manifest.target_batch = target_batch;
    manifest.codec = codec;
    manifest.mode = mode;
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

inline RunOptions run_options(const std::filesystem::path& home, const std::string& address) {
  RunOptions options;
  options.run_id = "equal";
  options.bootstrap = {address};
  options.home = home;
  options.listen = "127.0.0.1:0";
  options.discover_lan = false;
  options.log.stderr_level = LogLevel::off;
  return options;
}

struct ToySwarm {
  std::string codec = "float32";
  std::string mode = "synchronous";
  std::uint64_t steps = 1;  ///< of each peer in an epoch, each with its share of kBatch units
  std::uint64_t peers = 2;
  std::uint64_t epochs = 10;
  double noise = 0;   ///< of Toy
  bool norm = false;  ///< of Toy; its statistics are tracked
  std::int64_t width = 24;
  Duration pause{};  ///< of every peer, each epoch
  OptimizerFactory optimizer = lamb(lamb_options());
  std::function<OptimizerOptions(std::uint64_t number)> options = {};  ///< of each peer
};

struct Trace {
  std::vector<double> losses;  // before each step
  std::vector<Digest> hashes;  // after each step
  std::vector<float> parameters;
  std::vector<float> agreed;  // what the swarm holds at the end: in modes with fragments the model is apart from it
  std::vector<float> model;   // what the module holds at the end
  std::vector<at::Tensor> tracked;
  std::uint64_t rounds = 0;  // with others: neither alone, before anybody came, nor fetched afterwards
  std::uint64_t bytes = 0;   // of these, both ways
};

/// One peer of the swarm: its share of each epoch, then it waits for the others.
inline Trace take_part(const std::filesystem::path& home, const std::string& address, const ToySwarm& swarm,
                       std::uint64_t number) {
  const std::uint64_t share = kBatch / swarm.peers;
  Collaboration run(run_options(home, address));
  Toy toy(swarm.noise, swarm.norm, swarm.width);
  OptimizerOptions optimizer_options = swarm.options ? swarm.options(number) : OptimizerOptions();
  optimizer_options.epochs_max = swarm.epochs;
  // the same whether one has a module or only its tensors
  const auto made = number % 2 == 0 ? std::make_unique<Optimizer>(run, toy.module(), swarm.optimizer, optimizer_options)
                                    : std::make_unique<Optimizer>(run, named_parameters(toy.module()), swarm.optimizer,
                                                                  optimizer_options);
  Optimizer& optimizer = *made;
  for (const auto& [name, buffer] : named_buffers(toy.module())) optimizer.track(name, buffer);
  optimizer.join();
  Trace trace;
  while (optimizer.epoch() < swarm.epochs) {
    const std::uint64_t epoch = optimizer.epoch();
    std::this_thread::sleep_for(swarm.pause);
    double loss = 0;
    for (std::uint64_t done = 0; optimizer.epoch() == epoch;) {
      StepResult result = StepResult::accumulated;
      if (done < swarm.steps) {
        const double now = toy.gradients((epoch * swarm.steps + done) * kBatch + number * share, share);
        result = optimizer.step(static_cast<std::int64_t>(share), now);
        ++done;
        loss += now / static_cast<double>(swarm.steps);
      } else {
        result = optimizer.wait(std::chrono::seconds(1));
      }
      if (result == StepResult::restored) {  // what was given is lost with the state it was computed on
        done = 0;
        loss = 0;
      }
      if (result != StepResult::committed) continue;
      const auto& others = optimizer.last_report()->round.peers;
      trace.rounds += others.size() > 1 ? 1 : 0;
      for (const auto& peer : others) trace.bytes += peer.bytes_up + peer.bytes_down;
    }
    trace.losses.push_back(loss);
    trace.hashes.push_back(optimizer.parameter_hash());
  }
  CHECK_THROWS_AS(optimizer.wait(std::chrono::seconds(1)), Stopped);  // the run is over
  const auto parameters = optimizer.stepper().parameters();
  trace.parameters.assign(parameters.begin(), parameters.end());
  const Bytes agreed = optimizer.snapshot().find("parameters")->bytes;
  trace.agreed.resize(agreed.size() / sizeof(float));
  std::memcpy(trace.agreed.data(), agreed.data(), agreed.size());
  for (const at::Tensor& buffer : toy.module().buffers()) trace.tracked.push_back(buffer.clone());
  for (const auto& parameter : toy.module().parameters()) {
    const auto flat = parameter.detach().flatten();
    trace.model.insert(trace.model.end(), flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel());
  }
  return trace;
}

inline std::vector<Trace> together(const ToySwarm& swarm) {
  const test::TempFolder folder;
  ::setenv("XDG_CONFIG_HOME", (folder.path() / "config").c_str(), 1);
  const Founder founder(folder.path() / "founder", swarm.codec, swarm.mode, kBatch * swarm.steps);
  std::vector<std::future<Trace>> peers;
  for (std::uint64_t i = 0; i < swarm.peers; ++i) {
    const auto home = folder.path() / std::to_string(i);
    peers.push_back(std::async(std::launch::async, take_part, home, founder.address(), std::cref(swarm), i));
  }
  std::vector<Trace> traces;
  for (auto& peer : peers) traces.push_back(peer.get());
  return traces;
}

}  // namespace collab::optim
