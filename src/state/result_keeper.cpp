#include "state/result_keeper.hpp"

#include <utility>

namespace collab::state {

void ResultKeeper::keep(std::uint64_t epoch, KeptResult result) {
  KeptResult& slot = results_[epoch];
  bytes_ += result.size - slot.size;
  slot = std::move(result);
  while (results_.size() > kEpochsMax || (bytes_ > bytes_max_ && results_.size() > kEpochsMin)) {
    bytes_ -= results_.begin()->second.size;
    results_.erase(results_.begin());
  }
}

const KeptResult* ResultKeeper::find(std::uint64_t epoch) const {
  const auto found = results_.find(epoch);
  return found == results_.end() ? nullptr : &found->second;
}

}  // namespace collab::state
