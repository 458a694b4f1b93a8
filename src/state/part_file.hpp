#pragma once
// A file that fills up in any order and gets its name when it is whole.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace collab::state {

/// Holds no list of what is in it: after a crash whoever knows the hashes reads it and sees. Everything throws
/// `Failure(machine)` when the disk does not want to. Writes to different places may run on different threads.
class PartFile {
 public:
  /// Opens or makes `file`, `bytes` long; what is not written yet reads as zeros and takes no space.
  PartFile(std::filesystem::path file, std::uint64_t bytes);
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  void write(std::uint64_t offset, std::span<const std::byte> bytes);
  void read(std::uint64_t offset, std::span<std::byte> bytes) const;
  /// fsync, rename to `target`, fsync of the folder.
  void finish(const std::filesystem::path& target);
  void remove();

 private:
  std::filesystem::path file_;
  int descriptor_;
};

}  // namespace collab::state
