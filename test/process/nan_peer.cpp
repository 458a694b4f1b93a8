// nan_peer MODE …: collab-peer with a job of its own, as anybody may build one: its arithmetic fails. For
// doors_test.py. gradients: all gradients become NaN after the fourth microbatch; rate: the learning rate is absurd, so
// each step makes parameters that are not finite.

#include "jobs/peer_main.hpp"

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>

namespace collab::jobs {
namespace {

constexpr unsigned kGoodMicrobatches = 4;

class FailingJob final : public optim::Job {
 public:
  explicit FailingJob(std::unique_ptr<optim::Job> inner) : inner_(std::move(inner)) {}
  optim::Loss gradients(std::span<const optim::Unit> units) override {
    const optim::Loss loss = inner_->gradients(units);
    if (++microbatches_ <= kGoodMicrobatches) return loss;
    for (const at::Tensor& parameter : inner_->module().parameters()) {
      if (parameter.grad().defined()) parameter.grad().fill_(std::nan(""));
    }
    return loss;
  }
  torch::nn::Module& module() override { return inner_->module(); }

 private:
  std::unique_ptr<optim::Job> inner_;
  unsigned microbatches_ = 0;
};

RunnableJob make(const std::string& mode, const JobInputs& inputs) {
  RunnableJob runnable = standard_jobs().make(inputs);
  if (mode == "gradients") runnable.job = std::make_unique<FailingJob>(std::move(runnable.job));
  if (mode == "rate") runnable.stepper.schedule = [](std::uint64_t) { return std::numeric_limits<double>::infinity(); };
  return runnable;
}

}  // namespace
}  // namespace collab::jobs

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  collab::jobs::Registry jobs;
  jobs.add("albert", [mode = std::string(argv[1])](const collab::jobs::JobInputs& inputs) {
    return collab::jobs::make(mode, inputs);
  });
  return collab::jobs::peer_main(jobs, argc - 1, argv + 1);
}
