#pragma once
// How the peers of a run sign.

#include "crypto/peer_id.hpp"

#include <array>
#include <cstddef>
#include <span>

namespace collab {

class Identity;

/// An Ed25519 signature (RFC 8032), or as many bytes of another scheme.
using Signature = std::array<unsigned char, 64>;

/// Ed25519 for everybody who meets strangers: no program chooses. What signs and what verifies is handed the scheme
/// only so that a simulated swarm can have a cheaper one.
class SignatureScheme {
 public:
  virtual ~SignatureScheme() = default;
  virtual Signature sign(const Identity& signer, std::span<const std::byte> message) const = 0;
  /// Whether `signer` signed exactly `message`.
  virtual bool verify(const PeerId& signer, std::span<const std::byte> message, const Signature& signature) const = 0;
};

/// RFC 8032, by libsodium. Refuses keys of small order and second encodings as well.
const SignatureScheme& ed25519() noexcept;

}  // namespace collab
