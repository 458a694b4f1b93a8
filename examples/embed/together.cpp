// A small convolutional network learns Fashion-MNIST.
#include <torch/torch.h>

#include <collab.hpp>
#include <iostream>
#include <string>
#include <vector>

struct Net : torch::nn::Module {
  torch::nn::Conv2d edges = register_module("edges", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 16, 5).stride(3)));
  torch::nn::Conv2d shapes = register_module("shapes", torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 32, 3).stride(2)));
  torch::nn::Linear classes = register_module("classes", torch::nn::Linear(32 * 3 * 3, 10));

  torch::Tensor forward(torch::Tensor images) {
    images = torch::relu(shapes(torch::relu(edges(images))));
    return classes(images.flatten(1));
  }
};

double accuracy(Net& net, const std::string& folder) {
  torch::NoGradGuard no_grad;
  torch::data::datasets::MNIST test(folder, torch::data::datasets::MNIST::Mode::kTest);
  return net.forward(test.images()).argmax(1).eq(test.targets()).to(torch::kDouble).mean().item<double>();
}

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  std::string folder = arguments.at(0);
  std::size_t steps = std::stoul(arguments.at(1));
  std::int64_t batch = std::stol(arguments.at(2));

  torch::manual_seed(1);
  torch::data::datasets::MNIST data(folder);
  Net net;
  auto rate = [steps](std::size_t step) { return 2e-2 * (1 - double(step) / double(steps)); };  // falls to 0
  torch::optim::AdamWOptions options;
  collab::Collaboration run({.run_id = arguments.at(3), .bootstrap = {arguments.at(4)}, .home = arguments.at(5)});
  collab::Optimizer optimizer(run, net, collab::use<torch::optim::AdamW>(options), {.stepper = {.schedule = rate}});
  torch::manual_seed(std::hash<std::string>()(run.id().text()));  // everybody draws other samples

  while (optimizer.epoch() < steps) {
    torch::Tensor picked = torch::randint(*data.size(), {batch}, torch::kLong);
    torch::Tensor guess = net.forward(data.images().index_select(0, picked));
    torch::Tensor loss = torch::cross_entropy_loss(guess, data.targets().index_select(0, picked));
    optimizer.zero_grad();
    loss.backward();
    optimizer.step(batch, loss.item<double>());
  }
  std::cout << "accuracy " << 100 * accuracy(net, folder) << " %" << std::endl;
  torch::save(net.parameters(), "parameters.pt");
}
