#include "training_loop.hpp"

#include "base/clock.hpp"
#include "optim/flatten.hpp"
#include "statistics.hpp"

#include <ATen/core/grad_mode.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/optimizer.h>

#include <chrono>
#include <utility>

namespace collab::bench {
namespace {

constexpr Duration kRest = std::chrono::milliseconds(50);

class Stopwatch {
 public:
  void read(Work& work) const {
    work.seconds = to_seconds(std::chrono::steady_clock::now() - start_);
    work.cpu_s = cpu_seconds() - cpu_start_;
  }

 private:
  TimePoint start_ = std::chrono::steady_clock::now();
  double cpu_start_ = cpu_seconds();
};

std::vector<optim::Unit> units_from(std::uint64_t first, std::size_t count) {
  std::vector<optim::Unit> units(count);
  for (optim::Unit& unit : units) unit = {0, first++, 1};
  return units;
}

optim::OptimizerOptions options_of(const jobs::RunnableJob& job) {
  optim::OptimizerOptions options;
  options.stepper = job.stepper;
  return options;
}

/// Of an epoch that was not there before.
void note(const epoch::EpochReport& report, std::vector<EpochFigures>& epochs) {
  epochs.push_back({report.epoch, report.weight, to_seconds(report.handing_over), to_seconds(report.averaging),
                    to_seconds(report.stepping)});
}

}  // namespace

BareLoop::BareLoop(jobs::RunnableJob job, const recipes::Recipe& recipe)
    : job_(std::move(job)), target_batch_(recipe.target_batch), microbatch_(recipe.microbatch) {
  for (const auto& [name, tensor] : optim::named_parameters(job_.job->module())) parameters_.push_back(tensor);
  optimizer_ = job_.optimizer({torch::optim::OptimizerParamGroup(parameters_)});
}

BareLoop::~BareLoop() = default;

Work BareLoop::train(const Stretch& stretch) {
  Work work;
  const Stopwatch stopwatch;
  while (work.samples < stretch.samples) {
    job_.job->gradients(units_from(stretch.first_unit + work.samples, microbatch_));
    work.samples += microbatch_;
    gathered_ += microbatch_;
    ++microbatches_;
    if (gathered_ < target_batch_) continue;
    step();
    ++work.steps;
  }
  stopwatch.read(work);
  return work;
}

void BareLoop::step() {
  {
    const at::NoGradGuard no_grad;
    for (at::Tensor& parameter : parameters_)
      if (parameter.grad().defined()) parameter.mutable_grad().div_(static_cast<double>(microbatches_));
  }
  torch::nn::utils::clip_grad_norm_(parameters_, job_.stepper.grad_norm_max);
  optimizer_->param_groups().front().options().set_lr(job_.stepper.schedule(epoch_++));
  optimizer_->step();
  optimizer_->zero_grad();
  gathered_ = 0;
  microbatches_ = 0;
}

CollabLoop::CollabLoop(optim::Collaboration& run, jobs::RunnableJob job, const recipes::Recipe& recipe)
    : job_(std::move(job)),
      microbatch_(recipe.microbatch),
      optimizer_(run, job_.job->module(), job_.optimizer, options_of(job_)) {}

void CollabLoop::join() {
  optimizer_.join();
}

void CollabLoop::rest() {
  optimizer_.wait(kRest);
}

Work CollabLoop::train(const Stretch& stretch) {
  Work work;
  const std::uint64_t first = epoch();
  const Stopwatch stopwatch;
  while (stretch.until_epoch > 0 ? epoch() < stretch.until_epoch : work.samples < stretch.samples) {
    const optim::Loss loss = job_.job->gradients(units_from(stretch.first_unit + work.samples, microbatch_));
    work.samples += microbatch_;
    (void)optimizer_.step(microbatch_, loss.mlm);
    for (const epoch::EpochReport& report : optimizer_.reports()) note(report, work.epochs);
  }
  stopwatch.read(work);
  work.steps = epoch() - first;
  return work;
}

}  // namespace collab::bench
