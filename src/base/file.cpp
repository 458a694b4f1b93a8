#include "base/file.hpp"

#include "base/error.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

namespace collab {
namespace {

/// Closes what it holds, and says so when that fails: some file systems report a full disk only there.
class Descriptor {
 public:
  explicit Descriptor(int number) noexcept : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const noexcept { return number_; }
  bool close() noexcept {
    const int number = number_;
    number_ = -1;
    return ::close(number) == 0;
  }

 private:
  int number_;
};

void write_all(int descriptor, std::span<const std::byte> bytes, const std::filesystem::path& file) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(descriptor, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail_file("write", file, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
}

}  // namespace

std::string file_stamp(const std::filesystem::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return "-";
  return fmt::format("{} {} {}.{}", status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

void fail_file(std::string_view verb, const std::filesystem::path& path, int error) {
  const char* remedy = error == ENOSPC || error == EDQUOT ? "free some disk space, or choose another --home"
                       : error == EFBIG && verb == "read" ? "it is no file of this program; move it away"
                       : error == EFBIG                   ? "allow larger files (ulimit -f), or choose another --home"
                                                          : "check the permissions, or choose another --home";
  throw Failure(ExitCode::machine, fmt::format("cannot {} {}: {}", verb, path.string(), std::strerror(error)), remedy);
}

Bytes read_file(const std::filesystem::path& file, std::size_t bytes_max) {
  const Descriptor in(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (in.get() < 0) fail_file("read", file, errno);
  Bytes bytes;
  for (;;) {
    const std::size_t have = bytes.size();
    bytes.resize(have + (std::size_t(64) << 10U));
    const ssize_t got = ::read(in.get(), bytes.data() + have, bytes.size() - have);
    if (got < 0 && errno == EINTR) {
      bytes.resize(have);
      continue;
    }
    if (got < 0) fail_file("read", file, errno);
    bytes.resize(have + static_cast<std::size_t>(got));
    if (bytes.size() > bytes_max) fail_file("read", file, EFBIG);
    if (got == 0) return bytes;
  }
}

void write_file(const std::filesystem::path& file, std::span<const std::span<const std::byte>> pieces) {
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail_file("make the folder", folder, error.value());
  static std::atomic<unsigned> written{0};  // two threads may write the same file
  const std::filesystem::path temp = file.string() + fmt::format(".new-{}-{}", ::getpid(), written++);
  try {
    Descriptor out(::open(temp.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (out.get() < 0) fail_file("write", file, errno);
    for (const auto piece : pieces) write_all(out.get(), piece, file);
    if (::fsync(out.get()) != 0 || !out.close()) fail_file("write", file, errno);
    if (::rename(temp.c_str(), file.c_str()) != 0) fail_file("write", file, errno);
  } catch (...) {
    ::unlink(temp.c_str());
    throw;
  }
  sync_folder(folder);
}

void write_file(const std::filesystem::path& file, std::span<const std::byte> bytes) {
  write_file(file, std::span(&bytes, 1));
}

void write_file(const std::filesystem::path& file, std::string_view text) {
  write_file(file, std::as_bytes(std::span(text)));
}

void sync_folder(const std::filesystem::path& folder) {
  const Descriptor at(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (at.get() < 0 || ::fsync(at.get()) != 0) fail_file("write", folder, errno);
}

}  // namespace collab
