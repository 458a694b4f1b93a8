#pragma once
// What a record begins with, in clear: how long it is.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace collab::net {

inline constexpr std::size_t kRecordBytes = 64 * 1024;  ///< of plaintext, at most, once the handshake is over
inline constexpr std::size_t kRecordHeaderBytes = 4;
inline constexpr std::size_t kRecordTagBytes = 16;

using RecordHeader = std::array<std::byte, kRecordHeaderBytes>;

/// Two bytes, little endian: size of the plaintext, less one; then their complement, big endian. All zero: the last
/// record, which is empty. A length is believed before the tag can prove it, so one that was damaged on the way would
/// have all that follows taken for a part of the record. The complement shows any bits that were flipped but for pairs
/// of them, and of no such pair both are in one column of TCP's sum, which sees the others.
constexpr RecordHeader record_header(std::size_t plaintext_bytes) {
  if (plaintext_bytes == 0) return {};
  const auto less_one = static_cast<std::uint16_t>(plaintext_bytes - 1);
  const auto low = static_cast<std::byte>(less_one & 0xffU);
  const auto high = static_cast<std::byte>(less_one >> 8U);
  return {low, high, ~high, ~low};
}

/// Of the plaintext; nothing: no sealer writes such a header.
constexpr std::optional<std::size_t> plaintext_bytes(std::span<const std::byte, kRecordHeaderBytes> header) {
  if (std::ranges::equal(header, record_header(0))) return 0;
  if (header[2] != ~header[1] || header[3] != ~header[0]) return std::nullopt;
  return 1 + std::to_integer<std::size_t>(header[0]) + (std::to_integer<std::size_t>(header[1]) << 8U);
}

}  // namespace collab::net
