#pragma once
// What a joiner needs: everything that makes two peers of one epoch equal.

#include "base/bytes.hpp"
#include "crypto/hash.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace collab::state {

inline constexpr std::size_t kChunkBytes = std::size_t(1) << 20U;  ///< a section travels and is checked in such pieces

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
  std::vector<Digest> chunks;  ///< BLAKE2b-256 of each chunk of kChunkBytes, the last may be short

  Digest hash() const;  ///< over (bytes, chunks)
  bool operator==(const SectionIndex&) const = default;
};

struct Index {
  std::uint64_t epoch = 0;
  std::vector<SectionIndex> sections;

  Digest root() const;  ///< over (epoch, each section's name and hash)
  bool operator==(const Index&) const = default;
};

SectionIndex index_section(std::string name, std::span<const std::byte> bytes);
Index index_snapshot(const Snapshot&);

/// The hash that progress records carry: equal to `index_section("parameters", bytes).hash()`.
Digest parameter_hash(std::span<const float> parameters);

}  // namespace collab::state
