#pragma once
// Whether a committed round says what its senders had: recomputed slowly, in the obvious way.

#include "averaging/committed_round.hpp"
#include "tensor/codec.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace collab::sim {

/// What a groupmate handed over.
struct Contribution {
  std::uint64_t weight = 0;
  std::span<const float> values;
};

/// Every chunk must be, to the bit, the encoded weighted mean, in reduction order, of exactly the encoded parts of the
/// senders it names, and carry the sum of their weights. `of`: by rank; null for a peer that handed nothing over.
/// Empty, or what is wrong.
std::string wrong_mean(const averaging::CommittedRound& round, const CodecMap& codecs,
                       const std::function<const Contribution*(averaging::Rank)>& of);
/// Ranks whose part is in at least one chunk.
averaging::Ranks senders_of(const averaging::SegmentResult& segment);

}  // namespace collab::sim
