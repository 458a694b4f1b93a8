#include "state/result_keeper.hpp"

#include <algorithm>
#include <utility>

namespace collab::state {

void ResultKeeper::keep(std::uint64_t epoch, KeptResult result, TimePoint now) {
  Kept& slot = results_[epoch];
  bytes_ += result.size - slot.result.size;
  slot = {std::move(result), now};
  while (must_go(results_.begin()->second, now)) {
    bytes_ -= results_.begin()->second.result.size;
    results_.erase(results_.begin());
  }
}

bool ResultKeeper::must_go(const Kept& oldest, TimePoint now) const {
  if (results_.size() <= kEpochsMin) return false;
  return results_.size() > kEpochsMax || bytes_ > bytes_max_ || now - oldest.since > kAgeMax;
}

std::size_t ResultKeeper::epochs_kept(std::size_t bytes) const noexcept {
  return std::clamp(bytes_max_ / std::max<std::size_t>(bytes, 1), kEpochsMin, kEpochsMax);
}

const KeptResult* ResultKeeper::find(std::uint64_t epoch) const {
  const auto found = results_.find(epoch);
  return found == results_.end() ? nullptr : &found->second.result;
}

}  // namespace collab::state
