#pragma once
// What the authority takes back: a peer's place in the run, or one token.

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "crypto/identity.hpp"
#include "crypto/peer_id.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace collab {

inline constexpr std::size_t kBanReasonBytesMax = 200;

using TokenSerial = std::uint64_t;

/// A ban of a peer, or the revocation of a token.
struct Ban {
  std::variant<PeerId, TokenSerial> target;
  std::string reason;          ///< for the user of the peer; at most `kBanReasonBytesMax` bytes
  std::int64_t from_ms = 0;    ///< Unix milliseconds, in swarm time
  std::int64_t until_ms = 0;   ///< then it is over, and forgotten
  std::uint64_t sequence = 0;  ///< of two about one target the greater counts
  bool operator==(const Ban&) const = default;
};

/// Names the target among all: "peer <id>", "token <serial>" would be too long for a subkey, so 16 hexadecimal digits
/// of the peer's key or of the serial, with a letter before them.
std::string target_name(const Ban& ban);

/// `ban.reason` is within its bound.
Bytes sign_ban(const Identity& authority, std::string_view run_id, const Ban& ban);

/// From any bytes. Errors: `bad_request` malformed, or it ends before it begins; `denied` not signed by `authority`
/// for this run; `stale` it is over at `now_ms`.
Result<Ban> read_ban(std::span<const std::byte> bytes, std::string_view run_id, const PeerId& authority,
                     std::int64_t now_ms);

}  // namespace collab
