#pragma once
// A committed round as it is kept for those who were not in it: who took part, why it counts, and the bytes.

#include "averaging/commit.hpp"
#include "averaging/segment_result.hpp"

#include <memory>
#include <span>
#include <vector>

namespace collab::averaging {

/// Immutable. Its frames are shared with what was received: one encoded vector of memory.
class CommittedRound {
 public:
  /// `results`: one per segment, complete, in the order of the manifest; each of them is measured against `shape`.
  CommittedRound(std::shared_ptr<const Shape> shape, wire::Proof proof, std::vector<SegmentResult> results);

  /// From anyone's hands: verifies the group's id, the signatures of a quorum, and that the frames (Averages, in any
  /// order) are what was signed. Errors: `bad_request`, `denied`.
  static Result<std::shared_ptr<const CommittedRound>> verify(const matchmaking::Group& group, const wire::Proof& proof,
                                                              std::span<const Frame> averages, const CodecMap& codecs,
                                                              const SignatureScheme& scheme = ed25519());

  const matchmaking::Group& group() const noexcept { return shape_->group; }
  const Shape& shape() const noexcept { return *shape_; }
  const wire::Proof& proof() const noexcept { return proof_; }
  /// Whose signed Holds prove that they have the result.
  Ranks holders() const noexcept;
  /// Every Average, in order: with group and proof, all that `verify` needs.
  std::vector<Frame> frames() const;
  /// The smallest weight behind a value.
  std::uint64_t weight() const noexcept;
  /// The units that the round counted, proven like its bytes.
  RoundWork work() const;
  /// Writes the whole flat vector: the bytes that every peer of the round ended with.
  void apply(std::span<float> values) const;
  const std::vector<SegmentResult>& results() const noexcept { return results_; }

 private:
  std::shared_ptr<const Shape> shape_;
  wire::Proof proof_;
  std::vector<SegmentResult> results_;
};

/// Hash of a manifest: what a round ended with, in one word.
Digest manifest_digest(const wire::Manifest& manifest);

/// Signatures by `identity`, verified by its scheme against the ids of the roster. Both outlive it.
Seals signed_by(const Identity& identity, const matchmaking::Group& group);
/// The same for a peer that only verifies.
Seals verified_by(const SignatureScheme& scheme, const matchmaking::Group& group);

}  // namespace collab::averaging
