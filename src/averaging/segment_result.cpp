#include "averaging/segment_result.hpp"

#include "averaging/weights.hpp"

#include <algorithm>
#include <array>
#include <cassert>

namespace collab::averaging {
namespace {

Digest hash_payload(std::span<const std::byte> payload) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(payload.data());
  return Hasher("collab chunk").add(std::span(bytes, payload.size())).finish();
}

/// Whether the bytes decode: a unit at a time, so the values never leave the cache.
bool decodes(const CodecMap& codecs, Range range, std::span<const std::byte> payload) {
  if (payload.size() != codecs.encoded_bytes(range)) return false;
  std::array<float, kUnitValues> values;
  for (std::size_t begin = range.begin; begin < range.end(); begin += kUnitValues) {
    const Range unit{begin, std::min(kUnitValues, range.end() - begin)};
    const std::size_t bytes = codecs.encoded_bytes(unit);
    if (!codecs.decode(payload.first(bytes), unit.begin, std::span(values).first(unit.size))) return false;
    payload = payload.subspan(bytes);
  }
  return true;
}

/// Nobody is said to have computed anything who is in no chunk, and no unit is counted twice.
bool adds_up(const Members& members, const WorkOfSenders& work, Ranks senders) {
  for (auto one = work.begin(); one != work.end(); ++one) {
    if (!contains(senders, one->first)) return false;
    for (auto before = work.begin(); before != one; ++before)
      if (!contains(members.previous[one->first], before->first) && one->second.overlaps(before->second)) return false;
  }
  return true;
}

}  // namespace

SegmentResult::SegmentResult(const Shape& shape, Rank segment)
    : shape_(&shape), segment_(segment), chunks_(shape.partition.chunks(segment)), missing_(chunks_.size()) {}

Result<> SegmentResult::add(const wire::Average& average, const Frame& frame, std::span<const std::byte> payload) {
  assert(average.segment == segment_);
  if (average.chunk >= chunks_.size()) return Errc::bad_request;
  if (((average.senders | average.overlapping) & ~shape_->members.voters) != 0) return Errc::bad_request;
  if ((average.senders == 0) != (average.weight == 0)) return Errc::bad_request;
  if (average.weight == 0 && !payload.empty()) return Errc::bad_request;
  const Range range = shape_->partition.chunk(segment_, average.chunk);
  if (!fit(average.weight, average.weights, units_in(range))) return Errc::bad_request;
  auto work = from_wire(average.work, work_ranges_max(shape_->members));
  if (!work) return work.error();
  const bool names_work = !work->empty();
  const Chunk& chunk = chunks_[average.chunk];
  const Digest digest = hash_payload(payload);
  if (chunk.frame) {
    const bool same = chunk.digest == digest && chunk.senders == average.senders && chunk.weight == average.weight &&
                      chunk.weights == average.weights && chunk.names_work == names_work &&
                      chunk.overlapping == average.overlapping && (!names_work || *work == work_);
    return same ? Errc::stale : Errc::bad_request;
  }
  if (names_work && !work_.empty()) return Errc::bad_request;
  const bool last = missing_ == 1;
  const Ranks senders = senders_ | average.senders;
  if (last && !adds_up(shape_->members, names_work ? *work : work_, senders)) return Errc::bad_request;
  if (last && ((overlapping() | average.overlapping) & senders) != 0) return Errc::bad_request;
  if (average.weight > 0 && !decodes(shape_->codecs, range, payload)) return Errc::bad_request;
  keep(average, frame, payload, digest, std::move(*work));
  return {};
}

void SegmentResult::keep(const wire::Average& average, const Frame& frame, std::span<const std::byte> payload,
                         const Digest& digest, WorkOfSenders work) {
  const bool names_work = !work.empty();
  chunks_[average.chunk] = {frame,           payload, average.senders, average.weight,
                            average.weights, digest,  names_work,      average.overlapping};
  senders_ |= average.senders;
  if (names_work) work_ = std::move(work);
  --missing_;
}

void SegmentResult::add_own(const wire::Average& average, const Frame& frame, std::span<const std::byte> payload) {
  assert(!chunks_.at(average.chunk).frame);
  keep(average, frame, payload, hash_payload(payload), from_wire(average.work, kRoundWorkRangesMax).value());
}

Digest SegmentResult::digest() const {
  assert(complete());
  Hasher hasher("collab result");
  hasher.add(shape_->group.codec_map).add(std::uint64_t(segment_)).add(std::uint64_t(chunks_.size()));
  for (const Chunk& chunk : chunks_) {
    hasher.add(chunk.senders).add(chunk.overlapping).add(chunk.weight).add(chunk.digest);
    hasher.add(std::uint64_t(chunk.weights.size()));
    for (const wire::UnitWeight& run : chunk.weights) hasher.add(std::uint64_t(run.units)).add(run.weight);
  }
  for (const auto& [rank, units] : work_) {
    hasher.add(std::uint64_t(rank)).add(std::uint64_t(units.ranges().size()));
    for (const WorkRange& range : units.ranges()) hasher.add(range.first).add(range.count);
  }
  return hasher.finish();
}

Ranks SegmentResult::overlapping() const noexcept {
  Ranks ranks = 0;
  for (const Chunk& chunk : chunks_) ranks |= chunk.overlapping;
  return ranks;
}

std::uint64_t SegmentResult::weight() const noexcept {
  std::uint64_t least = ~std::uint64_t(0);
  for (const Chunk& chunk : chunks_) least = std::min(least, chunk.weight);
  return least;
}

void SegmentResult::decode_into(std::span<float> vector) const {
  assert(complete() && vector.size() == shape_->partition.length());
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    const Range range = shape_->partition.chunk(segment_, i);
    const auto values = vector.subspan(range.begin, range.size);
    if (chunks_[i].weight == 0) {  // of nobody: no honest group commits it, but a lying one may have signed it
      std::fill(values.begin(), values.end(), 0.0F);
      continue;
    }
    const auto done = shape_->codecs.decode(chunks_[i].payload, range.begin, values);
    assert(done);  // it decoded when it came
  }
}

}  // namespace collab::averaging
