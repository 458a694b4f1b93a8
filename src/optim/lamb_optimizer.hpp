#pragma once
// LAMB in the shape of a torch optimizer; users say `lamb({...})` of optim/factory.hpp.

#include "optim/lamb.hpp"

#include <torch/optim/optimizer.h>

#include <vector>

namespace collab::optim {

/// What torch's parameter groups carry.
struct LambGroupOptions : torch::optim::OptimizerCloneableOptions<LambGroupOptions> {
  explicit LambGroupOptions(LambOptions values) : lamb(values) {}
  double get_lr() const override { return lamb.learning_rate; }
  void set_lr(const double lr) override { lamb.learning_rate = lr; }

  LambOptions lamb;
};

/// Moments of one parameter, in the same places as torch's own optimizers keep theirs.
struct LambParamState : torch::optim::OptimizerCloneableParamState<LambParamState> {
  std::int64_t step = 0;
  at::Tensor exp_avg;
  at::Tensor exp_avg_sq;
};

class LambOptimizer : public torch::optim::Optimizer {
 public:
  LambOptimizer(const std::vector<torch::optim::OptimizerParamGroup>& groups, LambOptions options);

  /// `closure` is called first, if there is one; its loss is returned.
  at::Tensor step(LossClosure closure = nullptr) override;
  /// Throw: moments are read and written through optim/moments.hpp, and torch's archives last one version.
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;
};

}  // namespace collab::optim
