#pragma once
// An optimizer's moments as named flat tensors: what a joiner needs besides the parameters.

#include "optim/flatten.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace torch::optim {
class Optimizer;
}

namespace collab::optim {

/// Views into a torch optimizer's state, by parameter index (torch itself keys them by address).
///
/// Known: our LAMB, and SGD, Adam, AdamW, RMSprop and Adagrad of libtorch. All moments exist from the start, as zeros,
/// so every peer has the same tensors whether it has stepped or not. The optimizer must outlive this.
class Moments {
 public:
  /// `names[i]` belongs to `masters[i]`, in the optimizer's own order of parameters or any other.
  /// Throws `Failure(usage)` for an optimizer whose state is not known here, and for SGD with dampening, whose first
  /// step treats a moment of zeros differently from none.
  Moments(torch::optim::Optimizer& optimizer, const Schema& parameters, const std::vector<at::Tensor>& masters);

  /// Named `exp_avg/albert.pooler.weight`: first all of one moment, then all of the next. Role `statistic`.
  const Schema& schema() const noexcept { return schema_; }
  const std::vector<std::span<float>>& values() const noexcept { return values_; }

  /// Steps taken so far, of which bias corrections depend; the same for all parameters.
  std::uint64_t steps() const;
  void set_steps(std::uint64_t steps);

 private:
  torch::optim::Optimizer* optimizer_;
  std::vector<at::Tensor> masters_;
  Schema schema_;
  std::vector<std::span<float>> values_;
};

}  // namespace collab::optim
