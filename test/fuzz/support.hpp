#pragma once
// What fuzz targets need: the head of a target; a promise that ends the process when it is broken, so that the fuzzer
// keeps the input; a way to cut an input; a file whose content is the input.

#include "base/bytes.hpp"

#include <concepts>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string_view>

/// The head of a target's body, which takes one input, `size` bytes from `data` on, and returns 0. A target is a
/// program of its own under the fuzzer. To replay their corpora all are in one program, so each is in a namespace of
/// its own.
#ifdef COLLAB_FUZZ_REPLAY
#define COLLAB_FUZZ_TARGET(name)                              \
  int take_input(const std::uint8_t* data, std::size_t size); \
  const bool replayed = add_target(#name, take_input);        \
  int take_input(const std::uint8_t* data, std::size_t size)
#else
#define COLLAB_FUZZ_TARGET(name) extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
#endif

namespace collab::fuzz {

/// Makes a target known to the program that replays corpora.
bool add_target(std::string_view name, int (*take_input)(const std::uint8_t* data, std::size_t size));

inline void require(bool holds) {
  if (!holds) std::abort();
}

inline std::span<const std::byte> bytes_of(const std::uint8_t* data, std::size_t size) {
  return std::as_bytes(std::span(data, size));
}
inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Cuts an input from its front. Past its end numbers are 0 and pieces empty.
class Input {
 public:
  explicit Input(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <std::unsigned_integral T>
  T number() {
    T value = 0;
    const auto raw = bytes(sizeof(T));
    for (std::size_t i = 0; i < raw.size(); ++i) value |= static_cast<T>(static_cast<T>(raw[i]) << (8 * i));
    return value;
  }
  std::span<const std::byte> bytes(std::size_t count) {
    const auto front = rest_.first(std::min(count, rest_.size()));
    rest_ = rest_.subspan(front.size());
    return front;
  }
  /// u16 length, then the bytes.
  std::span<const std::byte> piece() { return bytes(number<std::uint16_t>()); }
  std::span<const std::byte> rest() const { return rest_; }
  bool empty() const { return rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
};

/// A file in memory, for parsers that open one. Mode 0600.
class InputFile {
 public:
  InputFile();
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  /// From now on the file holds these bytes.
  void put(std::span<const std::byte> bytes);
  const std::filesystem::path& path() const { return path_; }

 private:
  int number_;
  std::filesystem::path path_;
};

/// A folder in memory where the system has one, gone at the end.
class InputFolder {
 public:
  InputFolder();
  ~InputFolder();
  InputFolder(const InputFolder&) = delete;
  InputFolder& operator=(const InputFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void put(const char* name, std::span<const std::byte> bytes) const;

 private:
  std::filesystem::path path_;
};

/// Bytes that were asked for since the process began. Under ASan all of them, else those of operator new.
std::size_t allocated_bytes();

/// Requires at its end that an input made nobody ask for more memory than `bytes_max`: a hostile length is no
/// allocation.
class AllocationBound {
 public:
  explicit AllocationBound(std::size_t bytes_max) : most_(allocated_bytes() + bytes_max) {}
  ~AllocationBound() { require(allocated_bytes() <= most_); }
  AllocationBound(const AllocationBound&) = delete;
  AllocationBound& operator=(const AllocationBound&) = delete;

 private:
  std::size_t most_;
};

}  // namespace collab::fuzz
