#include "net/tls_engine.hpp"

#include "net/certificate.hpp"
#include "net/secure_channel.hpp"
#include "net/tls_context_state.hpp"

#include <fmt/format.h>
#include <openssl/err.h>

#include <algorithm>
#include <cassert>
#include <new>
#include <utility>

namespace collab::net {
namespace {

static_assert(kRecordBytes == SSL3_RT_MAX_PLAIN_LENGTH);
constexpr std::size_t kRecordOverhead = 22;           // header 5, content type 1, tag 16
constexpr std::size_t kHandshakeBytesMax = 8 * 1024;  // ours takes 1.3 kB; OpenSSL itself would take 128 kB
constexpr unsigned kIdleMessagesMax = 32;             // handshake messages in a row without data: key changes

constexpr int kErrorInRecord = 0;  // OpenSSL numbers its reasons from 100

TlsFault fault_of(int reason) {
  if (reason >= SSL_AD_REASON_OFFSET) return TlsFault::refused;
  switch (reason) {
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_UNEXPECTED_MESSAGE:
    case SSL_R_UNKNOWN_PROTOCOL: return TlsFault::not_tls;
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_NO_PROTOCOLS_AVAILABLE:
    case SSL_R_NO_SHARED_CIPHER:
    case SSL_R_NO_SUITABLE_KEY_SHARE:
    case SSL_R_NO_SUITABLE_GROUPS:
    case SSL_R_NO_SHARED_GROUPS:
    case SSL_R_NO_SHARED_SIGNATURE_ALGORITHMS:
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
    case SSL_R_NO_APPLICATION_PROTOCOL: return TlsFault::version;
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE: return TlsFault::no_certificate;
    case SSL_R_EXCESSIVE_MESSAGE_SIZE:
    case SSL_R_CERTIFICATE_VERIFY_FAILED: return TlsFault::certificate;
    default: return TlsFault::record;
  }
}

std::string describe(TlsFault fault, int reason) {
  const char* known = reason == kErrorInRecord ? nullptr : ERR_reason_error_string(ERR_PACK(ERR_LIB_SSL, 0, reason));
  const std::string detail = known == nullptr ? std::string() : fmt::format(" ({})", known);
  switch (fault) {
    case TlsFault::not_tls: return "the other side speaks something else than TLS" + detail;
    case TlsFault::version:
      return "the other side speaks TLS, but not collab's: 1.3, X25519, Ed25519, collab/1" + detail;
    case TlsFault::no_certificate: return "the other side does not say who it is" + detail;
    case TlsFault::certificate: return "the other side's certificate is refused" + detail;
    case TlsFault::refused: return "the other side refuses this peer" + detail;
    default: return "damaged or forged bytes" + detail;
  }
}

struct TlsEngine final : ChannelEngine {
  TlsEngine(const TlsContext& context, SSL_CTX* rules, Side side, const std::optional<PeerId>& expected);

  void receive(std::span<const std::byte> ciphertext) override;
  void seal(std::span<const std::byte> plaintext) override;
  void close() override;
  std::array<std::byte, 32> exporter(std::string_view label) const override;
  void trim() override;

  void look_at_first_byte();
  void handshake();
  void open_records();
  void on_error(int returned);

  static const BIO_METHOD* transport();
  static int read(BIO*, char* into, int bytes);
  static int write(BIO*, const char* from, int bytes);
  static long control(BIO*, int command, long, void*);
  static void on_message(int sent, int version, int type, const void*, std::size_t, SSL*, void* engine);

  HandshakeJudge judge;
  std::uint64_t records_per_key;
  TlsPtr tls;

