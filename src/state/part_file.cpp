#include "state/part_file.hpp"

#include "base/file.hpp"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

namespace collab::state {

PartFile::PartFile(std::filesystem::path file, std::uint64_t bytes) : file_(std::move(file)), descriptor_(-1) {
  std::error_code error;
  if (file_.has_parent_path()) std::filesystem::create_directories(file_.parent_path(), error);
  if (error) fail_file("make the folder of", file_, error.value());
  descriptor_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail_file("write", file_, errno);
  if (::ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) {
    const int reason = errno;
    ::close(descriptor_);
    fail_file("write", file_, reason);
  }
}

PartFile::~PartFile() {
  ::close(descriptor_);
}

void PartFile::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail_file("write", file_, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
    offset += static_cast<std::uint64_t>(put);
  }
}

void PartFile::read(std::uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail_file("read", file_, got < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

void PartFile::finish(const std::filesystem::path& target) {
  if (::fsync(descriptor_) != 0) fail_file("write", file_, errno);
  if (::rename(file_.c_str(), target.c_str()) != 0) fail_file("write", target, errno);
  sync_folder(target.has_parent_path() ? target.parent_path() : ".");
}

void PartFile::remove() {
  if (::unlink(file_.c_str()) != 0) fail_file("remove", file_, errno);
}

}  // namespace collab::state
