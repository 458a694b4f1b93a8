#pragma once
// Which chunk to ask of which donor next: the bookkeeping of one download, without network.

#include "base/clock.hpp"
#include "base/random.hpp"

#include <cstddef>
#include <optional>
#include <set>
#include <vector>

namespace collab::state {

/// Chunks are given out in their order, or in one by chance, which those who give them on to each other need: else all
/// would have the same ones. Near the end, whoever has nothing to do asks once more for what has been under
/// way for three times the usual time, so a slow or silent donor delays nobody; a chunk is asked of at most two donors.
class ChunkPlan {
 public:
  /// `here[i]`: chunk i need not be fetched. `shuffled_by` null: in their order.
  explicit ChunkPlan(const std::vector<bool>& here, Random* shuffled_by = nullptr);

  /// The chunk that `donor` shall be asked for; none when there is nothing to do now: ask again at
  /// `next_repeat(donor)`, or when a chunk has arrived or was given back. `has`: the chunks that it has; null: all.
  std::optional<std::size_t> take(std::size_t donor, TimePoint now, const std::vector<bool>* has = nullptr);
  /// When something that is under way may be asked of `donor` once more.
  TimePoint next_repeat(std::size_t donor, const std::vector<bool>* has = nullptr) const noexcept;
  /// Whether somebody who has these could still give something.
  bool lacks_any(const std::vector<bool>& has) const noexcept;

  /// Bytes came from `donor`. False when they are not needed: another donor's are there or being checked.
  bool arrived(std::size_t chunk, std::size_t donor, TimePoint now);
  /// The outcome of the check of what `arrived`.
  void checked(std::size_t chunk, bool good);
  /// `donor` will not deliver it.
  void give_back(std::size_t chunk, std::size_t donor);

  bool complete() const noexcept { return here_ == chunks_.size(); }
  std::size_t here() const noexcept { return here_; }
  std::size_t under_way() const noexcept { return asked_.size(); }

 private:
  enum class Chunk { wanted, checking, here };
  struct Asked {
    std::size_t chunk;
    std::size_t donor;
    TimePoint since;
  };
  bool may_repeat(const Asked& one, std::size_t donor, const std::vector<bool>* has) const noexcept;
  std::size_t asked_of(std::size_t chunk) const noexcept;
  void forget(std::size_t chunk, std::size_t donor);
  Duration patience() const noexcept;

  std::vector<Chunk> chunks_;
  std::vector<std::size_t> turn_;   // by chunk: when it is its turn
  std::vector<std::size_t> chunk_;  // by turn
  std::set<std::size_t> missing_;   // turns of those that are wanted, and asked of nobody
  std::vector<Asked> asked_;        // in the order of asking; a handful
  std::size_t here_ = 0;
  Duration usual_{};  // smoothed time of a chunk; zero: none has come yet
};

}  // namespace collab::state
