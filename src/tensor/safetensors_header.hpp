#pragma once
// The JSON header of a safetensors file, syntax only.

#include "tensor/safetensors.hpp"

namespace collab::safetensors {

/// As the header says it; nothing is known yet about sizes and places.
struct HeaderEntry {
  std::string name;
  DType dtype = DType::float32;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct Header {
  std::vector<HeaderEntry> entries;
  Metadata metadata;
};

/// Errors: not_json, bad_entry, unknown_dtype, duplicate. Reads event by event, so neither depth nor size of hostile
/// JSON becomes a tree in memory.
boost::system::result<Header, Refusal> parse_header(std::span<const std::byte> json);

/// "F32", as headers name it.
std::string_view header_name(DType dtype) noexcept;

}  // namespace collab::safetensors
