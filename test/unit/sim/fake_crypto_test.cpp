#include "sim/fake_crypto.hpp"

#include "base/bytes.hpp"
#include "crypto/signed.hpp"
#include "net/secure_channel.hpp"

#include <algorithm>
#include <functional>
#include <vector>

#include "support/doctest.hpp"

namespace collab::sim {
namespace {

using net::SecureChannel;
using net::Side;
using net::TlsContext;
using net::TlsFault;

Identity peer(unsigned char number) {
  Identity::Seed seed{};
  seed[0] = number;
  return Identity::generate(seed);
}

TlsContext::Options options_of(const net::ChannelEngines* engines) {
  TlsContext::Options options;
  options.engines = engines;
  return options;
}

/// Two ends, and the sizes of everything that has gone over.
struct Wire {
  explicit Wire(const net::ChannelEngines* engines, const PeerId& expected, const Identity& answers)
      : client_context(anna, options_of(engines)), server_context(answers, options_of(engines)), expects(expected) {}
  explicit Wire(const net::ChannelEngines* engines) : Wire(engines, peer(2).id(), peer(2)) {}

  /// Everything from one to the other; whether there was anything.
  bool move(SecureChannel& from, SecureChannel& to) {
    const Bytes bytes(from.output().begin(), from.output().end());
    from.sent(bytes.size());
    if (bytes.empty()) return false;
    sizes.push_back(bytes.size());
    (void)to.receive(bytes);
    return true;
  }
  void pump() {
    for (bool any = true; any;) {
      any = move(client, server);
      any = move(server, client) || any;
    }
  }

  Identity anna = peer(1);
  TlsContext client_context;
  TlsContext server_context;
  PeerId expects;
  SecureChannel client{client_context, Side::dialled, expects};
  SecureChannel server{server_context, Side::accepted};
  std::vector<std::size_t> sizes;
};

/// Sizes of what a whole conversation sends.
std::vector<std::size_t> conversation(const net::ChannelEngines* engines) {
  Wire wire(engines);
  wire.pump();
  REQUIRE(wire.client.established());
  REQUIRE(wire.server.established());
  for (const std::size_t size : {1U, 300U, 16'384U, 16'385U, 100'000U}) {
    const Bytes said(size, std::byte(7));
    CHECK(wire.client.seal(said));
    wire.pump();
    CHECK(std::ranges::equal(wire.server.opened(), said));
    wire.server.consume(size);
  }
  CHECK(wire.server.seal(Bytes(50, std::byte(1))));
  wire.pump();
  CHECK(wire.server.close());
  wire.pump();
  CHECK(wire.client.closed());
  return wire.sizes;
}

/// What the two ends say when a third changes the `turn`th delivery.
std::pair<TlsFault, TlsFault> faults_after(std::size_t turn, const std::function<void(Bytes&)>& change) {
  const FakeChannels engines;
  Wire wire(&engines);
  std::size_t now = 0;
  for (bool said = false;;) {
    bool any = false;
    for (auto [from, to] : {std::pair(&wire.client, &wire.server), std::pair(&wire.server, &wire.client)}) {
      Bytes bytes(from->output().begin(), from->output().end());
      from->sent(bytes.size());
      if (bytes.empty()) continue;
      any = true;
      if (now++ == turn) change(bytes);
      (void)to->receive(bytes);
    }
    if (any) continue;
    if (said || !wire.client.established() || wire.client.fault() != TlsFault::none) break;
    said = true;
    (void)wire.client.seal(Bytes(40, std::byte(3)));
  }
  return {wire.client.fault(), wire.server.fault()};
}

}  // namespace

TEST_CASE("fake crypto: a channel puts as many bytes on the wire as TLS, in as many flights") {
  const FakeChannels engines;
  const auto fake = conversation(&engines);
  const auto real = conversation(nullptr);
  REQUIRE(fake.size() == real.size());
  for (std::size_t i = 0; i < real.size(); ++i) {
    CAPTURE(i);
    CHECK(fake[i] == real[i]);
  }
}

TEST_CASE("fake crypto: both ends know each other and share an exporter, which no other channel has") {
  const FakeChannels engines;
  Wire one(&engines);
  Wire other(&engines);
  one.pump();
  other.pump();
  CHECK(one.client.peer() == peer(2).id());
  CHECK(one.server.peer() == peer(1).id());
  const auto shared = one.client.exporter(net::kChannelBinding);
  CHECK(shared == one.server.exporter(net::kChannelBinding));
  CHECK(shared != one.client.exporter("EXPORTER-other"));
  CHECK(shared != other.client.exporter(net::kChannelBinding));
}

TEST_CASE("fake crypto: no bit flips unseen, in the handshake or after it, and a failure is final") {
  for (const std::size_t turn : {0U, 1U, 2U, 3U, 4U}) {  // 3: that the acceptor's own records begin
    for (const std::size_t byte : {0U, 1U, 5U, 9U, 20U, 40U, 50U, 53U, 57U, 59U}) {
      if (turn == 3 && byte > 53) continue;
      if (turn == 4 && byte < 4) continue;  // a record that seems longer is waited for
      for (unsigned bit = 0; bit < 8; ++bit) {
        CAPTURE(turn);
        CAPTURE(byte);
        CAPTURE(bit);
        const auto flip = [&](Bytes& bytes) { bytes.at(byte) ^= std::byte(1U << bit); };
        const auto [client, server] = faults_after(turn, flip);
        CHECK((client != TlsFault::none || server != TlsFault::none));
      }
    }
  }
}

TEST_CASE("fake crypto: what is replayed is refused, and what is no TLS at once") {
  CHECK(faults_after(4, [](Bytes& bytes) {
          const Bytes once = bytes;
          bytes.insert(bytes.end(), once.begin(), once.end());
        }).second == TlsFault::record);
  CHECK(faults_after(0, [](Bytes& bytes) { bytes.assign(5, std::byte('G')); }).second == TlsFault::not_tls);
}

TEST_CASE("fake crypto: somebody else than was dialled is refused by the dialler, and hears it; so is one's own key") {
  const FakeChannels engines;
  Wire wrong(&engines, peer(3).id(), peer(2));
  wrong.pump();
  CHECK(wrong.client.fault() == TlsFault::wrong_peer);
  CHECK(wrong.client.receive({}).error() == Errc::denied);
  CHECK(wrong.server.fault() == TlsFault::refused);
  Wire own(&engines, peer(1).id(), peer(1));
  own.pump();
  CHECK(own.client.fault() == TlsFault::own_key);
}

TEST_CASE("fake crypto: a signature fits its signer, message and run only; a real one is taken too") {
  const FakeSignatures scheme;
  const Identity anna = Identity::generate({1}, scheme);
  Signed draft;
  draft.payload = Bytes(100, std::byte(4));
  const Signed said = sign(anna, "run", draft);
  CHECK(verify(said, "run", scheme));
  CHECK(verify(said, "other", scheme).error() == Errc::denied);
  CHECK(verify(said, "run").error() == Errc::denied);  // a program's own check never takes a fake one
  Signed changed = said;
  changed.payload[3] ^= std::byte(1);
  CHECK(verify(changed, "run", scheme).error() == Errc::denied);
  changed = said;
  changed.signature[63] ^= 1U;
  CHECK(verify(changed, "run", scheme).error() == Errc::denied);
  changed = said;
  changed.signer = peer(2).id();
  CHECK(verify(changed, "run", scheme).error() == Errc::denied);
  CHECK(verify(sign(Identity::generate({1}), "run", draft), "run", scheme));
}

}  // namespace collab::sim
