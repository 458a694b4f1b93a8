#include "net/tls_engine.hpp"

#include "net/certificate.hpp"
#include "net/records.hpp"
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

constexpr std::size_t kHandshakeBytesMax = 8 * 1024;  // until our records begin: 1.3 kB; OpenSSL would take 128 kB

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

constexpr std::string_view kBeginLabel = "EXPORTER-collab-records-begin-v2";
constexpr std::string_view kKeyLabel = "EXPORTER-collab-records-key-v1";
enum Direction : std::uint8_t { kToAcceptor, kToDialler };

/// TLS 1.3 shakes hands. Then each end says in one record of TLS, which nobody else can make, that from here on it
/// sends records of our own: long ones, with keys that TLS has exported, sealed and opened without a copy
/// (doc/performance.md has both in turns).
struct TlsEngine final : ChannelEngine {
  TlsEngine(const TlsContext& context, SSL_CTX* rules, Side side, const std::optional<PeerId>& expected);

  std::size_t receive(std::span<const std::byte> ciphertext, std::span<std::byte> room) override;
  void seal(std::span<const std::byte> head, std::span<const std::byte> body) override;
  void close() override;
  std::array<std::byte, 32> exporter(std::string_view label) const override;
  void trim() override;

  void look_at_first_byte();
  void handshake();
  void begin_sealing();
  void begin_opening();
  void open_record(std::span<std::byte> room);
  void on_error(int returned);
  void export_secret(std::string_view label, std::span<const std::byte> context, std::span<std::byte> into) const;
  std::array<std::byte, 32> begin_word(Direction to) const;
  RecordKeys::Derive keys(Direction to) const;
  const EVP_CIPHER* cipher() const;

  static const BIO_METHOD* transport();
  static int read(BIO*, char* into, int bytes);
  static int write(BIO*, const char* from, int bytes);
  static long control(BIO*, int command, long, void*);

  HandshakeJudge judge;
  std::uint64_t records_per_key;
  Direction sends_to;
  TlsPtr tls;
  std::optional<RecordSealer> sealer;
  std::optional<RecordOpener> opener;

  std::span<const std::byte> incoming;  ///< what `receive` was given and OpenSSL has not taken
  std::size_t handshake_bytes = 0;
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
  if ((engine.handshake_bytes += taken) > kHandshakeBytesMax) {
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

TlsEngine::TlsEngine(const TlsContext& context, SSL_CTX* rules, Side side, const std::optional<PeerId>& expected)
    : records_per_key(context.options().records_per_key),
      sends_to(side == Side::dialled ? kToAcceptor : kToDialler),
      tls(SSL_new(rules)) {
  BIO* bio = BIO_new(transport());
  if (tls == nullptr || bio == nullptr) throw std::bad_alloc();
  judge.own = context.own();
  judge.expected = expected;
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(tls.get(), bio, bio);
  SSL_set_app_data(tls.get(), &judge);
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
  begin_sealing();
}

void TlsEngine::begin_sealing() {
  const auto word = begin_word(sends_to);
  std::size_t written = 0;
  ERR_clear_error();
  const int returned = SSL_write_ex(tls.get(), word.data(), word.size(), &written);
  if (returned != 1) return on_error(returned);
  sealer.emplace(cipher(), keys(sends_to), records_per_key);
}

/// What the other end's TLS still has to say: an alert, if it refuses us, or that its own records begin.
void TlsEngine::begin_opening() {
  std::array<std::byte, 32> said{};
  std::size_t bytes = 0;
  ERR_clear_error();
  const int returned = SSL_read_ex(tls.get(), said.data(), said.size(), &bytes);
  if (returned != 1) return on_error(returned);
  const Direction to = sends_to == kToAcceptor ? kToDialler : kToAcceptor;
  if (bytes != said.size() || said != begin_word(to))
    return fail(TlsFault::version, "the other side speaks TLS, but no collab/1 in it");
  opener.emplace(cipher(), keys(to), records_per_key);
  SSL_free_buffers(tls.get());
}

void TlsEngine::open_record(std::span<std::byte> room) {
  if (incoming.empty()) return;
  const auto taken = opener->open(incoming, opened.empty() ? room : std::span<std::byte>(), opened);
  incoming = incoming.subspan(taken.sealed);
  placed = taken.placed;
  switch (opener->state()) {
    case RecordOpener::State::open: return;
    case RecordOpener::State::ended: closed = true; return;
    case RecordOpener::State::damaged: return fail(TlsFault::record, "damaged or forged bytes");
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

std::size_t TlsEngine::receive(std::span<const std::byte> ciphertext, std::span<std::byte> room) {
  incoming = ciphertext;
  look_at_first_byte();
  if (fault == TlsFault::none && !established) handshake();
  if (fault == TlsFault::none && established && !opener) begin_opening();
  if (fault == TlsFault::none && opener) open_record(room);
  const std::size_t left = std::exchange(incoming, {}).size();
  return ciphertext.size() - left;
}

void TlsEngine::seal(std::span<const std::byte> head, std::span<const std::byte> body) {
  sealer->seal(head, body, output);
}

void TlsEngine::close() {
  sealer->seal_last(output);
}

void TlsEngine::export_secret(std::string_view label, std::span<const std::byte> context,
                              std::span<std::byte> into) const {
  const int worked = SSL_export_keying_material(
      tls.get(), reinterpret_cast<unsigned char*>(into.data()), into.size(), label.data(), label.size(),
      reinterpret_cast<const unsigned char*>(context.data()), context.size(), context.empty() ? 0 : 1);
  if (worked != 1) throw std::bad_alloc();
}

std::array<std::byte, 32> TlsEngine::exporter(std::string_view label) const {
  std::array<std::byte, 32> value{};
  export_secret(label, {}, value);
  return value;
}

std::array<std::byte, 32> TlsEngine::begin_word(Direction to) const {
  std::array<std::byte, 32> word{};
  export_secret(kBeginLabel, std::array{std::byte{to}}, word);
  return word;
}

/// Of this object: it owns who asks.
RecordKeys::Derive TlsEngine::keys(Direction to) const {
  return [this, to](std::uint64_t number) {
    std::array<std::byte, 9> context{std::byte{to}};
    for (std::size_t i = 0; i < sizeof number; ++i) context[i + 1] = static_cast<std::byte>(number >> (8 * i));
    RecordKeys::Material material{};
    export_secret(kKeyLabel, context, material);
    return material;
  };
}

/// That of the TLS connection: both ends have it, and the processors' abilities have chosen it.
const EVP_CIPHER* TlsEngine::cipher() const {
  return EVP_get_cipherbynid(SSL_CIPHER_get_cipher_nid(SSL_get_current_cipher(tls.get())));
}

void TlsEngine::trim() {
  if (opener) opener->trim();
}

}  // namespace

std::unique_ptr<ChannelEngine> make_tls_engine(const TlsContext& context, SSL_CTX* rules, Side side,
                                               const std::optional<PeerId>& expected) {
  return std::make_unique<TlsEngine>(context, rules, side, expected);
}

}  // namespace collab::net
