#include "optim/moments.hpp"

#include "base/error.hpp"
#include "optim/lamb_optimizer.hpp"

#include <ATen/ops/full_like.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <map>
#include <memory>

namespace collab::optim {
namespace {

using NamedMoments = std::vector<NamedTensor>;

[[noreturn]] void refuse(const std::string& why) {
  throw Failure(ExitCode::usage, why, "use lamb(), or SGD, Adam, AdamW, RMSprop or Adagrad of libtorch");
}

/// The state of `parameter`, made when the optimizer has none yet.
template <class State>
State& state_of(torch::optim::Optimizer& optimizer, const at::Tensor& parameter) {
  auto& state = optimizer.state()[parameter.unsafeGetTensorImpl()];
  if (!state) state = std::make_unique<State>();
  return static_cast<State&>(*state);
}

at::Tensor zeros_if_missing(const at::Tensor& moment, const at::Tensor& parameter) {
  return moment.defined() ? moment : at::full_like(parameter.detach(), 0);
}

template <class State>
NamedMoments adam_moments(torch::optim::Optimizer& optimizer, const at::Tensor& parameter, bool amsgrad) {
  auto& state = state_of<State>(optimizer, parameter);
  state.exp_avg(zeros_if_missing(state.exp_avg(), parameter));
  state.exp_avg_sq(zeros_if_missing(state.exp_avg_sq(), parameter));
  NamedMoments moments = {{"exp_avg", state.exp_avg()}, {"exp_avg_sq", state.exp_avg_sq()}};
  if (!amsgrad) return moments;
  state.max_exp_avg_sq(zeros_if_missing(state.max_exp_avg_sq(), parameter));
  moments.emplace_back("max_exp_avg_sq", state.max_exp_avg_sq());
  return moments;
}

NamedMoments sgd_moments(torch::optim::Optimizer& optimizer, const at::Tensor& parameter,
                         const torch::optim::SGDOptions& options) {
  if (options.momentum() == 0) return {};
  if (options.dampening() != 0) refuse("SGD with dampening cannot start from a moment of zeros");
  auto& state = state_of<torch::optim::SGDParamState>(optimizer, parameter);
  state.momentum_buffer(zeros_if_missing(state.momentum_buffer(), parameter));
  return {{"momentum_buffer", state.momentum_buffer()}};
}

NamedMoments rmsprop_moments(torch::optim::Optimizer& optimizer, const at::Tensor& parameter,
                             const torch::optim::RMSpropOptions& options) {
  auto& state = state_of<torch::optim::RMSpropParamState>(optimizer, parameter);
  state.square_avg(zeros_if_missing(state.square_avg(), parameter));
  NamedMoments moments = {{"square_avg", state.square_avg()}};
  if (options.momentum() > 0) {
    state.momentum_buffer(zeros_if_missing(state.momentum_buffer(), parameter));
    moments.emplace_back("momentum_buffer", state.momentum_buffer());
  }
  if (options.centered()) {
    state.grad_avg(zeros_if_missing(state.grad_avg(), parameter));
    moments.emplace_back("grad_avg", state.grad_avg());
  }
  return moments;
}

NamedMoments moments_of(torch::optim::Optimizer& optimizer, const at::Tensor& parameter,
                        const torch::optim::OptimizerOptions& options) {
  if (dynamic_cast<LambOptimizer*>(&optimizer)) {
    auto& state = state_of<LambParamState>(optimizer, parameter);
    return {{"exp_avg", state.exp_avg}, {"exp_avg_sq", state.exp_avg_sq}};
  }
  if (const auto* adamw = dynamic_cast<const torch::optim::AdamWOptions*>(&options))
    return adam_moments<torch::optim::AdamWParamState>(optimizer, parameter, adamw->amsgrad());
  if (const auto* adam = dynamic_cast<const torch::optim::AdamOptions*>(&options))
    return adam_moments<torch::optim::AdamParamState>(optimizer, parameter, adam->amsgrad());
  if (const auto* sgd = dynamic_cast<const torch::optim::SGDOptions*>(&options))
    return sgd_moments(optimizer, parameter, *sgd);
  if (const auto* rmsprop = dynamic_cast<const torch::optim::RMSpropOptions*>(&options))
    return rmsprop_moments(optimizer, parameter, *rmsprop);
  if (dynamic_cast<const torch::optim::AdagradOptions*>(&options))
    return {{"sum", state_of<torch::optim::AdagradParamState>(optimizer, parameter).sum()}};
  refuse("this optimizer's state is not known, so a joiner could not get it");
}

/// Where the count of steps is: torch's states have accessors, ours has a member. Empty: none is kept (SGD).
template <class Use>
void with_step(torch::optim::OptimizerParamState& state, Use use) {
  const auto torchs = [&]<class State>(State* known) {
    if (!known) return false;
    std::int64_t step = known->step();
    use(step);
    known->step(step);
    return true;
  };
  if (auto* ours = dynamic_cast<LambParamState*>(&state)) return use(ours->step);
  (void)(torchs(dynamic_cast<torch::optim::AdamWParamState*>(&state)) ||  // the first that knows it does the work
         torchs(dynamic_cast<torch::optim::AdamParamState*>(&state)) ||
         torchs(dynamic_cast<torch::optim::RMSpropParamState*>(&state)) ||
         torchs(dynamic_cast<torch::optim::AdagradParamState*>(&state)));
}

}  // namespace

Moments::Moments(torch::optim::Optimizer& optimizer, const Schema& parameters, const std::vector<at::Tensor>& masters)
    : optimizer_(&optimizer), masters_(masters) {
  std::map<const void*, const torch::optim::OptimizerOptions*> options;
  for (const auto& group : optimizer.param_groups())
    for (const at::Tensor& tensor : group.params()) options[tensor.unsafeGetTensorImpl()] = &group.options();
  std::vector<NamedMoments> found;
  std::size_t kinds = 0;
  for (const at::Tensor& master : masters_) {
    const auto known = options.find(master.unsafeGetTensorImpl());
    if (known == options.end()) refuse("the optimizer was not given all parameters");
    found.push_back(moments_of(optimizer, master, *known->second));
    kinds = std::max(kinds, found.back().size());
  }
  for (std::size_t kind = 0; kind < kinds; ++kind)
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (kind >= found[i].size()) continue;
      const auto& [name, tensor] = found[i][kind];
      const TensorInfo& parameter = parameters.tensors[i];
      schema_.tensors.push_back({name + "/" + parameter.name, DType::float32, parameter.shape, TensorRole::statistic});
      values_.emplace_back(tensor.mutable_data_ptr<float>(), static_cast<std::size_t>(tensor.numel()));
    }
}

std::uint64_t Moments::steps() const {
  std::int64_t steps = 0;
  const auto& state = optimizer_->state();
  if (const auto found = state.find(masters_.front().unsafeGetTensorImpl()); found != state.end())
    with_step(*found->second, [&](std::int64_t& step) { steps = step; });
  return static_cast<std::uint64_t>(steps);
}

void Moments::set_steps(std::uint64_t steps) {
  for (const at::Tensor& master : masters_) {
    const auto found = optimizer_->state().find(master.unsafeGetTensorImpl());
    if (found == optimizer_->state().end()) continue;
    with_step(*found->second, [&](std::int64_t& step) { step = static_cast<std::int64_t>(steps); });
  }
}

}  // namespace collab::optim
