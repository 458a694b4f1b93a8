#pragma once
// What the last rounds committed, so that a peer who missed one applies the same step instead of fetching the state.

#include "base/bytes.hpp"

#include <cstdint>
#include <map>
#include <memory>

namespace collab::state {

/// Opaque bytes by epoch. Thread safety: none; belongs to the node's loop.
class ResultKeeper {
 public:
  static constexpr std::size_t kEpochsMin = 2;  ///< kept whatever their size

  explicit ResultKeeper(std::size_t bytes_max = std::size_t(64) << 20U) : bytes_max_(bytes_max) {}

  /// The last word about an epoch counts. Older ones go while all together are over `bytes_max`.
  void keep(std::uint64_t epoch, std::shared_ptr<const Bytes> result);
  /// Null when it is not kept.
  std::shared_ptr<const Bytes> find(std::uint64_t epoch) const;
  std::size_t epochs() const noexcept { return results_.size(); }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::size_t bytes_max_;
  std::size_t bytes_ = 0;
  std::map<std::uint64_t, std::shared_ptr<const Bytes>> results_;
};

}  // namespace collab::state
