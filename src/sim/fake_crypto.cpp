#include "sim/fake_crypto.hpp"

#include "base/bytes.hpp"
#include "crypto/hash.hpp"
#include "crypto/identity.hpp"
#include "net/secure_channel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

namespace collab::sim {
namespace {

using net::TlsFault;

// as OpenSSL 3 writes them with our rules: the test compares
constexpr std::size_t kDiallerFirst = 190;
constexpr std::size_t kAcceptorAnswer = 611;
constexpr std::size_t kDiallerLast = 404;

constexpr std::size_t kHeaderBytes = 5;
constexpr std::size_t kTrailerBytes = 17;  // TLS 1.3: content type and tag
constexpr std::size_t kBodyBytesMax = 16 * 1024 + 256;
constexpr std::size_t kBeginBytes = 32;  // says that records of our own begin
enum RecordType : std::uint8_t { kAlert = 21, kHandshake = 22, kData = 23 };
constexpr std::uint8_t kRefusal = 1;

/// Each step is one to one, so a change of any one word changes the sum.
std::uint64_t sum(std::uint64_t start, std::span<const std::byte> bytes) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15U;
  std::uint64_t value = start;
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), 8);
    value = (value ^ word) * kOdd;
    value ^= value >> 29U;
  }
  std::uint64_t word = bytes.size();
  for (const std::byte byte : bytes) word = word << 8U | std::to_integer<std::uint64_t>(byte);
  return (value ^ word) * kOdd;
}

Signature fake_signature(const PeerId& signer, std::span<const std::byte> message) {
  std::uint64_t word = sum(sum(2, std::as_bytes(std::span(signer.key))), message);
  Signature signature{};
  for (std::size_t i = 0; i < signature.size(); i += sizeof word) {
    word = sum(word, {});
    std::memcpy(signature.data() + i, &word, sizeof word);
  }
  return signature;
}

class FakeChannel final : public net::ChannelEngine {
 public:
  FakeChannel(const PeerId& own, net::Side side, const std::optional<PeerId>& expected, std::uint64_t nonce)
      : own_(own), side_(side), expected_(expected), nonce_(nonce) {
    if (side == net::Side::dialled) introduce(kDiallerFirst);
  }

  std::size_t receive(std::span<const std::byte> ciphertext, std::span<std::byte> room) override {
    if (begun_) return take_own(ciphertext, opened.empty() ? room : std::span<std::byte>());
    const std::size_t before = waiting_.size();
    waiting_.append(ciphertext);
    const std::size_t taken = take_flights(waiting_.bytes());
    waiting_.consume(begun_ ? waiting_.size() : taken);
    waiting_.rest();
    return begun_ ? taken - before : ciphertext.size();
  }

  void seal(std::span<const std::byte> head, std::span<const std::byte> body) override { write_own(head, body); }

  void close() override { write_own({}, {}); }

  std::array<std::byte, 32> exporter(std::string_view label) const override {
    const Digest digest = Hasher("collab fake exporter")
                              .add(key_)
                              .add(std::span(reinterpret_cast<const unsigned char*>(label.data()), label.size()))
                              .finish();
    std::array<std::byte, 32> value{};
    std::memcpy(value.data(), digest.data(), value.size());
    return value;
  }

  void trim() override { waiting_.trim(); }

 private:
  /// A flight of `bytes` in all: who this is, and the half of the key that is ours.
  void introduce(std::size_t bytes) {
    Bytes body(bytes - kHeaderBytes - kTrailerBytes);
    std::memcpy(body.data(), own_.key.data(), own_.key.size());
    std::memcpy(body.data() + own_.key.size(), &nonce_, sizeof nonce_);
    write(kHandshake, body);
  }

