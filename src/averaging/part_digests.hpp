#pragma once
// Parts in one word each, for guards that compare what was promised with what came.

#include "averaging/guard.hpp"
#include "averaging/segment_reducer.hpp"

#include <map>
#include <span>
#include <utility>
#include <vector>

namespace collab::averaging {

/// Does nothing for a guard that wants no digests.
class PartDigests {
 public:
  /// Both outlive it.
  PartDigests(const Shape& shape, Guard& guard) : shape_(shape), guard_(guard) {}

  /// Before the first part leaves: encodes all of them once more, only to hash them.
  void scatter(const Contribution& own);
  /// A chunk was taken; tells the guard when it was the sender's last of that segment.
  void received(Rank from, const wire::Part& part, std::span<const std::byte> payload);
  /// Another view: parts come again.
  void restart() { received_.clear(); }

 private:
  struct Received {
    std::vector<Digest> chunks;
    std::size_t missing = 0;
  };
  Digest digest(Rank segment, std::span<const Digest> chunks) const;

  const Shape& shape_;
  Guard& guard_;
  std::map<std::pair<Rank, Rank>, Received> received_;  // by sender and segment
};

}  // namespace collab::averaging
