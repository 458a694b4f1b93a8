#pragma once
// Why TLS refuses a connection.

#include <cstdint>
#include <string_view>

namespace collab::net {

/// For counters and tests; `SecureChannel::failure()` has the sentence for a person.
enum class TlsFault : std::uint8_t {
  none,
  not_tls,         ///< plain HTTP, random bytes, another protocol
  version,         ///< no TLS 1.3, or none of our algorithms or protocol names
  no_certificate,  ///< the other side does not say who it is
  certificate,     ///< more than one, not Ed25519, foreign-signed, oversized, weak key
  wrong_peer,      ///< somebody else answers where another id was dialled
  own_key,         ///< ourselves, or another process with our key
  record,          ///< damaged, replayed or forged bytes
  flood,           ///< a handshake or key changes without end
  refused,         ///< the other side refuses us, by an alert
};

std::string_view name(TlsFault) noexcept;

}  // namespace collab::net
