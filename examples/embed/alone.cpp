// A small network learns Fashion-MNIST.
#include <torch/torch.h>

#include <iostream>
#include <string>
#include <vector>

struct Net : torch::nn::Module {
  torch::nn::Linear hidden = register_module("hidden", torch::nn::Linear(28 * 28, 64));
  torch::nn::Linear classes = register_module("classes", torch::nn::Linear(64, 10));

  torch::Tensor forward(torch::Tensor images) { return classes(torch::relu(hidden(images.flatten(1)))); }
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
  auto rate = [steps](std::size_t step) { return 5e-3 * (1 - double(step) / double(steps)); };  // falls to 0
  torch::optim::AdamWOptions options;
  torch::optim::AdamW optimizer(net.parameters(), options);

  for (std::size_t step = 0; step < steps; ++step) {
    optimizer.param_groups()[0].options().set_lr(rate(step));
    torch::Tensor picked = torch::randint(*data.size(), {batch}, torch::kLong);
    torch::Tensor guess = net.forward(data.images().index_select(0, picked));
    torch::Tensor loss = torch::cross_entropy_loss(guess, data.targets().index_select(0, picked));
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
  std::cout << "accuracy " << 100 * accuracy(net, folder) << " %" << std::endl;
  torch::save(net.parameters(), "parameters.pt");
}
