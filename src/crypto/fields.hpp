#pragma once
// Bytes that are signed: fields in fixed order, little-endian, strings preceded by their length. Never msgpack, which
// has several encodings of one value.

#include "base/bytes.hpp"
#include "base/error.hpp"

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

namespace collab {

class FieldWriter {
 public:
  /// `expected`: bytes in all, or nearly; fewer reallocations, nothing else.
  explicit FieldWriter(std::size_t expected = 0) { bytes_.reserve(expected); }
  template <std::unsigned_integral T>
  FieldWriter& add(T number) {
    std::array<std::byte, sizeof(T)> raw;
    for (std::size_t i = 0; i < sizeof(T); ++i) raw[i] = static_cast<std::byte>(number >> (8 * i) & 0xffU);
    return add_raw(raw);
  }
  /// Without a length: for fields whose size is fixed.
  FieldWriter& add_raw(std::span<const std::byte> bytes);
  /// u8 length, then the text. `text`: at most 255 bytes.
  FieldWriter& add_text(std::string_view text);
  /// u32 length, then the bytes. `bytes`: less than 4 GiB.
  FieldWriter& add_blob(std::span<const std::byte> bytes);

  Bytes finish() { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

/// Reads what a FieldWriter wrote, from any bytes. After the first field that is not there every read gives zero or
/// nothing, and `finish` says so: test once, at the end, before using a value.
class FieldReader {
 public:
  explicit FieldReader(std::span<const std::byte> bytes) noexcept : rest_(bytes) {}

  template <std::unsigned_integral T>
  T take() {
    T number = 0;
    const auto raw = take_raw(sizeof(T));
    for (std::size_t i = 0; i < raw.size(); ++i) number |= static_cast<T>(static_cast<T>(raw[i]) << (8 * i));
    return number;
  }
  /// Views into the bytes that are read.
  std::span<const std::byte> take_raw(std::size_t bytes) noexcept;
  std::string_view take_text() noexcept;
  std::span<const std::byte> take_blob() noexcept;

  /// Errors: `bad_request` when a field was missing or bytes are left over.
  Result<> finish() const;

 private:
  std::span<const std::byte> rest_;
  bool failed_ = false;
};

}  // namespace collab
