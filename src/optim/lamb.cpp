#include "optim/lamb.hpp"

#include "optim/blocks.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace collab::optim {
namespace {

/// By squaring: std::pow may differ in the last bit between machines.
double power(double base, std::uint64_t exponent) noexcept {
  double result = 1;
  for (; exponent != 0; exponent >>= 1U, base *= base)
    if (exponent & 1U) result *= base;
  return result;
}

struct Coefficients {
  float beta1, one_minus_beta1, beta2, one_minus_beta2;
  float inverse_correction1, inverse_correction2;
  float epsilon, weight_decay;
};

Coefficients coefficients(const LambOptions& options, std::uint64_t step, bool decay) noexcept {
  const auto narrow = [](double value) { return static_cast<float>(value); };
  return {narrow(options.beta1),
          narrow(1 - options.beta1),
          narrow(options.beta2),
          narrow(1 - options.beta2),
          narrow(1 / (1 - power(options.beta1, step))),
          narrow(1 / (1 - power(options.beta2, step))),
          narrow(options.epsilon),
          decay ? narrow(options.weight_decay) : 0.0F};
}

/// Moments and u, which replaces the gradient. Pointers that cannot overlap: the loop becomes vector instructions.
void update_block(const float* __restrict parameters, float* __restrict gradients, float* __restrict exp_avg,
                  float* __restrict exp_avg_sq, std::size_t size, const Coefficients& c) noexcept {
  for (std::size_t i = 0; i < size; ++i) {
    const float g = gradients[i];
    const float m = c.beta1 * exp_avg[i] + c.one_minus_beta1 * g;
    const float v = c.beta2 * exp_avg_sq[i] + c.one_minus_beta2 * (g * g);
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
    const float root = std::sqrt(v * c.inverse_correction2) + c.epsilon;
    gradients[i] = (m * c.inverse_correction1) / root + c.weight_decay * parameters[i];
  }
}

double trust_ratio(double parameter_squares, double update_squares, double clamp) noexcept {
  if (parameter_squares == 0 || update_squares == 0) return 1;
  return std::min(std::sqrt(parameter_squares), clamp) / std::sqrt(update_squares);
}

}  // namespace

void lamb_update(const LambTensor& tensor, std::uint64_t step, double learning_rate, const LambOptions& options) {
  const std::size_t size = tensor.parameters.size();
  assert(tensor.gradients.size() == size && tensor.exp_avg.size() == size && tensor.exp_avg_sq.size() == size);
  assert(step > 0);
  const Coefficients c = coefficients(options, step, tensor.decay);
  for_each_block(size, [&](std::size_t begin, std::size_t count) {
    update_block(tensor.parameters.data() + begin, tensor.gradients.data() + begin, tensor.exp_avg.data() + begin,
                 tensor.exp_avg_sq.data() + begin, count, c);
  });
  const double ratio = trust_ratio(sum_of_squares(tensor.parameters), sum_of_squares(tensor.gradients), options.clamp);
  const auto rate = static_cast<float>(learning_rate * ratio);
  for_each_block(size, [&](std::size_t begin, std::size_t count) {
    float* __restrict parameters = tensor.parameters.data() + begin;
    const float* __restrict update = tensor.gradients.data() + begin;
    for (std::size_t i = 0; i < count; ++i) parameters[i] -= rate * update[i];
  });
}

}  // namespace collab::optim
