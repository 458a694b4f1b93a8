#pragma once
// Something that others may fetch in chunks, whatever holds its bytes.

#include "state/snapshot.hpp"

#include <filesystem>
#include <memory>
#include <span>
#include <vector>

namespace collab::state {

/// What is there never changes, so it is served while training goes on; whoever holds the pointer keeps the bytes.
struct Offer {
  Index index;
  Digest root{};
  std::vector<std::span<const std::byte>> sections;  ///< as in `index`; views into `owner`
  std::shared_ptr<const void> owner;
  std::vector<bool> here;  ///< which chunks there are, while it is being fetched; empty: all

  bool has(std::size_t chunk) const noexcept { return here.empty() || here[chunk]; }
  std::span<const std::byte> chunk(const ChunkPlace& place) const noexcept {
    return sections[place.section].subspan(static_cast<std::size_t>(place.offset), place.bytes);
  }
};

/// These hash every byte: about 1 s per GB, so they run on `workers`.
std::shared_ptr<const Offer> offer_snapshot(std::shared_ptr<const Snapshot> snapshot);
std::shared_ptr<const Offer> offer_result(std::uint64_t epoch, Bytes result);
/// The file is mapped, not read: it must not be shortened while it is offered (files of a run are replaced by rename,
/// which leaves the mapping alone). Throws `Failure(machine)` when it cannot be mapped, `Failure(usage)` when it has
/// more than kIndexedBytesMax.
std::shared_ptr<const Offer> offer_file(const std::filesystem::path& file);

}  // namespace collab::state
