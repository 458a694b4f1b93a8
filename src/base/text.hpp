#pragma once
// Bytes as text and back, and numbers as people read them.

#include "base/bytes.hpp"
#include "base/error.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace collab {

/// Lower-case hexadecimal, two digits a byte.
std::string to_hex(std::span<const unsigned char> bytes);
/// Errors: `bad_request` for an odd length or a digit that is not hexadecimal.
Result<std::vector<unsigned char>> from_hex(std::string_view text);

/// Lower-case base32 of RFC 4648 without padding.
std::string to_base32(std::span<const unsigned char> bytes);
/// Errors: `bad_request` for a foreign letter, an impossible length, or bits left over that are not zero, so that
/// every byte string has exactly one text.
Result<std::vector<unsigned char>> from_base32(std::string_view text);

/// Bytes of the UTF-8 character that `text` begins with; 0 when it begins with none.
std::size_t utf8_character_bytes(std::string_view text);
/// At most the first `bytes_max` bytes, never half a character of UTF-8.
std::string cut_utf8(std::string_view text, std::size_t bytes_max);
/// Whether every byte is a printable ASCII character or a space.
bool is_printable_ascii(std::string_view text);
/// Words of a stranger, fit for a terminal: control characters, and bytes that are no UTF-8, become `?`.
std::string printable(std::string_view text);
/// Whether this character of `utf8_character_bytes` moves the cursor, rings or begins an escape sequence.
bool is_control(std::string_view character);

/// "1.2 MB", "345 B": powers of 1000.
std::string human_bytes(std::uint64_t bytes);
/// "41 s", "3 min 20 s", "2 h 5 min".
std::string human_seconds(double seconds);

/// The entry of `known` that is nearest to `word` by edit distance, or an empty view when none is near.
std::string_view nearest(std::string_view word, std::span<const std::string> known);

}  // namespace collab
