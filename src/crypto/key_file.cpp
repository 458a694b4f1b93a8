#include "crypto/key_file.hpp"

#include "base/text.hpp"

#include <sodium.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace collab::key_file {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFileVersion = "collab-ed25519-v1 ";
constexpr std::size_t kSeedLetters = 52;
constexpr std::size_t kLineBytes = kFileVersion.size() + kSeedLetters + 1;
constexpr int kLockRetries = 3;
constexpr std::chrono::milliseconds kLockPause(20);

[[noreturn]] void fail(const std::string& what, const std::string& remedy) {
  throw Failure(ExitCode::machine, what, remedy);
}

/// For a system call that just failed.
[[noreturn]] void fail_errno(const std::string& action, const fs::path& path) {
  fail(action + " " + path.string() + ": " + std::strerror(errno),
       "give a folder that you may write to with --home, or free space there");
}

fs::path beside(const fs::path& file, const char* suffix) {
  fs::path path = file;
  path += suffix;
  return path;
}

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  if (folder.has_parent_path()) fs::create_directories(folder.parent_path(), error);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) fail_errno("cannot make the folder", folder);
  if (const auto problem = folder_problem(folder)) throw *problem;
}

/// Whether the lock was to be had. A reader of it is gone after a moment, another peer is not.
bool try_lock(int descriptor) {
  for (int tries = 0;; ++tries) {
    if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return true;
    if (errno != EWOULDBLOCK || tries == kLockRetries) return false;
    std::this_thread::sleep_for(kLockPause);  // would change errno, so not after the last try
  }
}

void write_all(int descriptor, std::string_view text, const fs::path& path) {
  while (!text.empty()) {
    const auto written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_errno("cannot write", path);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

/// At most `limit` bytes of the file.
std::string read_some(int descriptor, std::size_t limit, const fs::path& path) {
  std::string text(limit, '\0');
  std::size_t size = 0;
  while (size < limit) {
    const auto got = ::read(descriptor, text.data() + size, limit - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno("cannot read", path);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  text.resize(size);
  return text;
}

/// Whom a lock file names: the pid its holder wrote there.
std::string named_in(int lock_file, const fs::path& path) {
  std::string pid = read_some(lock_file, 20, path);
  pid.resize(std::min(pid.size(), pid.find_first_not_of("0123456789")));
  return pid.empty() ? "another process" : "pid " + pid;
}

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

std::optional<Failure> folder_problem(const fs::path& folder) {
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) return std::nullopt;
  const bool others_write = (status.st_mode & (S_IWGRP | S_IWOTH)) != 0 && (status.st_mode & S_ISVTX) == 0;
  if (!others_write) return std::nullopt;
  return Failure(ExitCode::machine, "others may write to " + folder.string() + ", where this peer's key is kept",
                 "chmod 700 " + folder.string());
}

Descriptor lock(const fs::path& file) {
  make_folder(folder_of(file));
  const fs::path path = beside(file, ".lock");
  Descriptor descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (descriptor.number() < 0) fail_errno("cannot open", path);
  if (!try_lock(descriptor.number())) {
    if (errno != EWOULDBLOCK) fail_errno("cannot lock", path);
    fail("the key " + file.string() + " is in use by " + named_in(descriptor.number(), path),
         "give --home with another folder, or stop that process");
  }
  if (::ftruncate(descriptor.number(), 0) != 0) fail_errno("cannot write", path);
  write_all(descriptor.number(), std::to_string(::getpid()) + "\n", path);
  return descriptor;
}

std::optional<std::string> holder(const fs::path& file) {
  const fs::path path = beside(file, ".lock");
  const Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (descriptor.number() < 0) return std::nullopt;
  const bool held = ::flock(descriptor.number(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  return held ? std::optional(named_in(descriptor.number(), path)) : std::nullopt;
}

std::optional<Identity::Seed> read(const fs::path& file) {
  const Descriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (descriptor.number() < 0 && errno == ENOENT) return std::nullopt;
  if (descriptor.number() < 0) fail_errno("cannot read the key", file);
  struct stat status {};
  if (::fstat(descriptor.number(), &status) != 0) fail_errno("cannot read the key", file);
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    fail("others may read the key " + file.string() + ": whoever has it can be this peer",
         "chmod 600 " + file.string() + ", or move it away to start as a new peer");

  std::string line = read_some(descriptor.number(), kLineBytes + 1, file);
  if (!line.starts_with(kFileVersion)) {
    const bool ours = line.starts_with("collab-");
    fail(file.string() + (ours ? " is of a version that this program does not know" : " is not a key of collab"),
         ours ? "update collab" : "give another file, or move it away to start as a new peer");
  }
  auto bytes = from_base32(std::string_view(line).substr(kFileVersion.size(), kSeedLetters));
  const bool whole =
      line.size() == kLineBytes && line.back() == '\n' && bytes && bytes->size() == Identity::Seed().size();
  if (!whole)
    fail("the key " + file.string() + " is torn", "restore it from a copy, or move it away to start as a new peer");
  Identity::Seed seed;
  std::copy(bytes->begin(), bytes->end(), seed.begin());
  sodium_memzero(bytes->data(), bytes->size());
  sodium_memzero(line.data(), line.size());
  return seed;
}

void write(const fs::path& file, const Identity::Seed& seed) {
  const fs::path draft = beside(file, ".new");
  if (::unlink(draft.c_str()) != 0 && errno != ENOENT) fail_errno("cannot remove", draft);  // of a crash; never used
  std::string line = std::string(kFileVersion) + to_base32(seed) + "\n";
  {
    const Descriptor descriptor(::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (descriptor.number() < 0) fail_errno("cannot make", draft);
    write_all(descriptor.number(), line, draft);
    if (::fsync(descriptor.number()) != 0) fail_errno("cannot write", draft);
  }
  sodium_memzero(line.data(), line.size());
  // a key that appeared meanwhile, by another program or by hand, is never overwritten
  if (::renameat2(AT_FDCWD, draft.c_str(), AT_FDCWD, file.c_str(), RENAME_NOREPLACE) != 0)
    fail_errno("cannot make", file);
  const Descriptor folder(::open(folder_of(file).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.number() < 0 || ::fsync(folder.number()) != 0) fail_errno("cannot write", folder_of(file));
}

}  // namespace collab::key_file