  void write(RecordType type, std::span<const std::byte> body) {
    const std::size_t length = body.size() + kTrailerBytes;
    const auto space = output.prepare(kHeaderBytes + length);
    const std::array<std::uint8_t, kHeaderBytes> header = {type, 3, 3, static_cast<std::uint8_t>(length >> 8U),
                                                           static_cast<std::uint8_t>(length & 0xffU)};
    std::memcpy(space.data(), header.data(), header.size());
    if (!body.empty()) std::memcpy(space.data() + kHeaderBytes, body.data(), body.size());
    const auto whole = space.first(kHeaderBytes + body.size());
    const std::uint64_t proof = sum(key_ + sent_++, whole);
    const std::array<std::uint64_t, 2> twice = {proof, ~proof};
    std::memcpy(space.data() + whole.size(), twice.data(), sizeof twice);
    space[whole.size() + sizeof twice] = std::byte{type};
    output.commit(kHeaderBytes + length);
  }

  void write_own(std::span<const std::byte> head, std::span<const std::byte> body) {
    const std::size_t size = head.size() + body.size();
    const net::RecordHeader header = net::record_header(size);
    const auto space = output.prepare(header.size() + size + net::kRecordTagBytes);
    std::ranges::copy(header, space.begin());
    std::copy(body.begin(), body.end(), std::copy(head.begin(), head.end(), space.begin() + header.size()));
    const auto whole = space.first(header.size() + size);
    const std::uint64_t proof = sum(key_ + sent_++, whole);
    const std::array<std::uint64_t, 2> twice = {proof, ~proof};
    std::memcpy(space.data() + whole.size(), twice.data(), sizeof twice);
    output.commit(whole.size() + sizeof twice);
  }

  void alert(std::uint8_t what) {
    const std::array<std::byte, 2> body = {std::byte{1}, std::byte{what}};
    write(kAlert, body);
  }

  void refuse(TlsFault found, std::string reason) {
    alert(kRefusal);
    fail(found, std::move(reason));
  }

  /// How many bytes were whole records of TLS.
  std::size_t take_flights(std::span<const std::byte> bytes) {
    std::size_t taken = 0;
    while (fault == TlsFault::none && !begun_) {
      const auto rest = bytes.subspan(taken);
      if (rest.empty()) break;
      const auto type = std::to_integer<std::uint8_t>(rest.front());
      if (type < kAlert || type > kData || (!established && type == kData)) {
        refuse(established ? TlsFault::record : TlsFault::not_tls, "the other side speaks something else than TLS");
        break;
      }
      if (rest.size() < kHeaderBytes) break;
      const std::size_t length = std::to_integer<std::size_t>(rest[3]) << 8U | std::to_integer<std::size_t>(rest[4]);
      if (length > kBodyBytesMax + kTrailerBytes || length < kTrailerBytes) {
        refuse(TlsFault::record, "damaged or forged bytes");
        break;
      }
      if (rest.size() < kHeaderBytes + length) break;
      take(static_cast<RecordType>(type), rest.first(kHeaderBytes + length));
      taken += kHeaderBytes + length;
    }
    return taken;
  }

  /// The size of the record that `bytes` begin with, as far as they tell; 0: it is not right.
  std::size_t whole(std::span<const std::byte> bytes) {
    if (bytes.size() < net::kRecordHeaderBytes) return net::kRecordHeaderBytes;
    const auto size = net::plaintext_bytes(bytes.first<net::kRecordHeaderBytes>());
    if (size) return net::kRecordHeaderBytes + *size + net::kRecordTagBytes;
    fail(TlsFault::record, "damaged or forged bytes");
    return 0;
  }

  std::size_t take_own(std::span<const std::byte> bytes, std::span<std::byte> room) {
    if (waiting_.empty()) {
      const std::size_t size = whole(bytes);
      if (fault != TlsFault::none) return bytes.size();
      if (bytes.size() >= size) {
        open_record(bytes.first(size), room);
        return size;
      }
    }
    std::size_t taken = 0;
    for (std::size_t size = whole(waiting_.bytes()); waiting_.size() < size; size = whole(waiting_.bytes())) {
      const auto more = bytes.subspan(taken, std::min(bytes.size() - taken, size - waiting_.size()));
      if (more.empty()) return taken;
      waiting_.append(more);
      taken += more.size();
    }
    if (fault == TlsFault::none) open_record(waiting_.bytes(), room);
    waiting_.consume(waiting_.size());
    waiting_.rest();
    return fault == TlsFault::none ? taken : bytes.size();
  }

