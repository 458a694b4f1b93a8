#pragma once
// LAMB (arXiv:1904.00962) as arithmetic on flat memory: the same bits on every machine and number of threads.

#include <cstdint>
#include <span>

namespace collab::optim {

struct LambOptions {
  double learning_rate = 1e-3;  ///< of the optimizer on its own; a `Stepper` with a schedule replaces it each epoch
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  double weight_decay = 0.01;  ///< not for tensors of rank below 2: biases and LayerNorm
  double clamp = 1e4;          ///< bound of a tensor's norm in the trust ratio
};

/// One tensor's values, all of one length; nothing overlaps.
struct LambTensor {
  std::span<float> parameters;
  std::span<float> gradients;   ///< read, then overwritten by the update u: it needs a place, and this is free
  std::span<float> exp_avg;     ///< m
  std::span<float> exp_avg_sq;  ///< v
  bool decay = true;
};

/// Step `step` (from 1) with rate `learning_rate`:
///
///   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  u = (m / (1 - b1^step)) / (sqrt(v / (1 - b2^step)) + eps) + wd p
///   p -= learning_rate * u * min(|p|, clamp) / |u|          the ratio is 1 when either norm is 0
///
/// Values in float32, norms in float64, no fused multiply-add, no library function but the square root, which IEEE 754
/// rounds correctly. Where the paper bounds the norm from both sides we only have the upper bound.
void lamb_update(const LambTensor& tensor, std::uint64_t step, double learning_rate, const LambOptions& options);

}  // namespace collab::optim
