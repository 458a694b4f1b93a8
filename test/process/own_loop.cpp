// own_loop KIND WIDTH EPOCHS RUN ADDRESS HOME [uncaught]: a loop whose model and optimizer are its own choice, also
// where the run has chosen otherwise. `uncaught`: in a program that catches nothing. For loop_test.py.

#include "cli/program.hpp"
#include "collab.hpp"

#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <iostream>
#include <string>
#include <vector>

namespace {

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
  collab::Optimizer optimizer(run, *model, optimizer_named(words.at(0)));
  try {
    while (optimizer.epoch() < std::stoul(words.at(2))) {
      model->forward(torch::ones({8, std::stol(words.at(1))})).mean().backward();
      optimizer.step(8);
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
