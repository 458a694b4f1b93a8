#pragma once
// What a peer writes into the directory under its key when it looks for a group.

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "matchmaking/group.hpp"

#include <cstdint>
#include <span>
#include <string_view>

namespace collab::matchmaking {

inline constexpr std::string_view kDeclarationSubkey = "candidate";

/// "I take part in this round." Until when it holds is the record's own expiry.
struct Declaration {
  std::uint64_t epoch = 0;
  std::uint32_t round = 1;
  bool reachable = true;             ///< can be dialled, so can lead
  std::uint64_t up_bytes_per_s = 0;  ///< measured; 0: unknown
  std::uint64_t down_bytes_per_s = 0;
  Role role = Role::node;
  bool operator==(const Declaration&) const = default;
};

Bytes encode(const Declaration&);
/// Errors: `bad_request` for bytes that are no declaration.
Result<Declaration> decode_declaration(std::span<const std::byte> value);

}  // namespace collab::matchmaking
