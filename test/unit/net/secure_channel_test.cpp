#include "net/secure_channel.hpp"

#include "base/bytes.hpp"
#include "base/random.hpp"
#include "net/certificate.hpp"
#include "net/openssl.hpp"

#include <openssl/rsa.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "support/doctest.hpp"

namespace collab::net {
namespace {

Identity identity(unsigned char number) {
  Identity::Seed seed{};
  seed[0] = number;
  return Identity::generate(seed);
}

struct Pair {
  Identity anna = identity(1);
  Identity bert = identity(2);
  TlsContext anna_context{anna};
  TlsContext bert_context{bert};
  SecureChannel client{anna_context, Side::dialled, bert.id()};
  SecureChannel server{bert_context, Side::accepted};
};

/// Moves what `from` has to say in pieces of 1..`piece_max` bytes; whether there was anything.
bool move(SecureChannel& from, SecureChannel& to, Random& random, std::size_t piece_max) {
  const bool any = !from.output().empty();
  while (!from.output().empty()) {
    const std::size_t piece = std::min<std::size_t>(1 + random.below(piece_max), from.output().size());
    const auto received = to.receive(from.output().first(piece));
    from.sent(piece);
    if (!received) from.sent(from.output().size());
  }
  return any;
}

void pump(SecureChannel& a, SecureChannel& b, Random& random, std::size_t piece_max = 4096) {
  bool any = true;
  while (any) {
    any = move(a, b, random, piece_max);
    any = move(b, a, random, piece_max) || any;
  }
}

Bytes pattern(std::size_t size, std::uint64_t seed) {
  Random random(seed);
  Bytes bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random.next());
  return bytes;
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

bool holds(const SecureChannel& channel, std::span<const std::byte> bytes) {
  return std::ranges::equal(channel.opened(), bytes);
}

/// A foreign TLS program, as a client with the rules a test gives it.
class ForeignClient {
 public:
  explicit ForeignClient(int version = TLS1_3_VERSION) : context_(SSL_CTX_new(TLS_client_method())) {
    SSL_CTX_set_min_proto_version(context_.get(), version);
    SSL_CTX_set_max_proto_version(context_.get(), version);
    const unsigned char alpn[] =
        "\x08"
        "collab/1";
    SSL_CTX_set_alpn_protos(context_.get(), alpn, 9);
  }

  SSL_CTX* context() { return context_.get(); }
  void present(X509* certificate, EVP_PKEY* key) {
    REQUIRE(SSL_CTX_use_certificate(context(), certificate) == 1);
    REQUIRE(SSL_CTX_use_PrivateKey(context(), key) == 1);
  }

  /// `says`: and sends a record of as many bytes as begin ours.
  void shake_hands_with(SecureChannel& server, bool says = false, int key_changes = 0) {
    TlsPtr tls(SSL_new(context()));
    BIO* in = BIO_new(BIO_s_mem());
    BIO* out = BIO_new(BIO_s_mem());
    SSL_set_bio(tls.get(), in, out);
    SSL_set_connect_state(tls.get());
    for (int turn = 0; turn < 4; ++turn) {
      const bool done = SSL_do_handshake(tls.get()) == 1;
      if (done && std::exchange(says, false)) SSL_write(tls.get(), pattern(32, 1).data(), 32);
      for (; done && key_changes > 0; --key_changes) {
        SSL_key_update(tls.get(), SSL_KEY_UPDATE_REQUESTED);
        SSL_do_handshake(tls.get());
      }
      char* data = nullptr;
      const long size = BIO_get_mem_data(out, &data);
      const bool went_on =
          static_cast<bool>(server.receive(std::as_bytes(std::span(data, static_cast<std::size_t>(size)))));
      BIO_reset(out);
      if (!went_on) return;
      BIO_write(in, server.output().data(), static_cast<int>(server.output().size()));
      server.sent(server.output().size());
    }
  }

