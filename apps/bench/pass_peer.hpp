#pragma once
// What a peer of `collab-bench moshpit` does: pass after pass over a grid, each with groups found anew.

#include "averaging/moshpit.hpp"
#include "workload.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace collab::bench {

struct PassOrder {
  std::uint64_t number = 0;            ///< each once
  std::vector<std::uint32_t> radices;  ///< of the grid
  std::vector<PeerId> peers;           ///< everybody, in any order
  std::uint64_t weight = 0;            ///< samples behind the values
  std::uint64_t weight_max = 0;        ///< that anybody brings
};

struct PassFigures {
  std::size_t rounds_full = 0;  ///< committed in a group of all whom the grid foresaw, with the values of each
  std::size_t rounds = 0;       ///< of the grid
};

/// Thread safety: none; belongs to the node's loop.
class PassPeer {
 public:
  /// What both contexts refer to, and `codecs`, outlive it.
  PassPeer(averaging::Context context, matchmaking::Context searches, const CodecMap& codecs);

  /// Replaces `values` by the weighted mean of everybody's. Errors: those of averaging::Moshpit; `values` unchanged.
  Task<Result<PassFigures>> pass(PassOrder order, std::span<float> values);
  /// Before it is destroyed.
  Task<> stop() { return moshpit_.stop(); }

 private:
  Clock& clock_;
  PeerId self_;
  averaging::Moshpit moshpit_;
};

}  // namespace collab::bench
