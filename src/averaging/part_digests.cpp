#include "averaging/part_digests.hpp"

namespace collab::averaging {
namespace {

Digest hash(std::span<const std::byte> payload) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(payload.data());
  return Hasher("collab part chunk").add(std::span(bytes, payload.size())).finish();
}

}  // namespace

Digest PartDigests::digest(Rank segment, std::span<const Digest> chunks) const {
  Hasher hasher("collab part");
  hasher.add(shape_.group.codec_map).add(std::uint64_t(segment)).add(std::uint64_t(chunks.size()));
  for (const Digest& chunk : chunks) hasher.add(chunk);
  return hasher.finish();
}

void PartDigests::scatter(const Contribution& own) {
  if (!guard_.wants_part_digests() || own.weights.none()) return;
  std::vector<Digest> parts;
  for (const Rank segment : shape_.members.segments) {
    std::vector<Digest> chunks;
    for (std::size_t i = 0; i < shape_.partition.chunks(segment); ++i) {
      const Range range = shape_.partition.chunk(segment, i);
      const auto values = own.values.subspan(range.begin, range.size);
      chunks.push_back(hash(shape_.part_codecs().encode(values, range.begin, own.part).value()));
    }
    parts.push_back(digest(segment, chunks));
  }
  guard_.before_scatter(parts);
}

void PartDigests::received(Rank from, const wire::Part& part, std::span<const std::byte> payload) {
  if (!guard_.wants_part_digests() || part.weight == 0) return;
  const auto [at, is_new] = received_.try_emplace({from, part.segment});
  Received& received = at->second;
  if (is_new) {
    received.missing = shape_.partition.chunks(part.segment);
    received.chunks.resize(received.missing);
  }
  received.chunks.at(part.chunk) = hash(payload);
  if (--received.missing == 0) guard_.on_part(from, part.segment, digest(part.segment, received.chunks));
}

}  // namespace collab::averaging