  std::span<const std::byte> incoming;  ///< what `receive` was given and OpenSSL has not taken
  std::size_t handshake_bytes = 0;
  unsigned idle_messages = 0;
  std::uint64_t records_sealed = 0;  ///< with the key in use
};

// OpenSSL takes a header, then exactly the body, into its own buffer: a record in pieces waits there, so no ciphertext
// is kept here. What it writes goes to the output queue at once, so a write never blocks.

const BIO_METHOD* TlsEngine::transport() {
  static const BioMethodPtr method = [] {
    BioMethodPtr made(BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "collab"));
    if (!made) throw std::bad_alloc();
    BIO_meth_set_read(made.get(), read);
    BIO_meth_set_write(made.get(), write);
    BIO_meth_set_ctrl(made.get(), control);
    return made;
  }();
  return method.get();
}

int TlsEngine::read(BIO* bio, char* into, int bytes) {
  TlsEngine& engine = *static_cast<TlsEngine*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  const std::size_t taken = std::min(static_cast<std::size_t>(bytes), engine.incoming.size());
  if (taken == 0) {
    BIO_set_retry_read(bio);
    return -1;
  }
  if (!engine.established && (engine.handshake_bytes += taken) > kHandshakeBytesMax) {
    engine.fail(TlsFault::flood, "a handshake without end");
    return -1;
  }
  std::copy_n(reinterpret_cast<const char*>(engine.incoming.data()), taken, into);
  engine.incoming = engine.incoming.subspan(taken);
  return static_cast<int>(taken);
}

int TlsEngine::write(BIO* bio, const char* from, int bytes) {
  TlsEngine& engine = *static_cast<TlsEngine*>(BIO_get_data(bio));
  engine.output.append(std::as_bytes(std::span(from, static_cast<std::size_t>(bytes))));
  return bytes;
}

long TlsEngine::control(BIO*, int command, long, void*) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

void TlsEngine::on_message(int sent, int, int type, const void*, std::size_t, SSL*, void* engine) {
  if (sent == 0 && type == SSL3_RT_HANDSHAKE) ++static_cast<TlsEngine*>(engine)->idle_messages;
}

TlsEngine::TlsEngine(const TlsContext& context, SSL_CTX* rules, Side side, const std::optional<PeerId>& expected)
    : records_per_key(context.options().records_per_key), tls(SSL_new(rules)) {
  BIO* bio = BIO_new(transport());
  if (tls == nullptr || bio == nullptr) throw std::bad_alloc();
  judge.own = context.own();
  judge.expected = expected;
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(tls.get(), bio, bio);
  SSL_set_app_data(tls.get(), &judge);
  SSL_set_msg_callback(tls.get(), on_message);
  SSL_set_msg_callback_arg(tls.get(), this);
  if (side == Side::accepted) {
    SSL_set_accept_state(tls.get());
  } else {
    SSL_set_connect_state(tls.get());
    handshake();
  }
}

/// OpenSSL would take many a first byte for a hello of SSL 2, and wait for the rest of it.
void TlsEngine::look_at_first_byte() {
  if (handshake_bytes > 0 || incoming.empty()) return;
  const auto type = static_cast<int>(incoming.front());
  if (type != SSL3_RT_HANDSHAKE && type != SSL3_RT_ALERT)
    fail(TlsFault::not_tls, "the other side speaks something else than TLS");
}

void TlsEngine::handshake() {
  ERR_clear_error();
  if (const int returned = SSL_do_handshake(tls.get()); returned != 1) return on_error(returned);
  const unsigned char* protocol = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(tls.get(), &protocol, &size);
  if (std::string_view(reinterpret_cast<const char*>(protocol), size) != kAlpn)
    return fail(TlsFault::version, "the other side does not speak " + std::string(kAlpn));
  established = true;
  peer = judge.verdict.peer;
  idle_messages = 0;
}

void TlsEngine::open_records() {
  while (fault == TlsFault::none && !closed) {
    const auto space = opened.prepare(kRecordBytes);
    std::size_t bytes = 0;
    ERR_clear_error();
    const int returned = SSL_read_ex(tls.get(), space.data(), space.size(), &bytes);
    if (idle_messages > kIdleMessagesMax) return fail(TlsFault::flood, "changes its key without end");
    if (returned != 1) {
      on_error(returned);
      return;
    }
    idle_messages = 0;
    opened.commit(bytes);
  }
}

/// After a call of OpenSSL that gave less than was asked: it needs more bytes, it is over, or it went wrong.
void TlsEngine::on_error(int returned) {
  const int error = SSL_get_error(tls.get(), returned);
  if (fault != TlsFault::none || error == SSL_ERROR_WANT_READ) return;
  if (error == SSL_ERROR_ZERO_RETURN) {
    closed = true;
    if (!established) fail(TlsFault::refused, "the other side left during the handshake");
    return;
  }
  if (judge.verdict.fault != TlsFault::none) return fail(judge.verdict.fault, judge.verdict.reason);
  const unsigned long first = ERR_peek_error();
  const int reason = ERR_GET_LIB(first) == ERR_LIB_SSL ? ERR_GET_REASON(first) : kErrorInRecord;
  TlsFault found = fault_of(reason);
  if (established && found != TlsFault::refused) found = TlsFault::record;
  fail(found, describe(found, reason));
}

void TlsEngine::receive(std::span<const std::byte> ciphertext) {
  incoming = ciphertext;
  look_at_first_byte();
  if (fault == TlsFault::none && !established) handshake();
  if (established) open_records();
  incoming = {};
}

void TlsEngine::seal(std::span<const std::byte> plaintext) {
  const std::size_t records = (plaintext.size() + kRecordBytes - 1) / kRecordBytes;
  if (records_sealed + records > records_per_key && records_sealed > 0) {
    SSL_key_update(tls.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
    records_sealed = 0;
  }
  records_sealed += records;
  output.prepare(plaintext.size() + records * kRecordOverhead);
  std::size_t written = 0;
  ERR_clear_error();
  const int returned = SSL_write_ex(tls.get(), plaintext.data(), plaintext.size(), &written);
  if (returned != 1) on_error(returned);
}

void TlsEngine::close() {
  ERR_clear_error();
  SSL_shutdown(tls.get());  // 0 or 1: our half is written, the other side's is `closed`
}

std::array<std::byte, 32> TlsEngine::exporter(std::string_view label) const {
  std::array<std::byte, 32> value{};
  const int worked = SSL_export_keying_material(tls.get(), reinterpret_cast<unsigned char*>(value.data()), value.size(),
                                                label.data(), label.size(), nullptr, 0, 0);
  assert(worked == 1);
  return value;
}

void TlsEngine::trim() {
  SSL_free_buffers(tls.get());  // refused, harmlessly, while half a record is in them
}

}  // namespace

std::unique_ptr<ChannelEngine> make_tls_engine(const TlsContext& context, SSL_CTX* rules, Side side,
                                               const std::optional<PeerId>& expected) {
  return std::make_unique<TlsEngine>(context, rules, side, expected);
}

}  // namespace collab::net
