#include "optim/norm.hpp"

#include "optim/blocks.hpp"

#include <cmath>

namespace collab::optim {

double sum_of_squares(std::span<const float> values) {
  return sum_over_blocks(values.size(), [&](std::size_t begin, std::size_t size) {
    return block_sum_of_squares(values.data() + begin, size);
  });
}

double clip_norm(std::span<float> values, double norm_max) {
  const double norm = std::sqrt(sum_of_squares(values));
  if (norm_max <= 0 || !std::isfinite(norm) || norm <= norm_max) return norm;
  const auto scale = static_cast<float>(norm_max / norm);
  for_each_block(values.size(), [&](std::size_t begin, std::size_t size) {
    for (std::size_t i = begin; i < begin + size; ++i) values[i] *= scale;
  });
  return norm;
}

}  // namespace collab::optim
