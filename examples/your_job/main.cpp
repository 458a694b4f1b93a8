// your_job: collab-peer with a job of its own. It learns to tell the next byte of a text from the eight before it.
// Everything else of collab-peer is there as well: try --help.

#include "collab.hpp"
#include "data/order.hpp"
#include "jobs/peer_main.hpp"

#include <torch/torch.h>

#include <fstream>
#include <iterator>

namespace {

constexpr std::int64_t kContext = 8;

struct Net : torch::nn::Module {
  torch::nn::Embedding letters = register_module("letters", torch::nn::Embedding(256, 16));
  torch::nn::Linear hidden = register_module("hidden", torch::nn::Linear(16 * kContext, 64));
  torch::nn::Linear next = register_module("next", torch::nn::Linear(64, 256));

  torch::Tensor loss(const torch::Tensor& windows) {
    const torch::Tensor seen = letters(windows.narrow(1, 0, kContext)).flatten(1);
    return torch::cross_entropy_loss(next(torch::relu(hidden(seen))), windows.select(1, kContext));
  }
};

class NextByte final : public collab::Job {
 public:
  /// The run's data is the file that its coordinator was given; it came here by its hash.
  explicit NextByte(const collab::jobs::JobInputs& inputs) {
    std::ifstream file(inputs.prepared, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    text_ = torch::empty({std::ssize(text)}, torch::kByte);
    std::copy(text.begin(), text.end(), text_.data_ptr<std::uint8_t>());
    text_ = text_.to(torch::kLong);
    const std::int64_t windows = std::ssize(text) - kContext;
    if (windows < 10) throw collab::Failure(collab::ExitCode::data, "the text is too short", "a longer --data");
    trained_ = windows - windows / 10;  // the last tenth is held out
    torch::manual_seed(inputs.recipe.seed);
    net_ = std::make_shared<Net>();
  }

  /// A pure function of the parameters and the units: who computes them does not matter.
  collab::Loss gradients(std::span<const collab::Unit> units) override {
    std::vector<std::int64_t> places;
    for (const auto& unit : units) {
      const auto sample = collab::data::sample_of_unit(unit.index, static_cast<std::uint64_t>(trained_), unit.seed);
      places.push_back(static_cast<std::int64_t>(sample.window));
    }
    const torch::Tensor loss = net_->loss(windows_at(torch::tensor(places)));
    loss.backward();
    return {.total = loss.item<double>(), .samples = units.size()};
  }

  std::vector<collab::optim::Score> evaluate() override {
    const torch::NoGradGuard no_grad;
    const torch::Tensor places = torch::arange(trained_, text_.size(0) - kContext);
    return {{"loss", net_->loss(windows_at(places)).item<double>()}};
  }

  torch::nn::Module& module() override { return *net_; }

 private:
  torch::Tensor windows_at(const torch::Tensor& places) const {
    return text_.index({places.unsqueeze(1) + torch::arange(kContext + 1)});
  }

  torch::Tensor text_;
  std::int64_t trained_ = 0;
  std::shared_ptr<Net> net_;
};

collab::jobs::RunnableJob next_byte(const collab::jobs::JobInputs& inputs) {
  return {std::make_unique<NextByte>(inputs), collab::lamb({.learning_rate = 0.01}), {}};
}

}  // namespace

int main(int argc, char** argv) {
  collab::jobs::Registry jobs = collab::jobs::standard_jobs();
  jobs.add("next-byte", next_byte);
  return collab::jobs::peer_main(jobs, argc, argv);
}
