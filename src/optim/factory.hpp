#pragma once
// Which optimizer a run uses: a function from parameter groups to a torch optimizer.

#include "optim/lamb.hpp"

#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace torch::optim {
class Optimizer;
class OptimizerParamGroup;
}  // namespace torch::optim

namespace collab::optim {

using OptimizerFactory =
    std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<torch::optim::OptimizerParamGroup>)>;

/// Ours: equal bits on every machine. Float32 tensors in main memory only; `.grad` is used up by a step (it holds the
/// update afterwards), and a parameter without `.grad` stays as it is.
OptimizerFactory lamb(LambOptions options);

/// Any optimizer of libtorch, e.g. `use<torch::optim::AdamW>(torch::optim::AdamWOptions(1e-3))`. Include its header.
/// Equal bits only among like machines.
template <class TorchOptimizer, class TorchOptions>
OptimizerFactory use(TorchOptions options) {
  return [options](auto groups) { return std::make_unique<TorchOptimizer>(std::move(groups), options); };
}

}  // namespace collab::optim
