#pragma once
// Tensors of a model that are no parameters and yet belong to all: statistics of a batch normalisation, counters.

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "optim/flatten.hpp"
#include "tensor/schema.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace collab::optim {

/// Buffers of `module` that can be tracked. A tensor that is there under several names counts once, under the first.
std::vector<NamedTensor> named_buffers(const torch::nn::Module& module);

/// Each epoch floats become their mean, weighted by samples, and integers grow by the mean of how much they grew,
/// rounded. What a tensor was changed by while a round ran is lost with it: what is averaged is a statistic, which the
/// next batches bring up to date.
/// Thread safety: none, but what `tensors` hold is read by `collect` and written by `adopt` and `load` only.
class Extras {
 public:
  /// Throws `Failure(usage)` for a name that is empty or taken, and for a tensor that is neither float32 nor int64.
  void track(std::string name, at::Tensor tensor);

  const std::vector<TensorInfo>& tensors() const noexcept { return tensors_; }  ///< role `extra`
  std::size_t values() const noexcept { return agreed_.size(); }

  /// Reads the tensors: what is handed over is as of the last time.
  void collect();
  /// `out`: values() finite ones; for one that is not, what was agreed on before.
  void hand_over(std::span<float> out) const;
  /// Agrees on the mean. One that is not finite changes nothing.
  void step(std::span<const float> averaged);
  /// The tensors become what is agreed on, if there was a step.
  void adopt();

  /// What is agreed on, as a section of the state.
  Bytes state() const;
  /// Whether `load` takes it.
  bool fits(std::span<const std::byte> state) const noexcept;
  void load(std::span<const std::byte> state);

 private:
  bool integral(std::size_t tensor) const noexcept { return tensors_[tensor].dtype == DType::int64; }
  /// Calls visit(tensor, range) for each.
  template <class Visit>
  void for_each(Visit visit) const;
  void show();

  std::vector<TensorInfo> tensors_;
  std::vector<at::Tensor> live_;
  std::vector<double> here_;  // as collected; float64 holds a float32, and an integer up to 2^53
  std::vector<double> agreed_;
  bool to_adopt_ = false;
};

}  // namespace collab::optim
