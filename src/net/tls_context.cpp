#include "net/tls_context.hpp"

#include "net/network.hpp"
#include "net/tls_context_state.hpp"

#include <array>

namespace collab::net {
namespace {

constexpr long kCertificateMessageBytesMax = 2 * kCertificateBytesMax;  // enough to count two and say so

constexpr std::array<unsigned char, 1 + kAlpn.size()> alpn_wire() {
  std::array<unsigned char, 1 + kAlpn.size()> wire{};
  wire[0] = kAlpn.size();
  for (std::size_t i = 0; i < kAlpn.size(); ++i) wire[1 + i] = static_cast<unsigned char>(kAlpn[i]);
  return wire;
}
constexpr auto kAlpnWire = alpn_wire();

int choose_alpn(SSL*, const unsigned char** chosen, unsigned char* chosen_size, const unsigned char* offered,
                unsigned offered_size, void*) {
  unsigned char* found = nullptr;
  const int outcome =
      SSL_select_next_proto(&found, chosen_size, kAlpnWire.data(), kAlpnWire.size(), offered, offered_size);
  *chosen = found;
  return outcome == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

/// OpenSSL asks during the handshake; 1: go on.
int judge_presented(X509_STORE_CTX* presented, void*) {
  const auto* tls = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(presented, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto& judge = *static_cast<HandshakeJudge*>(SSL_get_app_data(tls));
  judge.verdict = judge_certificate(X509_STORE_CTX_get0_untrusted(presented), judge.own, judge.expected);
  if (judge.verdict.fault == TlsFault::none) return 1;
  X509_STORE_CTX_set_error(presented, X509_V_ERR_CERT_REJECTED);  // becomes the alert "bad certificate"
  return 0;
}

/// In our order of preference.
const char* cipher_suites() {
#if defined(__x86_64__)
  const bool has_aes = __builtin_cpu_supports("aes") != 0 && __builtin_cpu_supports("pclmul") != 0;
#else
  const bool has_aes = false;
#endif
  return has_aes ? "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256"
                 : "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256";
}

bool set_rules(SSL_CTX* context) {
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                                   SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_max_cert_list(context, kCertificateMessageBytesMax);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_cert_verify_callback(context, judge_presented, nullptr);
  SSL_CTX_set_alpn_select_cb(context, choose_alpn, nullptr);
  return SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
         SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 && SSL_CTX_set_num_tickets(context, 0) == 1 &&
         SSL_CTX_set_max_early_data(context, 0) == 1 && SSL_CTX_set_ciphersuites(context, cipher_suites()) == 1 &&
         SSL_CTX_set1_groups_list(context, "X25519") == 1 && SSL_CTX_set1_sigalgs_list(context, "ed25519") == 1 &&
         SSL_CTX_set1_client_sigalgs_list(context, "ed25519") == 1 &&
         SSL_CTX_set_alpn_protos(context, kAlpnWire.data(), kAlpnWire.size()) == 0;  // zero is success here
}

}  // namespace

TlsContext::TlsContext(const Identity& identity, const Options& options)
    : own_(identity.id()), options_(options), state_(std::make_unique<State>()) {
  if (options_.engines != nullptr) return;
  state_->context.reset(SSL_CTX_new(TLS_method()));
  SSL_CTX* context = state_->context.get();
  const bool worked = context != nullptr && set_rules(context) &&
                      SSL_CTX_use_certificate(context, make_certificate(identity).get()) == 1 &&
                      SSL_CTX_use_PrivateKey(context, make_private_key(identity).get()) == 1;
  if (!worked) throw Failure(ExitCode::machine, "OpenSSL has no TLS 1.3 with X25519 and Ed25519", "install OpenSSL 3");
}

TlsContext::TlsContext(TlsContext&&) noexcept = default;
TlsContext& TlsContext::operator=(TlsContext&&) noexcept = default;
TlsContext::~TlsContext() = default;

TlsContext::Options tls_options(const Network& network) {
  TlsContext::Options options;
  options.engines = network.channel_engines();
  return options;
}

}  // namespace collab::net
