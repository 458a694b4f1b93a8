#pragma once
// The border between libtorch and everything else: tensors on one side, flat float32 memory on the other.

#include "tensor/schema.hpp"

#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace torch::nn {
class Module;
}

namespace collab::optim {

using NamedTensor = std::pair<std::string, at::Tensor>;

/// Parameters of `module` in registration order. A tensor that is there under several names counts once, under the
/// first.
std::vector<NamedTensor> named_parameters(const torch::nn::Module& module);

/// Parameters, and apart from them gradients, as one flat vector each, in main memory.
///
/// On the CPU the tensors themselves become views of it, so nothing is ever copied. On another device they become
/// views of a flat tensor there, and the host keeps masters: `collect_gradients` and `publish_parameters` move values.
/// Tensors and their `.grad` keep working as before; a `.grad` that somebody replaced or reset is taken over by
/// `collect_gradients`. Not thread-safe; not while a backward runs.
class FlatParameters {
 public:
  /// Throws `Failure(usage)` when there is no tensor, one is not a float32 leaf that requires gradients, or devices are
  /// mixed.
  explicit FlatParameters(std::vector<NamedTensor> tensors);

  const Schema& schema() const noexcept { return schema_; }
  std::span<float> parameters() const;
  std::span<float> gradients() const;

  /// Masters with their `.grad`, one per entry of the schema: what an optimizer steps. On the CPU the model's own.
  const std::vector<at::Tensor>& masters() const noexcept { return masters_; }

  /// Brings `gradients()` up to date with what backward left in `.grad`.
  void collect_gradients();
  void zero_gradients();
  /// Shows the model what was written to `parameters()`.
  void publish_parameters();

 private:
  std::vector<at::Tensor> tensors_;  ///< the model's
  std::vector<at::Tensor> masters_;
  Schema schema_;
  at::Tensor host_values_, host_gradients_;      ///< flat
  at::Tensor device_values_, device_gradients_;  ///< the same two on the CPU
};

}  // namespace collab::optim
