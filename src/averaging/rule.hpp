#pragma once
// What "average" means.

#include <cstdint>
#include <span>
#include <string_view>

namespace collab::averaging {

struct WeightedPart {
  std::uint64_t weight = 0;       ///< samples; positive
  std::span<const float> values;  ///< finite, as many as the others have
};

/// A pure function of its arguments: equal parts in equal order give equal bits on every machine.
class Rule {
 public:
  virtual ~Rule() = default;
  virtual std::string_view name() const noexcept = 0;
  /// True: each value depends on the parts of that value alone, so chunks are reduced as they come. False: `reduce`
  /// sees whole segments.
  virtual bool streaming() const noexcept = 0;
  /// `parts`, at least one, are in reduction order; `out` is as long as each of them and touches none.
  virtual void reduce(std::span<const WeightedPart> parts, std::span<float> out) const = 0;
};

/// Per value: float(sum of double(weight) * double(x) in order / double(sum of weights)).
const Rule& weighted_mean() noexcept;

}  // namespace collab::averaging
