#pragma once
// Walks a flat vector in blocks of fixed size on libtorch's threads; only sources of `optim` include this.

#include "optim/norm.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <vector>

namespace collab::optim {

/// Calls `work(begin, size)` for every block, on any thread and in any order.
template <class Work>
void for_each_block(std::size_t values, const Work& work) {
  constexpr std::int64_t kBlocksPerTask = 16;  // below this a thread costs more than it saves
  const std::size_t blocks = (values + kBlockValues - 1) / kBlockValues;
  at::parallel_for(0, static_cast<std::int64_t>(blocks), kBlocksPerTask, [&](std::int64_t first, std::int64_t last) {
    for (auto block = static_cast<std::size_t>(first); block < static_cast<std::size_t>(last); ++block) {
      const std::size_t begin = block * kBlockValues;
      work(begin, std::min(kBlockValues, values - begin));
    }
  });
}

/// Adds up what `work(begin, size)` returns, in the order of the blocks whatever thread had them.
template <class Work>
double sum_over_blocks(std::size_t values, const Work& work) {
  std::vector<double> sums((values + kBlockValues - 1) / kBlockValues);
  for_each_block(values, [&](std::size_t begin, std::size_t size) { sums[begin / kBlockValues] = work(begin, size); });
  double sum = 0;
  for (const double part : sums) sum += part;
  return sum;
}

/// The lanes are written out because the compiler may not reorder a sum by itself, and so that every compiler has the
/// same order.
inline double block_sum_of_squares(const float* values, std::size_t size) noexcept {
  std::array<double, 8> lanes{};
  std::size_t i = 0;
  for (; i + lanes.size() <= size; i += lanes.size())
    for (std::size_t k = 0; k < lanes.size(); ++k) {
      const auto value = static_cast<double>(values[i + k]);
      lanes[k] += value * value;
    }
  double sum = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
  for (; i < size; ++i) sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  return sum;
}

}  // namespace collab::optim
