#pragma once
// What the authority of a run lets one peer do there, and until when: shown at the beginning of each connection.

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "crypto/claim.hpp"
#include "crypto/identity.hpp"
#include "crypto/peer_id.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace collab {

inline constexpr std::size_t kTokenBytesMax = 512;
inline constexpr std::int64_t kTokenLifetimeMaxMs = std::int64_t(7) * 24 * 3600 * 1000;
inline constexpr std::int64_t kTokenLifetimeMs = std::int64_t(24) * 3600 * 1000;  ///< unless somebody says otherwise
/// A token holds from this long before it was made: clocks that are tolerated may be behind by as much.
inline constexpr std::int64_t kTokenSkewMs = 60'000;

/// Worth nothing in other hands: TLS proves that who shows it is `peer`. So it is no secret.
struct Token {
  std::string run_id;
  PeerId peer{};
  Claims claims;
  std::uint64_t serial = 0;        ///< names it, for a revocation; of two tokens of a peer the greater is the newer
  std::int64_t not_before_ms = 0;  ///< Unix milliseconds, in swarm time
  std::int64_t expires_ms = 0;     ///< at most `kTokenLifetimeMaxMs` + `kTokenSkewMs` later
  bool operator==(const Token&) const = default;
};

/// Why a token does not help. `message()` of the error code is a clause for the user of the peer that shows it.
enum class TokenErrc {
  malformed = 1,  ///< not one whole token in its one encoding, or too long
  lifetime,       ///< it would hold for longer than any may
  other_run,
  other_authority,  ///< signed, but not by the run's
  signature,        ///< changed after it was signed
  other_peer,       ///< shown by another peer than it is for
  not_yet,
  expired,
  revoked,
};
boost::system::error_code make_error_code(TokenErrc) noexcept;

/// At most `kTokenBytesMax` bytes. `token`: its run id is one, its time within the bound above.
Bytes sign_token(const Identity& authority, const Token& token);

/// A token as the run's authority signed it, whoever shows it and whenever. From any bytes.
/// Errors: those of `TokenErrc` down to `signature`, checked in an order that spares the signature.
Result<Token> read_token(std::span<const std::byte> bytes, std::string_view run_id, const PeerId& authority);

/// Whether it helps `shown_by` at `now_ms` (Unix milliseconds, swarm time). Errors: `other_peer`, `not_yet`, `expired`.
Result<> check_token(const Token& token, const PeerId& shown_by, std::int64_t now_ms);

/// One line for a file or a letter: "collab-token-v1 <base32>\n".
std::string token_text(std::span<const std::byte> token);
/// The inverse; space around it is ignored. Verifies nothing. Errors: `malformed`.
Result<Bytes> parse_token_text(std::string_view text);

/// "join contribute".
std::string to_string(Claims claims);

}  // namespace collab

template <>
struct boost::system::is_error_code_enum<collab::TokenErrc> : std::true_type {};
