#pragma once
// The OpenSSL side of TlsContext, for secure_channel.cpp.

#include "net/certificate.hpp"
#include "net/openssl.hpp"
#include "net/tls_context.hpp"

#include <optional>
#include <string_view>

namespace collab::net {

inline constexpr std::string_view kAlpn = "collab/1";

/// What one channel knows when the other side presents its certificates. Attached by `SSL_set_app_data`.
struct HandshakeJudge {
  PeerId own{};
  std::optional<PeerId> expected;
  CertificateVerdict verdict;  ///< filled in by the context's verify callback
};

struct TlsContext::State {
  TlsContextPtr context;
};

}  // namespace collab::net
