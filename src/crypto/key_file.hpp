#pragma once
// The file rules of an identity: one line `collab-ed25519-v1 <base32 of the seed>`, for the owner's eyes, never
// overwritten.

#include "base/error.hpp"
#include "crypto/identity.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

namespace collab::key_file {

/// Owns an open file; -1: none.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) noexcept : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor();
  int number() const noexcept { return number_; }
  int release() noexcept { return std::exchange(number_, -1); }

 private:
  int number_;
};

/// Why no key may be kept in `folder`: others may write to it. Nothing: they may not, or there is no such folder.
std::optional<Failure> folder_problem(const std::filesystem::path& folder);

/// Takes the lock beside `file` (`<file>.lock`, with the holder's pid in it), and makes the folder (0700) if there is
/// none. The lock ends with the descriptor. Whoever only asks for the `holder` has it for a moment, so a lock that is
/// held is tried again, three times within 60 ms. Throws `Failure(machine)`.
Descriptor lock(const std::filesystem::path& file);

/// Who holds that lock now: "pid 4711", or "another process" when it is not named; nothing: nobody. Makes and writes
/// nothing; a lock that cannot be looked at counts as not held. Throws `Failure(machine)` when the file cannot be read.
std::optional<std::string> holder(const std::filesystem::path& file);

/// Nothing when there is no such file. Throws `Failure(machine)` when it is readable by others, torn or of an unknown
/// version.
std::optional<Identity::Seed> read(const std::filesystem::path& file);

/// Writes a new file durably: a crash leaves all of it or none. Only under the lock, and only where `read` found
/// nothing. Throws `Failure(machine)`, also when there is a file after all: it stays as it is.
void write(const std::filesystem::path& file, const Identity::Seed& seed);

}  // namespace collab::key_file
