#pragma once
// Where the chunks of one download are put: memory, a file, or both.

#include "state/offer.hpp"
#include "state/part_file.hpp"
#include "state/snapshot.hpp"

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace collab::state {

struct ShelfOptions {
  bool memory = true;                    ///< the sections are wanted as bytes
  std::filesystem::path folder;          ///< chunks are kept there in one file "<root>.part"; empty: they are not kept
  std::shared_ptr<const Snapshot> have;  ///< chunks that are equal here need not be fetched; may be null
};

/// `open`, then `put` for each chunk, on `workers`; different chunks may be put at a time. Then `take` or `file`.
/// Throws `Failure(machine)` when the folder cannot be written.
class Shelf {
 public:
  explicit Shelf(ShelfOptions options) : options_(std::move(options)) {}

  /// Makes room for everything the index names. Returns which chunks are there already: from an earlier, interrupted
  /// try (each is hashed again, so a damaged file costs nothing but time) or in what we have.
  /// The folder belongs to one download at a time: parts of other roots are removed.
  std::vector<bool> open(const Index& index);
  /// False, and nothing is put, when the bytes are not the chunk's.
  bool put(const ChunkPlace& place, std::span<const std::byte> bytes);

  /// Everything, moved out; the file is removed. Only with `memory`, once all chunks were put.
  Snapshot take();
  /// The same, shared with whoever holds `offer()`.
  std::shared_ptr<const Snapshot> take_shared();
  /// What others may fetch of it while it comes. Only with `memory`, after `open`; `take` is none of its ways to end.
  Offer offer(const Index& index, std::vector<bool> here) const;
  /// The complete file gets this name, on disk for good. Only with `folder`.
  void name_file(const std::filesystem::path& target);
  void remove_file();
  /// Null without `folder`.
  const std::filesystem::path& file() const noexcept { return file_; }

 private:
  bool recall(const ChunkPlace& place, std::vector<std::byte>& buffer);
  void keep_in_memory(const ChunkPlace& place, std::span<const std::byte> bytes);

  ShelfOptions options_;
  std::shared_ptr<Snapshot> snapshot_ = std::make_shared<Snapshot>();  // with `memory`
  std::vector<const Section*> have_;                                   // per section: ours of that name and size
  std::vector<std::uint64_t> section_offset_;                          // in the file
  std::filesystem::path file_;
  std::optional<PartFile> part_;
};

}  // namespace collab::state
