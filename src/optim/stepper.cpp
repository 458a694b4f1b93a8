#include "optim/stepper.hpp"

#include "base/error.hpp"
#include "optim/norm.hpp"
#include "tensor/view.hpp"

#include <torch/optim/optimizer.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <string>
#include <utility>

namespace collab::optim {
namespace {

std::vector<torch::optim::OptimizerParamGroup> one_group(const std::vector<at::Tensor>& tensors) {
  return {torch::optim::OptimizerParamGroup(tensors)};
}

}  // namespace

Stepper::Stepper(torch::nn::Module& module, const OptimizerFactory& factory, StepperOptions options)
    : Stepper(named_parameters(module), factory, std::move(options)) {}

Stepper::Stepper(std::vector<NamedTensor> tensors, const OptimizerFactory& factory, StepperOptions options)
    : options_(std::move(options)),
      flat_(std::move(tensors), options_.offload),
      optimizer_(factory(one_group(flat_.masters()))) {
  if (options_.backup_every == 0 || options_.bad_steps_max == 0)
    throw Failure(ExitCode::usage, "backup_every and bad_steps_max are at least 1", "leave them as they are");
  moments_.emplace(*optimizer_, flat_.schema(), flat_.masters());
  state_schema_ = flat_.schema();
  const auto& moments = moments_->schema().tensors;
  state_schema_.tensors.insert(state_schema_.tensors.end(), moments.begin(), moments.end());
  take_snapshot();
}

Stepper::~Stepper() = default;

StepReport Stepper::step(std::span<float> averaged, std::uint64_t epoch) {
  assert(averaged.size() == schema().values());
  if (epoch % options_.backup_every == 0) take_snapshot();
  if (!options_.offload) flat_.clear_gradients();

  StepReport report;
  report.gradient_norm = clip_norm(averaged, options_.grad_norm_max);
  if (!std::isfinite(report.gradient_norm)) {
    report.outcome = StepOutcome::skipped;
    count_bad_step("the averaged gradient is not finite");
    return report;
  }
  auto& group = optimizer_->param_groups().front().options();
  if (options_.schedule) group.set_lr(options_.schedule(epoch));
  report.learning_rate = group.get_lr();
  flat_.attach_gradients(averaged);
  optimizer_->step();
  flat_.detach_gradients();

  if (all_finite(flat_.parameters())) {
    bad_steps_ = 0;
  } else {
    report.outcome = StepOutcome::restored;
    restore_snapshot();
    count_bad_step("a step made parameters that are not finite");
  }
  show();
  return report;
}

void Stepper::show() {
  to_adopt_ = options_.offload;
  if (!options_.offload) flat_.publish_parameters();
}

void Stepper::adopt() {
  if (std::exchange(to_adopt_, false)) flat_.publish_change();
}

std::vector<std::span<float>> Stepper::mutable_state() const {
  std::vector<std::span<float>> state;
  auto parameters = flat_.parameters();
  for (const TensorInfo& tensor : flat_.schema().tensors) {
    state.push_back(parameters.first(tensor.values()));
    parameters = parameters.subspan(tensor.values());
  }
  state.insert(state.end(), moments_->values().begin(), moments_->values().end());
  return state;
}

std::vector<std::span<const float>> Stepper::state() const {
  const auto state = mutable_state();
  return {state.begin(), state.end()};
}

std::vector<std::span<const float>> Stepper::moments() const {
  return {moments_->values().begin(), moments_->values().end()};
}

std::vector<std::span<float>> Stepper::moments_named(const std::vector<std::string>& kinds) {
  std::vector<std::span<float>> named;
  const auto& tensors = moments_->schema().tensors;
  for (const std::string& kind : kinds) {
    std::size_t values = 0;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (!tensors[i].name.starts_with(kind + "/")) continue;
      named.push_back(moments_->values()[i]);
      values += named.back().size();
    }
    if (values == schema().values()) continue;
    throw Failure(ExitCode::usage, "the run averages the statistic \"" + kind + "\", which this optimizer has not",
                  "the optimizer that the run was founded for");
  }
  return named;
}

void Stepper::begin_moments_at(std::uint64_t steps) {
  moments_->set_steps(steps);
  take_snapshot();
}

Result<void> Stepper::load_state(std::span<const float> values, std::uint64_t steps) {
  if (values.size() != state_schema_.values() || !all_finite(values)) return Errc::bad_request;
  for (const auto tensor : mutable_state()) {
    std::copy_n(values.begin(), tensor.size(), tensor.begin());
    values = values.subspan(tensor.size());
  }
  moments_->set_steps(steps);
  flat_.publish_parameters();
  to_adopt_ = false;
  take_snapshot();
  return {};
}

Result<void> Stepper::load_parameters(std::span<const float> values) {
  const auto parameters = flat_.parameters();
  if (values.size() != parameters.size() || !all_finite(values)) return Errc::bad_request;
  std::copy(values.begin(), values.end(), parameters.begin());
  flat_.publish_parameters();
  to_adopt_ = false;
  take_snapshot();
  return {};
}

void Stepper::take_snapshot() {
  snapshot_.values.clear();
  snapshot_.values.reserve(state_schema_.values());
  for (const auto tensor : mutable_state())
    snapshot_.values.insert(snapshot_.values.end(), tensor.begin(), tensor.end());
  snapshot_.steps = moments_->steps();
}

void Stepper::restore_snapshot() {
  std::span<const float> values = snapshot_.values;
  for (const auto tensor : mutable_state()) {
    std::copy_n(values.begin(), tensor.size(), tensor.begin());
    values = values.subspan(tensor.size());
  }
  moments_->set_steps(snapshot_.steps);
}

void Stepper::count_bad_step(const std::string& what) {
  if (++bad_steps_ < options_.bad_steps_max) return;
  show();
  throw Failure(ExitCode::training_stopped, what + ", " + std::to_string(bad_steps_) + " times in a row",
                "lower the learning rate or lengthen the warm-up, and start from the last good checkpoint");
}

}  // namespace collab::optim
