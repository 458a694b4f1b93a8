#include "progress/yardsticks.hpp"

#include <algorithm>

namespace collab::progress {
namespace {

/// The lower median of `sorted` without one that is equal to `left_out`; 0 when nothing is left.
template <class Value>
Value median_without(const std::vector<Value>& sorted, const Value* left_out) {
  const std::size_t count = sorted.size() - (left_out == nullptr ? 0 : 1);
  if (sorted.empty() || count == 0) return 0;
  const std::size_t middle = (count - 1) / 2;
  if (left_out == nullptr) return sorted[middle];
  const auto at = std::lower_bound(sorted.begin(), sorted.end(), *left_out) - sorted.begin();
  return sorted[middle + (static_cast<std::size_t>(at) <= middle ? 1 : 0)];
}

}  // namespace

void Yardsticks::add(const Record& told) {
  if (!told.taking_part) return;
  rates_.push_back(told.samples_per_s);
  microbatches_.push_back(told.microbatch);
}

void Yardsticks::sort() {
  std::sort(rates_.begin(), rates_.end());
  std::sort(microbatches_.begin(), microbatches_.end());
}

double Yardsticks::samples_per_s(const Record* of) const {
  return median_without(rates_, of != nullptr && of->taking_part ? &of->samples_per_s : nullptr);
}

std::uint64_t Yardsticks::microbatch(const Record* of) const {
  return median_without(microbatches_, of != nullptr && of->taking_part ? &of->microbatch : nullptr);
}

}  // namespace collab::progress
