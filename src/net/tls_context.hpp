#pragma once
// What all secure channels of one identity share.

#include "crypto/identity.hpp"
#include "net/channel_engine.hpp"

#include <cstdint>
#include <memory>

namespace collab::net {

class Network;

/// Certificate, key and rules: TLS 1.3, X25519, Ed25519, ALPN `collab/1`, AES-GCM where both processors have AES, else
/// ChaCha20. No tickets, resumption, early data or key log. Outlives its channels; immutable, so threads may share it.
class TlsContext {
 public:
  struct Options {
    std::uint64_t records_per_key = std::uint64_t(1) << 22U;  ///< then the key is the next one: 2^34 blocks of AES
    const ChannelEngines* engines = nullptr;                  ///< of a simulated network, instead of TLS; outlive it
  };

  /// Throws `Failure(machine)` when OpenSSL lacks one of the algorithms.
  explicit TlsContext(const Identity& identity) : TlsContext(identity, Options()) {}
  TlsContext(const Identity& identity, const Options& options);
  TlsContext(TlsContext&&) noexcept;
  TlsContext& operator=(TlsContext&&) noexcept;
  ~TlsContext();

  const PeerId& own() const noexcept { return own_; }
  const Options& options() const noexcept { return options_; }

 private:
  friend class SecureChannel;
  struct State;  // OpenSSL stays out of the headers

  PeerId own_;
  Options options_;
  std::unique_ptr<State> state_;
};

/// For channels over the streams of `network`, which outlives them.
TlsContext::Options tls_options(const Network& network);

}  // namespace collab::net
