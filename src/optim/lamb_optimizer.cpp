#include "optim/lamb_optimizer.hpp"

#include "optim/factory.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>

namespace collab::optim {
namespace {

std::span<float> values(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.is_contiguous() && tensor.device().is_cpu() && tensor.scalar_type() == at::kFloat,
              "LAMB works on contiguous float32 tensors in main memory");
  return {tensor.mutable_data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

}  // namespace

LambOptimizer::LambOptimizer(const std::vector<torch::optim::OptimizerParamGroup>& groups, LambOptions options)
    : Optimizer(groups, std::make_unique<LambGroupOptions>(options)) {
  for (const auto& group : param_groups())
    for (const at::Tensor& parameter : group.params()) {
      auto state = std::make_unique<LambParamState>();
      state->exp_avg = at::zeros_like(parameter.detach());
      state->exp_avg_sq = at::zeros_like(parameter.detach());
      this->state()[parameter.unsafeGetTensorImpl()] = std::move(state);
    }
}

at::Tensor LambOptimizer::step(LossClosure closure) {
  at::Tensor loss = closure ? closure() : at::Tensor();
  const at::NoGradGuard no_grad;
  for (auto& group : param_groups()) {
    const LambOptions& options = static_cast<const LambGroupOptions&>(group.options()).lamb;
    for (const at::Tensor& parameter : group.params()) {
      if (!parameter.grad().defined()) continue;
      auto& state = static_cast<LambParamState&>(*this->state().at(parameter.unsafeGetTensorImpl()));
      const LambTensor tensor{values(parameter), values(parameter.grad()), values(state.exp_avg),
                              values(state.exp_avg_sq), parameter.dim() >= 2};
      lamb_update(tensor, static_cast<std::uint64_t>(++state.step), options.learning_rate, options);
    }
  }
  return loss;
}

void LambOptimizer::save(torch::serialize::OutputArchive&) const {
  TORCH_CHECK(false, "LAMB's moments are kept by collab's checkpoints, not in a torch archive");
}

void LambOptimizer::load(torch::serialize::InputArchive&) {
  TORCH_CHECK(false, "LAMB's moments are kept by collab's checkpoints, not in a torch archive");
}

OptimizerFactory lamb(LambOptions options) {
  return [options](const std::vector<torch::optim::OptimizerParamGroup>& groups) {
    return std::make_unique<LambOptimizer>(groups, options);
  };
}

}  // namespace collab::optim
