// own_loop KIND WIDTH EPOCHS RUN ADDRESS HOME [HOW]: a loop whose model and optimizer are its own choice, also where
// the run has chosen otherwise. HOW: `uncaught` in a program that catches nothing; `slow`, as models are; `leave-aside`
// from another thread, after a round with others; `twice` with a second optimizer; `wait-first` before anything else.
// For loop_test.py.

#include "cli/program.hpp"
#include "collab.hpp"

#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <chrono>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;

collab::OptimizerFactory optimizer_named(const std::string& kind) {
  if (kind == "adamw") return collab::use<torch::optim::AdamW>(torch::optim::AdamWOptions(1e-3));
  return collab::use<torch::optim::SGD>(torch::optim::SGDOptions(1e-3));
}

int train(const std::vector<std::string>& words) {
  torch::nn::Linear model(std::stol(words.at(1)), 1);
  collab::RunOptions run_options;
  run_options.run_id = words.at(3);
  run_options.bootstrap = {words.at(4)};
  run_options.home = words.at(5);
  collab::Collaboration run(run_options);
  std::jthread leaver;
  collab::Optimizer optimizer(run, *model, optimizer_named(words.at(0)));
  const std::string& how = words.back();
  if (how == "wait-first") optimizer.wait(1s);
  if (how == "twice") {
    optimizer.join();
    collab::Optimizer(run, *model, optimizer_named(words.at(0))).join();
  }
  try {
    while (optimizer.epoch() < std::stoul(words.at(2))) {
      model->forward(torch::ones({8, std::stol(words.at(1))})).mean().backward();
      if (how == "slow") std::this_thread::sleep_for(20ms);
      optimizer.step(8);
      const auto& report = optimizer.last_report();
      if (how == "leave-aside" && report && report->group && !leaver.joinable())
        leaver = std::jthread([&run] { run.leave(); });
    }
  } catch (const collab::Stopped& stopped) {
    std::cout << stopped.what() << std::endl;
  }
  std::cout << "epoch " << optimizer.epoch() << std::endl;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.back() == "uncaught") return train(words);
  return collab::cli::run_program("own_loop", [&] { return train(words); });
}