 private:
  TlsContextPtr context_;
};

}  // namespace

TEST_CASE("secure channel: two peers know each other and share bytes and an exporter, however the transport cuts") {
  for (const std::uint64_t seed : test::seeds(20)) {
    CAPTURE(seed);
    Random random(seed);
    Pair pair;
    pump(pair.client, pair.server, random, 1 + random.below(300));
    REQUIRE(pair.client.established());
    REQUIRE(pair.server.established());
    CHECK(pair.client.peer() == pair.bert.id());
    CHECK(pair.server.peer() == pair.anna.id());
    CHECK(pair.client.exporter(kChannelBinding) == pair.server.exporter(kChannelBinding));
    CHECK(pair.client.exporter(kChannelBinding) != pair.client.exporter("EXPORTER-other"));

    const Bytes there = pattern(100'000, seed);
    const Bytes back = pattern(40'000, seed + 1);
    CHECK(pair.client.seal(std::span(there).first(12)));
    CHECK(pair.client.seal(std::span(there).subspan(12)));
    CHECK(pair.server.seal(back));
    pump(pair.client, pair.server, random, 1 + random.below(30'000));
    CHECK(holds(pair.server, there));
    CHECK(holds(pair.client, back));
  }
}

TEST_CASE("secure channel: plaintext that comes with the last bytes of the handshake is there at once") {
  Random random(1);
  Pair pair;
  move(pair.client, pair.server, random, 4096);
  move(pair.server, pair.client, random, 4096);
  REQUIRE(pair.client.established());
  CHECK(pair.client.seal(bytes_of("hello")));
  CHECK(pair.server.receive(pair.client.output()));
  CHECK(holds(pair.server, bytes_of("hello")));
}

TEST_CASE("secure channel: consumed plaintext is gone, trimmed buffers come back, and the stream goes on") {
  Random random(1);
  Pair pair;
  pump(pair.client, pair.server, random);
  const Bytes all = pattern(3'000'000, 5);
  std::size_t checked = 0;
  for (std::size_t at = 0; at < all.size(); at += 60'000) {
    CHECK(pair.client.seal(std::span(all).subspan(at, 60'000)));
    pump(pair.client, pair.server, random, 70'000);
    const std::size_t taken = random.below(pair.server.opened().size() + 1);
    REQUIRE(std::ranges::equal(pair.server.opened().first(taken), std::span(all).subspan(checked, taken)));
    pair.server.consume(taken);
    checked += taken;
    if (random.chance(0.3)) pair.server.trim();
    if (random.chance(0.3)) pair.client.trim();
    if (random.chance(0.3)) pair.server.rest();
    if (random.chance(0.3)) pair.client.rest();
  }
  CHECK(holds(pair.server, std::span(all).subspan(checked)));
}

TEST_CASE("secure channel: keys change in time, on both ends at the same record") {
  Identity anna = identity(1);
  Identity bert = identity(2);
  const TlsContext anna_context(anna, TlsContext::Options{3});
  const TlsContext bert_context(bert, TlsContext::Options{3});
  const TlsContext carl_context(bert, TlsContext::Options{4});
  for (const bool same : {true, false}) {
    CAPTURE(same);
    SecureChannel client(anna_context, Side::dialled);
    SecureChannel server(same ? bert_context : carl_context, Side::accepted);
    Random random(1);
    pump(client, server, random);
    const Bytes all = pattern(400'000, 5);
    for (std::size_t at = 0; at < all.size(); at += 20'000) {
      CHECK(client.seal(std::span(all).subspan(at, 20'000)));
      pump(client, server, random);
    }
    CHECK(holds(server, same ? std::span<const std::byte>(all) : std::span(all).first(60'000)));
    CHECK(server.fault() == (same ? TlsFault::none : TlsFault::record));
  }
}

TEST_CASE("secure channel: a head and a body of any sizes arrive as one") {
  Random random(3);
  Pair pair;
  pump(pair.client, pair.server, random);
  const Bytes all = pattern(300'000, 5);
  for (const std::size_t head : {0U, 1U, 20U, 65'535U, 65'536U, 65'537U, 200'000U, 300'000U}) {
    CAPTURE(head);
    CHECK(pair.client.seal(std::span(all).first(head), std::span(all).subspan(head)));
    pump(pair.client, pair.server, random, 100'000);
    CHECK(holds(pair.server, all));
    pair.server.consume(all.size());
  }
}

TEST_CASE("secure channel: a record is opened where its reader has room for it, if nothing waits before it") {
  Random random(3);
  Pair pair;
  pump(pair.client, pair.server, random);
  const Bytes all = pattern(300'000, 5);
  CHECK(pair.client.seal(std::span(all).first(20), std::span(all).subspan(20)));
  Bytes room(all.size());
  std::size_t placed = 0;
  while (!pair.client.output().empty()) {
    const std::size_t piece = std::min<std::size_t>(1 + random.below(100'000), pair.client.output().size());
    const auto taken = pair.server.receive_record(pair.client.output().first(piece), std::span(room).subspan(placed));
    REQUIRE(taken);
    CHECK(taken->ciphertext > 0);
    pair.client.sent(taken->ciphertext);
    placed += taken->placed;
    CHECK(pair.server.opened().empty());
  }
  CHECK(room == all);

  CHECK(pair.client.seal(all));
  std::vector<std::size_t> in_room;
  while (!pair.client.output().empty()) {
    const bool first = in_room.empty();  // for which there is too little room, so it waits
    const auto taken = pair.server.receive_record(pair.client.output(),
                                                  std::span(room).first(first ? kRecordBytes - 1 : kRecordBytes));
    REQUIRE(taken);
    pair.client.sent(taken->ciphertext);
    in_room.push_back(taken->placed);
  }
  CHECK(in_room == std::vector<std::size_t>(5, 0));
  CHECK(holds(pair.server, all));
  pair.server.consume(all.size());

  CHECK(pair.client.seal(all));
  Bytes forged(pair.client.output().begin(), pair.client.output().end());
  forged[kRecordBytes + 50] ^= std::byte(1);
  CHECK(pair.server.receive_record(forged, room)->placed == kRecordBytes);
  const auto second = std::span(forged).subspan(kRecordHeaderBytes + kRecordBytes + kRecordTagBytes);
  CHECK_FALSE(pair.server.receive_record(second, room));
  CHECK(pair.server.fault() == TlsFault::record);
}

TEST_CASE("secure channel: a long body has records of its own, a short one shares that of its head") {
  Random random(3);
  Pair pair;
  pump(pair.client, pair.server, random);
  const Bytes all = pattern(kRecordBytes, 5);
  constexpr std::size_t around = kRecordHeaderBytes + kRecordTagBytes;
  for (const auto& [body, records] : {std::pair(1000U, 1U), std::pair(32'767U, 1U), std::pair(32'768U, 2U)}) {
    CHECK(pair.client.seal(std::span(all).first(20), std::span(all).first(body)));
    CHECK(pair.client.output().size() == 20 + body + records * around);
    pair.client.sent(pair.client.output().size());
  }
}

TEST_CASE("secure channel: a record whose header cannot be is refused before its bytes are waited for") {
  for (const std::size_t bit : {0U, 7U, 15U, 16U, 31U}) {
    CAPTURE(bit);
    Random random(3);
    Pair pair;
    pump(pair.client, pair.server, random);
    RecordHeader header = record_header(100);
    header[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    CHECK_FALSE(pair.server.receive(header));
    CHECK(pair.server.fault() == TlsFault::record);
    CHECK(pair.server.opened().empty());
  }
}

TEST_CASE("secure channel: a peer that changes its TLS key without end is refused") {
  Pair pair;
  ForeignClient client;
  client.present(make_certificate(pair.anna).get(), make_private_key(pair.anna).get());
  client.shake_hands_with(pair.server, /*says=*/false, /*key_changes=*/1000);
  REQUIRE(pair.server.established());
  CHECK(pair.server.fault() == TlsFault::flood);
  CHECK(pair.server.output().size() < 10'000);
}

TEST_CASE("secure channel: a peer whose TLS goes on with something else than our records is refused") {
  Pair pair;
  ForeignClient client;
  client.present(make_certificate(pair.anna).get(), make_private_key(pair.anna).get());
  client.shake_hands_with(pair.server, /*says=*/true);
  REQUIRE(pair.server.established());
  CHECK(pair.server.fault() == TlsFault::version);
  CHECK(pair.server.opened().empty());
}

TEST_CASE("secure channel: close ends one direction, tells the other side, and later bytes are ignored") {
  Random random(1);
  Pair pair;
  pump(pair.client, pair.server, random);
  CHECK(pair.client.seal(bytes_of("last words")));
  CHECK(pair.client.close());
  pump(pair.client, pair.server, random);
  CHECK(pair.server.closed());
  CHECK_FALSE(pair.client.closed());
  CHECK(holds(pair.server, bytes_of("last words")));
  CHECK(pair.server.receive(bytes_of("garbage")));
  CHECK(pair.server.seal(bytes_of("answer")));
  CHECK(pair.server.close());
  pump(pair.client, pair.server, random);
  CHECK(holds(pair.client, bytes_of("answer")));
  CHECK(pair.client.closed());
  CHECK(pair.client.fault() == TlsFault::none);
}

TEST_CASE("secure channel: somebody else than the one dialled is refused, both ids are named, no byte is sent") {
  Random random(1);
  Pair pair;
  const Identity carl = identity(3);
  const TlsContext carl_context(carl);
  SecureChannel impostor(carl_context, Side::accepted);
  pump(pair.client, impostor, random);
  CHECK_FALSE(pair.client.established());
  CHECK(pair.client.fault() == TlsFault::wrong_peer);
  CHECK(pair.client.receive({}).error() == Errc::denied);
  CHECK(pair.client.failure().find(pair.bert.id().text()) != std::string::npos);
  CHECK(pair.client.failure().find(carl.id().text()) != std::string::npos);
  CHECK_FALSE(impostor.established());
  CHECK(impostor.fault() == TlsFault::refused);
}

TEST_CASE("secure channel: a peer does not connect to itself") {
  Random random(1);
  const Identity anna = identity(1);
  const TlsContext context(anna);
  SecureChannel client(context, Side::dialled);
  SecureChannel server(context, Side::accepted);
  pump(client, server, random);
  CHECK(client.fault() == TlsFault::own_key);
  CHECK_FALSE(server.established());
}

TEST_CASE("secure channel: a client that does not say who it is, or badly, is refused and counted by reason") {
  Pair pair;
  ForeignClient client;
  const Identity carl = identity(3);
  const PrivateKeyPtr carl_key = make_private_key(carl);
  TlsFault fault = TlsFault::none;
  SUBCASE("no certificate") {
    fault = TlsFault::no_certificate;
  }
  SUBCASE("signed by another key") {
    const CertificatePtr certificate = make_certificate(carl);
    const PrivateKeyPtr other = make_private_key(pair.anna);
    REQUIRE(X509_sign(certificate.get(), other.get(), nullptr) > 0);
    client.present(certificate.get(), carl_key.get());
    fault = TlsFault::certificate;
  }
  SUBCASE("two certificates") {
    client.present(make_certificate(carl).get(), carl_key.get());
    REQUIRE(SSL_CTX_add1_chain_cert(client.context(), make_certificate(pair.anna).get()) == 1);
    fault = TlsFault::certificate;
  }
  SUBCASE("our own key") {
    client.present(make_certificate(pair.bert).get(), make_private_key(pair.bert).get());
    fault = TlsFault::own_key;
  }
  SUBCASE("another protocol in TLS") {
    const unsigned char alpn[] =
        "\x08"
        "http/1.1";
    SSL_CTX_set_alpn_protos(client.context(), alpn, 9);
    client.present(make_certificate(carl).get(), carl_key.get());
    fault = TlsFault::version;
  }
  SUBCASE("no protocol in TLS") {
    SSL_CTX_set_alpn_protos(client.context(), nullptr, 0);
    client.present(make_certificate(carl).get(), carl_key.get());
    fault = TlsFault::version;
  }
  client.shake_hands_with(pair.server);
  CHECK_FALSE(pair.server.established());
  CHECK(pair.server.fault() == fault);
  CHECK_FALSE(pair.server.failure().empty());
  CHECK_FALSE(pair.server.receive({}));
}

TEST_CASE("secure channel: an RSA certificate never gets in") {
  Pair pair;
  ForeignClient client;
  const PrivateKeyPtr key(EVP_RSA_gen(2048));
  const CertificatePtr certificate = make_certificate(pair.anna);
  REQUIRE(X509_set_pubkey(certificate.get(), key.get()) == 1);
  REQUIRE(X509_sign(certificate.get(), key.get(), EVP_sha256()) > 0);
  client.present(certificate.get(), key.get());
  client.shake_hands_with(pair.server);
  CHECK_FALSE(pair.server.established());
  CHECK(pair.server.fault() != TlsFault::none);
}

TEST_CASE("secure channel: TLS 1.2 is refused") {
  Pair pair;
  ForeignClient client(TLS1_2_VERSION);
  client.shake_hands_with(pair.server);
  CHECK(pair.server.fault() == TlsFault::version);
}

TEST_CASE("secure channel: a correct foreign client gets in, so the refusals above have their own reasons") {
  Pair pair;
  ForeignClient client;
  const Identity carl = identity(3);
  client.present(make_certificate(carl).get(), make_private_key(carl).get());
  client.shake_hands_with(pair.server);
  CHECK(pair.server.failure() == "");
  REQUIRE(pair.server.established());
  CHECK(pair.server.peer() == carl.id());
}

TEST_CASE("secure channel: a flipped bit is never accepted, in the handshake or after it") {
  Random random(99);
  for (int flip = 0; flip < 200; ++flip) {
    CAPTURE(flip);
    Pair pair;
    const std::size_t at = random.below(1500);  // the client's half of the handshake, and the message
    std::size_t seen = 0;
    bool flipped = false;
    const auto damage = [&](SecureChannel& from, SecureChannel& to) {
      Bytes bytes(from.output().begin(), from.output().end());
      from.sent(bytes.size());
      if (&from == &pair.client && at >= seen && at < seen + bytes.size()) {
        bytes[at - seen] ^= static_cast<std::byte>(1U << random.below(8));
        flipped = true;
      }
      if (&from == &pair.client) seen += bytes.size();
      (void)to.receive(bytes);  // the state below says how it went
    };
    for (int turn = 0; turn < 3; ++turn) {
      damage(pair.client, pair.server);
      damage(pair.server, pair.client);
    }
    if (pair.client.established() && pair.client.fault() == TlsFault::none) CHECK(pair.client.seal(bytes_of("secret")));
    damage(pair.client, pair.server);
    if (flipped) CHECK_FALSE(holds(pair.server, bytes_of("secret")));
    if (!flipped) CHECK(holds(pair.server, bytes_of("secret")));
  }
}

TEST_CASE("secure channel: none of 1000 flipped bits in a sealed message is accepted") {
  Random random(7);
  for (int flip = 0; flip < 1000; ++flip) {
    CAPTURE(flip);
    Pair pair;
    pump(pair.client, pair.server, random);
    CHECK(pair.client.seal(bytes_of("secret")));
    Bytes bytes(pair.client.output().begin(), pair.client.output().end());
    bytes[random.below(bytes.size())] ^= static_cast<std::byte>(1U << random.below(8));
    (void)pair.server.receive(bytes);  // an error, or waiting for a record that became longer
    CHECK(pair.server.opened().empty());
  }
}

TEST_CASE("secure channel: recorded bytes do not count twice") {
  Random random(7);
  Pair pair;
  pump(pair.client, pair.server, random);
  CHECK(pair.client.seal(bytes_of("pay")));
  const Bytes recorded(pair.client.output().begin(), pair.client.output().end());
  CHECK(pair.server.receive(recorded));
  CHECK(pair.server.receive(recorded).error() == Errc::bad_request);
  CHECK(pair.server.fault() == TlsFault::record);
  CHECK(holds(pair.server, bytes_of("pay")));
}

TEST_CASE("secure channel: plain HTTP and random bytes are refused with at most an alert") {
  Random random(3);
  for (int attempt = 0; attempt < 300; ++attempt) {
    Pair pair;
    const auto noise = pattern(600, random.next());
    const bool http = attempt % 10 == 0;
    const auto result = pair.server.receive(http ? bytes_of("GET / HTTP/1.1\r\nHost: example.org\r\n\r\n") : noise);
    CHECK(result.error() == Errc::bad_request);
    if (http) CHECK(pair.server.fault() == TlsFault::not_tls);
    CHECK(pair.server.output().size() <= 16);
  }
}

TEST_CASE("secure channel: a handshake without end is refused before it costs memory") {
  Pair pair;
  const unsigned char begun[] = {0x16, 0x03, 0x01, 0x20, 0x00, 0x01, 0x01, 0x00, 0x00};  // a client hello of 64 kB
  Bytes bytes(16'389);
  std::transform(std::begin(begun), std::end(begun), bytes.begin(), [](unsigned char byte) { return std::byte{byte}; });
  CHECK_FALSE(pair.server.receive(bytes));
  CHECK(pair.server.fault() == TlsFault::flood);
}

TEST_CASE("certificate: the same bytes at every start, and its own verdict is yes") {
  const Identity anna = identity(1);
  const CertificatePtr one = make_certificate(anna);
  const CertificatePtr two = make_certificate(anna);
  CHECK(X509_cmp(one.get(), two.get()) == 0);
  STACK_OF(X509)* chain = sk_X509_new_null();
  sk_X509_push(chain, one.get());
  CHECK(judge_certificate(chain, identity(2).id(), anna.id()).fault == TlsFault::none);
  CHECK(judge_certificate(chain, identity(2).id(), std::nullopt).peer == anna.id());
  CHECK(judge_certificate(chain, anna.id(), std::nullopt).fault == TlsFault::own_key);
  CHECK(judge_certificate(chain, identity(2).id(), identity(3).id()).fault == TlsFault::wrong_peer);
  sk_X509_free(chain);
  CHECK(judge_certificate(nullptr, anna.id(), std::nullopt).fault == TlsFault::no_certificate);
}

}  // namespace collab::net
