#pragma once
// What the last rounds committed, so that a peer who missed one applies the same step instead of fetching the state.

#include "base/bytes.hpp"
#include "base/clock.hpp"

#include <cstdint>
#include <functional>
#include <map>

namespace collab::state {

/// Becomes bytes when somebody asks for it: a copy of all of it, and hardly anybody ever asks.
struct KeptResult {
  std::size_t size = 0;           ///< of what it holds in memory
  std::function<Bytes()> encode;  ///< owns all that it needs; called on any thread
};

/// Opaque results by epoch. Thread safety: none; belongs to the node's loop.
class ResultKeeper {
 public:
  static constexpr std::size_t kEpochsMin = 2;   ///< kept whatever their size
  static constexpr std::size_t kEpochsMax = 64;  ///< kept however small: who missed more has the state sooner,
  static constexpr Duration kAgeMax = std::chrono::minutes(10);  ///< and who was away for longer than this

  explicit ResultKeeper(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  /// The last word about an epoch counts. Older ones go while all together are over `bytes_max`, too many, or too old.
  void keep(std::uint64_t epoch, KeptResult result, TimePoint now);
  /// Null when it is not kept. Valid until the next `keep`.
  const KeptResult* find(std::uint64_t epoch) const;
  std::size_t epochs() const noexcept { return results_.size(); }
  /// For how many epochs results of `bytes` each are kept, unless they grow too old before.
  std::size_t epochs_kept(std::size_t bytes) const noexcept;
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  struct Kept {
    KeptResult result;
    TimePoint since{};
  };
  bool must_go(const Kept& oldest, TimePoint now) const;

  std::size_t bytes_max_;
  std::size_t bytes_ = 0;
  std::map<std::uint64_t, Kept> results_;
};

}  // namespace collab::state
