#pragma once
// The encoded average of one segment, as its owner sent it: what is hashed, held, repeated and finally decoded.

#include "averaging/round_work.hpp"
#include "averaging/shape.hpp"
#include "averaging/wire.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace collab::averaging {

class SegmentResult {
 public:
  struct Chunk {
    Frame frame;                         ///< the Average as it travelled; null: not here yet
    std::span<const std::byte> payload;  ///< inside `frame`
    Ranks senders = 0;
    std::uint64_t weight = 0;               ///< the smallest of its units
    std::vector<wire::UnitWeight> weights;  ///< of its units, where they differ
    Digest digest{};                        ///< of the payload
    bool names_work = false;                ///< that of the whole segment
    Ranks overlapping = 0;                  ///< as it said
  };

  /// `segment`: its rank; it has values. `shape` outlives the result.
  SegmentResult(const Shape& shape, Rank segment);

  /// Takes an Average of this segment, from anyone; `payload` lies in `frame`.
  /// Errors: `bad_request` for a chunk, size, set of senders, weight or work that no owner sends, a value that is not
  /// finite, or a chunk that differs from the one that is here; `stale` for one that equals it.
  Result<> add(const wire::Average& average, const Frame& frame, std::span<const std::byte> payload);
  /// The same for a chunk that this peer has just encoded: not decoded to see whether it can be.
  void add_own(const wire::Average& average, const Frame& frame, std::span<const std::byte> payload);

  bool complete() const noexcept { return missing_ == 0; }
  std::size_t missing() const noexcept { return missing_; }
  const std::vector<Chunk>& chunks() const noexcept { return chunks_; }
  /// When complete: what its senders computed, as they told its owner.
  const WorkOfSenders& work() const noexcept { return work_; }
  /// When complete: who is in no chunk because its units are counted already.
  Ranks overlapping() const noexcept;
  /// When complete: hash over the codec map, the segment, each chunk's senders, weights and bytes, and the work.
  Digest digest() const;
  /// When complete: the smallest of its chunks.
  std::uint64_t weight() const noexcept;
  /// When complete: `vector` is the whole flat vector, of which this fills the segment; a chunk of weight 0 with zeros.
  void decode_into(std::span<float> vector) const;

 private:
  void keep(const wire::Average& average, const Frame& frame, std::span<const std::byte> payload, const Digest& digest,
            WorkOfSenders work);

  const Shape* shape_;
  Rank segment_;
  std::vector<Chunk> chunks_;
  std::size_t missing_ = 0;
  Ranks senders_ = 0;  ///< of any chunk
  WorkOfSenders work_;
};

}  // namespace collab::averaging
