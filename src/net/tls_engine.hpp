#pragma once
// The engine that every channel has outside of a simulator: TLS 1.3 by OpenSSL.

#include "net/channel_engine.hpp"
#include "net/openssl.hpp"

#include <memory>
#include <optional>

namespace collab::net {

class TlsContext;

/// `rules`: those of `context`; both outlive it. A dialling one has its first bytes in `output` at once.
std::unique_ptr<ChannelEngine> make_tls_engine(const TlsContext& context, SSL_CTX* rules, Side side,
                                               const std::optional<PeerId>& expected);

}  // namespace collab::net
