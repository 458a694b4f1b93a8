#include "sim/round_check.hpp"

#include "averaging/all_reduce.hpp"
#include "averaging/members.hpp"

#include <fmt/format.h>

#include <cstring>
#include <vector>

namespace collab::sim {
namespace {

using averaging::Rank;
using averaging::SegmentResult;

struct Checked {
  const averaging::Shape& shape;
  const averaging::Members& members;
  const std::function<const Contribution*(Rank)>& of;
  std::span<const float> result;
};

std::string wrong_chunk(const Checked& with, const SegmentResult::Chunk& chunk, Range range) {
  std::uint64_t weight = 0;
  std::vector<double> sum(range.size, 0.0);
  std::vector<float> part(range.size);
  for (const Rank rank : with.members.order) {
    if (!averaging::contains(chunk.senders, rank)) continue;
    const Contribution* from = with.of(rank);
    if (from == nullptr) return fmt::format("rank {} is named as a sender and handed nothing over", rank);
    weight += from->weight;
    const CodecMap& parts = with.shape.part_codecs();
    const EncodeOptions options = averaging::part_options(with.shape.group, with.shape.group.roster[rank].id);
    const auto bytes = parts.encode(from->values.subspan(range.begin, range.size), range.begin, options);
    if (!bytes || !parts.decode(*bytes, range.begin, part)) return fmt::format("rank {}'s part has no code", rank);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(from->weight) * part[i];
  }
  if (weight != chunk.weight) return fmt::format("weight {} is told, {} was handed over", chunk.weight, weight);
  if (weight == 0) return {};
  for (std::size_t i = 0; i < sum.size(); ++i) part[i] = static_cast<float>(sum[i] / static_cast<double>(weight));
  const auto bytes = with.shape.codecs.encode(part, range.begin, EncodeOptions());
  if (!bytes || !with.shape.codecs.decode(*bytes, range.begin, part)) return "the mean has no code";
  if (std::memcmp(part.data(), with.result.data() + range.begin, range.size * sizeof(float)) != 0)
    return "the values are not the mean of the named senders";
  return {};
}

}  // namespace

std::string wrong_mean(const averaging::CommittedRound& round, const CodecMap& codecs,
                       const std::function<const Contribution*(Rank)>& of) {
  const auto shape = averaging::Shape::of(round.group(), codecs);
  if (!shape) return "the group does not fit the vector";
  std::vector<float> result(codecs.length());
  round.apply(result);
  const averaging::Members& members = (*shape)->members;
  const Checked with{**shape, members, of, result};
  for (std::size_t index = 0; index < round.results().size(); ++index) {
    const std::size_t segment = members.segments[index];
    const auto& chunks = round.results()[index].chunks();
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      const std::string wrong = wrong_chunk(with, chunks[i], (*shape)->partition.chunk(segment, i));
      if (!wrong.empty()) return fmt::format("segment {} chunk {}: {}", segment, i, wrong);
    }
  }
  return {};
}

averaging::Ranks senders_of(const averaging::SegmentResult& segment) {
  averaging::Ranks senders = 0;
  for (const auto& chunk : segment.chunks()) senders |= chunk.senders;
  return senders;
}

}  // namespace collab::sim
