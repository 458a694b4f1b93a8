#pragma once
// What a joiner needs: everything that makes two peers of one epoch equal.

#include "base/bytes.hpp"
#include "crypto/hash.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace collab::state {

/// A section travels and is checked in such pieces: a quarter of a frame, so that a small state still spreads over
/// several donors, and the index of 4 GiB (512 KiB of hashes) fits in one frame.
inline constexpr std::size_t kChunkBytes = std::size_t(256) << 10U;
inline constexpr std::size_t kSectionsMax = 64;
inline constexpr std::size_t kSectionNameBytesMax = 64;
inline constexpr std::uint64_t kIndexedBytesMax = std::uint64_t(4) << 30U;  ///< of all sections together

/// Named bytes: "parameters" (the flat vector, float32, little endian), "optimizer", "schedule", "ledger", …
struct Section {
  std::string name;
  Bytes bytes;
};

/// Taken at one moment between two steps; never changed afterwards, so it may be served while training goes on.
struct Snapshot {
  std::uint64_t epoch = 0;
  std::vector<Section> sections;  ///< "parameters" is the first

  const Section* find(std::string_view name) const noexcept;  ///< null when absent
};

/// What is known of a section before it is downloaded.
struct SectionIndex {
  std::string name;
  std::uint64_t bytes = 0;
  std::vector<Digest> chunks;  ///< `chunk_hash` of each chunk of kChunkBytes, the last may be short

  Digest hash() const;  ///< over (bytes, chunks): the name is not in it, so equal contents have equal hashes
  bool operator==(const SectionIndex&) const = default;
};

/// One chunk among all chunks of an index, which are numbered through from the first section to the last.
struct ChunkPlace {
  std::size_t section = 0;
  std::uint64_t offset = 0;  ///< in the section
  std::size_t bytes = 0;     ///< 1..kChunkBytes
  Digest hash{};
};

/// Names every byte of something that is fetched in chunks: a snapshot, the result of a round, a file.
struct Index {
  std::uint64_t epoch = 0;
  std::vector<SectionIndex> sections;

  Digest root() const;  ///< over (epoch, each section's name and hash)
  std::uint64_t bytes() const noexcept;
  std::size_t chunks() const noexcept;
  /// `chunk` < chunks().
  ChunkPlace place(std::size_t chunk) const noexcept;
  bool operator==(const Index&) const = default;
};

/// How many chunks so many bytes make.
constexpr std::uint64_t chunks_of(std::uint64_t bytes) noexcept {
  return bytes / kChunkBytes + (bytes % kChunkBytes != 0 ? 1 : 0);
}
Digest chunk_hash(std::span<const std::byte> chunk);
/// The hash of a file or any other bytes: equal to `index_section(name, bytes).hash()`.
Digest content_hash(std::span<const std::byte> bytes);

SectionIndex index_section(std::string name, std::span<const std::byte> bytes);
Index index_snapshot(const Snapshot&);

/// The hash that progress records carry: `content_hash` of the values, little endian.
Digest parameter_hash(std::span<const float> parameters);

}  // namespace collab::state
