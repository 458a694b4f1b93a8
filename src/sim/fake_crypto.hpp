#pragma once
// Cryptography that costs next to nothing and protects nothing, for swarms in one thread: the same bytes on the wire in
// number, and the same errors, so that a run is the same run with it or without.

#include "crypto/signature_scheme.hpp"
#include "net/channel_engine.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

namespace collab::sim {

/// A signature anybody could make: a sum over signer and message. One that does not fit is refused; what a real key has
/// signed is taken too, so a run's authority may have one.
class FakeSignatures final : public SignatureScheme {
 public:
  Signature sign(const Identity& signer, std::span<const std::byte> message) const override;
  bool verify(const PeerId& signer, std::span<const std::byte> message, const Signature& signature) const override;
};

/// Channels in the clear with the flights and records of TLS 1.3. A bit that flips, a record that is lost, replayed or
/// of another channel, another peer than was dialled, our own key: noticed as there. That a peer has the key which it
/// says it has is taken on trust.
class FakeChannels final : public net::ChannelEngines {
 public:
  std::unique_ptr<net::ChannelEngine> make(const PeerId& own, net::Side side,
                                           const std::optional<PeerId>& expected) const override;

 private:
  mutable std::uint64_t made_ = 0;  ///< makes each channel another one
};

/// Which of the two a simulated swarm has.
enum class Crypto : std::uint8_t { real, fake };
std::string_view name(Crypto crypto) noexcept;
std::optional<Crypto> crypto_named(std::string_view name) noexcept;

}  // namespace collab::sim
