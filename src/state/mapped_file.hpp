#pragma once
// A file seen as memory.

#include <cstddef>
#include <filesystem>
#include <span>

namespace collab::state {

/// Read only; immutable and thread-safe. Shortening the file meanwhile ends the process (SIGBUS): replace it by rename.
class MappedFile {
 public:
  /// Throws `Failure(machine)` when it cannot be opened or mapped.
  explicit MappedFile(const std::filesystem::path& file);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace collab::state
