#pragma once
// The border between libtorch and everything else: tensors on one side, flat float32 memory on the other.

#include "tensor/schema.hpp"
#include "tensor/view.hpp"

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
/// On the CPU the tensors themselves become views of it. Their `.grad` is whatever backward puts there: after
/// `clear_gradients` it is none, so that backward need not add to what would be zeros, and `gradient_pieces` reads it
/// where it lies. On another device tensors and `.grad` are views of flat tensors there, and the host keeps masters:
/// `gradient_pieces`, `collect_gradients` and `publish_parameters` move values. Masters may be asked for on the CPU too
/// (`apart`): then the model's tensors stay as they are while the masters change, and a third vector remembers what
/// the model was shown.
/// A `.grad` that somebody replaced or reset is legal. Not thread-safe; not while a backward runs.
class FlatParameters {
 public:
  /// Throws `Failure(usage)` when there is no tensor, one is not a float32 leaf that requires gradients, or devices are
  /// mixed.
  explicit FlatParameters(std::vector<NamedTensor> tensors, bool apart = false);

  const Schema& schema() const noexcept { return schema_; }
  std::span<float> parameters() const;
  std::span<float> gradients() const;  ///< as of the last `collect_gradients`

  /// Masters with their `.grad`, one per entry of the schema: what an optimizer steps. On the CPU the model's own.
  const std::vector<at::Tensor>& masters() const noexcept { return masters_; }

  /// What backward left in `.grad`; valid until the next backward or call of something here that is not const. On the
  /// CPU nothing is copied, unless somebody put a tensor there that has not the parameter's layout.
  std::vector<FlatPiece> gradient_pieces();
  /// Brings `gradients()` up to date with what backward left in `.grad`, which becomes a view of it.
  void collect_gradients();
  /// As `zero_grad()` does it: `.grad` is none, or zeros on another device.
  void clear_gradients();
  /// Makes the `.grad` of `masters()` views of `gradients`, one value for each parameter, until `detach_gradients`.
  void attach_gradients(std::span<float> gradients);
  void detach_gradients();
  /// Shows the model what was written to `parameters()`.
  void publish_parameters();
  /// The same of masters that are apart, but what the model's values were changed by since they were last shown stays:
  /// p += new - shown. Values that were not changed become the new ones to the bit.
  void publish_change();

 private:
  bool on_host() const { return device_values_.device().is_cpu(); }
  bool shared() const { return host_values_.is_same(device_values_); }
  void make_room_for_gradients();

  std::vector<at::Tensor> tensors_;  ///< the model's
  std::vector<at::Tensor> masters_;
  Schema schema_;
  at::Tensor shown_;                             ///< flat, on the device; undefined unless masters are apart
  at::Tensor host_values_, host_gradients_;      ///< flat
  at::Tensor device_values_, device_gradients_;  ///< the same two on the CPU, where gradients come with the first need
};

}  // namespace collab::optim