  void open_record(std::span<const std::byte> record, std::span<std::byte> room) {
    const auto whole = record.first(record.size() - net::kRecordTagBytes);
    const std::uint64_t proof = sum(key_ + received_++, whole);
    const std::array<std::uint64_t, 2> twice = {proof, ~proof};
    if (std::memcmp(record.data() + whole.size(), twice.data(), sizeof twice) != 0)
      return fail(TlsFault::record, "damaged or forged bytes");
    const auto text = whole.subspan(net::kRecordHeaderBytes);
    closed = text.empty();
    if (text.size() <= room.size()) {
      placed = text.size();
      std::copy(text.begin(), text.end(), room.begin());
    } else {
      opened.append(text);
    }
  }

  void take(RecordType type, std::span<const std::byte> record) {
    const auto whole = record.first(record.size() - kTrailerBytes);
    const auto trailer = record.subspan(whole.size());
    const std::uint64_t proof = sum(key_ + received_++, whole);
    const std::array<std::uint64_t, 2> twice = {proof, ~proof};
    if (std::memcmp(trailer.data(), twice.data(), sizeof twice) != 0 || trailer.back() != std::byte{type})
      return refuse(TlsFault::record, "damaged or forged bytes");
    const auto body = whole.subspan(kHeaderBytes);
    if (type == kHandshake) return meet(body);
    if (type == kData) {
      begun_ = true;
      return;
    }
    fail(TlsFault::refused, "the other side refuses this peer");
  }

  void meet(std::span<const std::byte> body) {
    if (established || body.size() < sizeof(PeerId) + sizeof nonce_)
      return refuse(TlsFault::record, "damaged or forged bytes");
    PeerId theirs;
    std::memcpy(theirs.key.data(), body.data(), theirs.key.size());
    std::uint64_t nonce = 0;
    std::memcpy(&nonce, body.data() + theirs.key.size(), sizeof nonce);
    const bool first_of_two = side_ == net::Side::accepted && !greeted_;
    if (first_of_two) {
      greeted_ = true;
      introduce(kAcceptorAnswer);
      agree(nonce);
      return;
    }
    if (side_ == net::Side::dialled) agree(nonce);
    if (theirs == own_) return refuse(TlsFault::own_key, "it has our own key");
    if (expected_ && theirs != *expected_)
      return refuse(TlsFault::wrong_peer, fmt::format("{} was dialled, {} answers", expected_->text(), theirs.text()));
    if (side_ == net::Side::dialled) introduce(kDiallerLast);
    peer = theirs;
    established = true;
    write(kData, Bytes(kBeginBytes));
  }

  void agree(std::uint64_t theirs) {
    const std::array<std::uint64_t, 2> both = {std::min(nonce_, theirs), std::max(nonce_, theirs)};
    key_ = sum(1, std::as_bytes(std::span(both)));
    sent_ = received_ = 0;
  }

  PeerId own_;
  net::Side side_;
  std::optional<PeerId> expected_;
  std::uint64_t nonce_;
  std::uint64_t key_ = 0;  // of both, once they have met
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
  bool greeted_ = false;
  bool begun_ = false;      // the other end sends records of our own
  net::ByteQueue waiting_;  // a record's beginning
};

}  // namespace

Signature FakeSignatures::sign(const Identity& signer, std::span<const std::byte> message) const {
  return fake_signature(signer.id(), message);
}

bool FakeSignatures::verify(const PeerId& signer, std::span<const std::byte> message,
                            const Signature& signature) const {
  return fake_signature(signer, message) == signature || ed25519().verify(signer, message, signature);
}

std::unique_ptr<net::ChannelEngine> FakeChannels::make(const PeerId& own, net::Side side,
                                                       const std::optional<PeerId>& expected) const {
  return std::make_unique<FakeChannel>(own, side, expected, ++made_);
}

std::string_view name(Crypto crypto) noexcept {
  return crypto == Crypto::real ? "real" : "fake";
}

std::optional<Crypto> crypto_named(std::string_view text) noexcept {
  for (const Crypto crypto : {Crypto::real, Crypto::fake})
    if (name(crypto) == text) return crypto;
  return std::nullopt;
}

}  // namespace collab::sim
