#include "averaging/rule.hpp"

#include "tensor/vector_level.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace collab::averaging {
namespace {

constexpr std::size_t kBlock = 512;  // sums of one block stay in the first cache
using Sums = std::array<double, kBlock>;

// A block of constant length becomes vector code at -O2; the order of the additions to one value stays as written.

template <std::size_t kSize>
[[gnu::always_inline]] inline void add_block(Sums& sums, const float* __restrict values, double weight) {
  for (std::size_t i = 0; i < kSize; ++i) sums[i] += weight * static_cast<double>(values[i]);
}

template <std::size_t kSize>
[[gnu::always_inline]] inline void divide_block(const Sums& sums, double total, float* __restrict out) {
  for (std::size_t i = 0; i < kSize; ++i) out[i] = static_cast<float>(sums[i] / total);
}

template <std::size_t kSize>
[[gnu::always_inline]] inline void mean_of_block(std::span<const WeightedPart> parts, std::size_t begin, double total,
                                                 std::span<float> out) {
  Sums sums;
  std::fill_n(sums.begin(), kSize, 0.0);
  for (const WeightedPart& part : parts)
    add_block<kSize>(sums, part.values.data() + begin, static_cast<double>(part.weight));
  divide_block<kSize>(sums, total, out.data() + begin);
}

[[gnu::always_inline]] inline void mean_of_parts(std::span<const WeightedPart> parts, double total,
                                                 std::span<float> out) {
  std::size_t begin = 0;
  for (; begin + kBlock <= out.size(); begin += kBlock) mean_of_block<kBlock>(parts, begin, total, out);
  for (; begin < out.size(); ++begin) mean_of_block<1>(parts, begin, total, out);
}

// The same operations on longer vectors, so the same bits.
#if defined(__x86_64__)
COLLAB_TARGET_AVX2 void mean_by_avx2(std::span<const WeightedPart> parts, double total, std::span<float> out) {
  mean_of_parts(parts, total, out);
}
#endif

class WeightedMean final : public Rule {
 public:
  std::string_view name() const noexcept override { return "mean"; }
  bool streaming() const noexcept override { return true; }

  void reduce(std::span<const WeightedPart> parts, std::span<float> out) const override {
    std::uint64_t weights = 0;
    for (const WeightedPart& part : parts) weights += part.weight;
    const auto total = static_cast<double>(weights);
#if defined(__x86_64__)
    if (works_here(VectorLevel::avx2)) return mean_by_avx2(parts, total, out);
#endif
    mean_of_parts(parts, total, out);
  }
};

}  // namespace

const Rule& weighted_mean() noexcept {
  static const WeightedMean rule;
  return rule;
}

}  // namespace collab::averaging
