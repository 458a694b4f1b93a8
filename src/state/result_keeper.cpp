#include "state/result_keeper.hpp"

#include <utility>

namespace collab::state {

void ResultKeeper::keep(std::uint64_t epoch, std::shared_ptr<const Bytes> result) {
  auto& slot = results_[epoch];
  if (slot) bytes_ -= slot->size();
  bytes_ += result->size();
  slot = std::move(result);
  while (bytes_ > bytes_max_ && results_.size() > kEpochsMin) {
    bytes_ -= results_.begin()->second->size();
    results_.erase(results_.begin());
  }
}

std::shared_ptr<const Bytes> ResultKeeper::find(std::uint64_t epoch) const {
  const auto found = results_.find(epoch);
  return found == results_.end() ? nullptr : found->second;
}

}  // namespace collab::state
