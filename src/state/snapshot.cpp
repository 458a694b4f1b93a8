#include "state/snapshot.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

namespace collab::state {
namespace {

static_assert(std::endian::native == std::endian::little, "values are hashed and sent as they lie in memory");

std::span<const unsigned char> raw(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()};
}

}  // namespace

const Section* Snapshot::find(std::string_view name) const noexcept {
  const auto found = std::find_if(sections.begin(), sections.end(), [&](const Section& s) { return s.name == name; });
  return found == sections.end() ? nullptr : &*found;
}

Digest SectionIndex::hash() const {
  Hasher hasher("collab.state.section");
  hasher.add(bytes);
  for (const Digest& chunk : chunks) hasher.add(chunk);
  return hasher.finish();
}

Digest Index::root() const {
  Hasher hasher("collab.state.root");
  hasher.add(epoch);
  for (const SectionIndex& section : sections) {
    hasher.add(raw(std::as_bytes(std::span(section.name))));
    hasher.add(section.hash());
  }
  return hasher.finish();
}

std::uint64_t Index::bytes() const noexcept {
  std::uint64_t sum = 0;
  for (const SectionIndex& section : sections) sum += section.bytes;
  return sum;
}

std::size_t Index::chunks() const noexcept {
  std::size_t sum = 0;
  for (const SectionIndex& section : sections) sum += section.chunks.size();
  return sum;
}

ChunkPlace Index::place(std::size_t chunk) const noexcept {
  std::size_t section = 0;
  while (section < sections.size() && chunk >= sections[section].chunks.size())
    chunk -= sections[section++].chunks.size();
  assert(section < sections.size());
  const std::uint64_t offset = std::uint64_t(chunk) * kChunkBytes;
  const auto bytes = std::min<std::uint64_t>(kChunkBytes, sections[section].bytes - offset);
  return {section, offset, static_cast<std::size_t>(bytes), sections[section].chunks[chunk]};
}

Digest chunk_hash(std::span<const std::byte> chunk) {
  return Hasher("collab.state.chunk").add(raw(chunk)).finish();
}

Digest content_hash(std::span<const std::byte> bytes) {
  return index_section({}, bytes).hash();
}

SectionIndex index_section(std::string name, std::span<const std::byte> bytes) {
  SectionIndex section{std::move(name), bytes.size(), {}};
  section.chunks.reserve(static_cast<std::size_t>(chunks_of(bytes.size())));
  for (std::size_t at = 0; at < bytes.size(); at += kChunkBytes)
    section.chunks.push_back(chunk_hash(bytes.subspan(at, std::min(kChunkBytes, bytes.size() - at))));
  return section;
}

Index index_snapshot(const Snapshot& snapshot) {
  Index index{snapshot.epoch, {}};
  for (const Section& section : snapshot.sections) index.sections.push_back(index_section(section.name, section.bytes));
  return index;
}

Digest parameter_hash(std::span<const float> parameters) {
  return content_hash(std::as_bytes(parameters));
}

}  // namespace collab::state
