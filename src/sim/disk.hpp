#pragma once
// What of a simulated peer outlives its process: checkpoints, each there whole or not at all, as state::Checkpoints
// leaves them.

#include "base/clock.hpp"
#include "data/ledger.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace collab::sim {

struct SavedState {
  std::uint64_t epoch = 0;
  std::vector<float> parameters;
  std::vector<float> momentum;
  data::Ledger ledger;
};

/// The last two that were saved. A process that dies while it saves loses that one only; of a disk that did not keep
/// what it promised the newest cannot be read; a full one takes no more.
class Disk {
 public:
  static constexpr Duration kSyncTime = std::chrono::milliseconds(20);

  /// When it is there to stay: now and the time of a sync. On a full disk nothing changes.
  TimePoint save(SavedState state, TimePoint now);
  /// The process has died: what is not there to stay is not there.
  void died(TimePoint now);
  /// The newest is damaged from now on.
  void tear();
  void wipe() { saved_.clear(); }
  void fill(bool full) noexcept { full_ = full; }
  /// Syncs take so long from now on.
  void slow(Duration sync_time) noexcept { sync_time_ = sync_time; }
  /// The newest that is whole; damaged ones are put aside. Nothing: there is none.
  std::optional<SavedState> load();

  std::uint64_t refused() const noexcept { return refused_; }  ///< saves, for it was full
  std::uint64_t damaged() const noexcept { return damaged_; }  ///< that were found so

 private:
  static constexpr std::size_t kKept = 2;
  struct Saved {
    SavedState state;
    TimePoint stays_from{};
    bool torn = false;
  };
  std::deque<Saved> saved_;  // the newest last
  Duration sync_time_ = kSyncTime;
  bool full_ = false;
  std::uint64_t refused_ = 0;
  std::uint64_t damaged_ = 0;
};

}  // namespace collab::sim
