#pragma once
// Where verification plugs into a round. The default says yes at once and sends nothing.

#include "averaging/members.hpp"
#include "crypto/hash.hpp"

#include <cstdint>
#include <span>

namespace collab::averaging {

struct Verdict {
  enum class Kind : std::uint8_t { use, wait, redo };
  Kind kind = Kind::use;
  Ranks without = 0;  ///< redo: reduce again without these peers; they count as suspected for the rest of the round
};

/// Called on the node's loop, by one round at a time; outlives it. A guard that has to ask others says `wait`, and is
/// asked again at the next event of the round.
class Guard {
 public:
  virtual ~Guard() = default;
  /// Whether `before_scatter` and `on_part` are called: hashing the parts costs a pass over the vector.
  virtual bool wants_part_digests() const { return false; }
  /// What this peer is about to send: one digest per segment of the manifest's order.
  virtual void before_scatter(std::span<const Digest> /*parts*/) {}
  /// A sender's part of a segment that this peer reduces is complete.
  virtual void on_part(Rank /*from*/, Rank /*segment*/, const Digest& /*part*/) {}
  /// The last chunk of a segment that this peer reduced is about to leave.
  virtual void before_gather(Rank /*segment*/, const Digest& /*result*/, Ranks /*senders*/) {}
  /// Everything is here, nothing is accepted yet: one digest per segment.
  virtual Verdict before_use(std::span<const Digest> /*manifest*/) { return {}; }
};

}  // namespace collab::averaging
