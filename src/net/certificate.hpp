#pragma once
// X.509 certificates (RFC 5280, RFC 8410) as mere envelopes of a peer's key: self-signed, their names and dates mean
// nothing.

#include "crypto/identity.hpp"
#include "net/openssl.hpp"
#include "net/tls_fault.hpp"

#include <cstddef>
#include <optional>
#include <string>

namespace collab::net {

inline constexpr std::size_t kCertificateBytesMax = 2048;

/// Throws `Failure(machine)` when OpenSSL has no Ed25519.
PrivateKeyPtr make_private_key(const Identity& identity);

/// Signed by the identity itself, valid 1970-9999: the same bytes at every start.
CertificatePtr make_certificate(const Identity& identity);

/// Whom a certificate speaks for, or why it is refused.
struct CertificateVerdict {
  TlsFault fault = TlsFault::none;
  std::string reason;  ///< for a person, when refused
  PeerId peer{};       ///< whose key it holds, unless `fault` is `certificate`
};

/// Judges what the other side presented: exactly one certificate, at most 2 kB, an Ed25519 key that signed it itself,
/// no critical extension that is unknown, the key `expected` if one was dialled, not our `own`. Its dates are ignored:
/// a clock is judged in the hello. That the other side owns the key is proved by the handshake, not here. `presented`:
/// may be null.
CertificateVerdict judge_certificate(const STACK_OF(X509) * presented, const PeerId& own,
                                     const std::optional<PeerId>& expected);

}  // namespace collab::net
