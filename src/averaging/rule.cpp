#include "averaging/rule.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace collab::averaging {
namespace {

constexpr std::size_t kBlock = 512;  // sums of one block stay in the first cache
using Sums = std::array<double, kBlock>;

// A block of constant length becomes vector code at -O2; the order of the additions to one value stays as written.
void add_block(Sums& sums, const float* values, double weight) {
  for (std::size_t i = 0; i < kBlock; ++i) sums[i] += weight * static_cast<double>(values[i]);
}

void divide_block(const Sums& sums, double total, float* out) {
  for (std::size_t i = 0; i < kBlock; ++i) out[i] = static_cast<float>(sums[i] / total);
}

class WeightedMean final : public Rule {
 public:
  std::string_view name() const noexcept override { return "mean"; }
  bool streaming() const noexcept override { return true; }

  void reduce(std::span<const WeightedPart> parts, std::span<float> out) const override {
    std::uint64_t weights = 0;
    for (const WeightedPart& part : parts) weights += part.weight;
    const auto total = static_cast<double>(weights);
    Sums sums;
    for (std::size_t begin = 0; begin < out.size(); begin += kBlock) {
      const std::size_t size = std::min(kBlock, out.size() - begin);
      sums.fill(0.0);
      for (const WeightedPart& part : parts) {
        const auto weight = static_cast<double>(part.weight);
        const float* values = part.values.data() + begin;
        if (size == kBlock) {
          add_block(sums, values, weight);
        } else {
          for (std::size_t i = 0; i < size; ++i) sums[i] += weight * static_cast<double>(values[i]);
        }
      }
      if (size == kBlock) {
        divide_block(sums, total, out.data() + begin);
      } else {
        for (std::size_t i = 0; i < size; ++i) out[begin + i] = static_cast<float>(sums[i] / total);
      }
    }
  }
};

}  // namespace

const Rule& weighted_mean() noexcept {
  static const WeightedMean rule;
  return rule;
}

}  // namespace collab::averaging
