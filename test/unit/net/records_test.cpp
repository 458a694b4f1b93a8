#include "net/records.hpp"

#include "base/bytes.hpp"
#include "base/random.hpp"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <vector>

#include "support/doctest.hpp"

namespace collab::net {
namespace {

RecordKeys::Material material_of(std::uint64_t number) {
  RecordKeys::Material material{};
  for (std::size_t i = 0; i < material.size(); ++i) material[i] = static_cast<std::byte>(i * 7 + number);
  return material;
}

/// All of `sealed`, record by record.
RecordOpener::State open_all(RecordOpener& opener, std::span<const std::byte> sealed, ByteQueue& opened) {
  while (!sealed.empty()) sealed = sealed.subspan(opener.open(sealed, {}, opened).sealed);
  return opener.state();
}

Bytes noise(std::size_t size, Random& random) {
  Bytes bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random.next());
  return bytes;
}

std::vector<const EVP_CIPHER*> ciphers() {
  return {EVP_aes_128_gcm(), EVP_chacha20_poly1305()};  // what TLS may have chosen
}

}  // namespace

TEST_CASE("records: whatever is sealed is opened, in pieces of any size, by each cipher and over changes of the key") {
  for (const EVP_CIPHER* cipher : ciphers()) {
    for (const std::uint64_t seed : test::seeds(10)) {
      CAPTURE(seed);
      Random random(seed);
      RecordSealer sealer(cipher, material_of, 5);
      RecordOpener opener(cipher, material_of, 5);
      ByteQueue sealed;
      ByteQueue opened;
      Bytes all;
      for (int i = 0; i < 20; ++i) {
        const Bytes head = noise(random.below(40), random);
        const Bytes body = noise(1 + random.below(random.chance(0.2) ? kRecordBytes - 40 : 200), random);
        sealer.seal(head, body, sealed);
        all.insert(all.end(), head.begin(), head.end());
        all.insert(all.end(), body.begin(), body.end());
      }
      sealer.seal_last(sealed);
      auto state = RecordOpener::State::open;
      while (!sealed.empty()) {
        CHECK(state == RecordOpener::State::open);
        const std::size_t piece =
            std::min<std::size_t>(1 + random.below(random.chance(0.5) ? 30 : 90'000), sealed.size());
        state = open_all(opener, sealed.bytes().first(piece), opened);
        sealed.consume(piece);
      }
      CHECK(state == RecordOpener::State::ended);
      CHECK(std::ranges::equal(opened.bytes(), all));
    }
  }
}

TEST_CASE("record header: tells every size, and nothing once one or two bits that are no pair were flipped") {
  for (std::size_t size = 0; size <= kRecordBytes; ++size) {
    const RecordHeader header = record_header(size);
    REQUIRE(plaintext_bytes(header) == size);
  }
  const auto flipped = [](RecordHeader header, std::initializer_list<std::size_t> bits) {
    for (const std::size_t bit : bits) header[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    return header;
  };
  for (const std::size_t size : {0U, 1U, 2U, 100U, 256U, 257U, 4096U, 65'535U, 65'536U}) {
    CAPTURE(size);
    const RecordHeader header = record_header(size);
    for (std::size_t a = 0; a < 32; ++a) {
      for (std::size_t b = a; b < 32; ++b) {
        const bool pair = size > 0 && a < 16 && b == a + (a < 8 ? 24 : 8);
        const RecordHeader changed = a == b ? flipped(header, {a}) : flipped(header, {a, b});
        CHECK(plaintext_bytes(changed).has_value() == pair);
      }
    }
  }
}

TEST_CASE("records: of a record that was changed nothing is shown, and nothing after it") {
  for (const EVP_CIPHER* cipher : ciphers()) {
    Random random(5);
    for (int i = 0; i < 300; ++i) {
      CAPTURE(i);
      RecordSealer sealer(cipher, material_of, 100);
      RecordOpener opener(cipher, material_of, 100);
      ByteQueue sealed;
      ByteQueue opened;
      const Bytes text = noise(100, random);
      sealer.seal(text, {}, sealed);
      const std::size_t first = sealed.size();
      sealer.seal(text, {}, sealed);
      sealer.seal(noise(kRecordBytes, random), {}, sealed);  // so that a record that seems longer comes whole
      Bytes bytes(sealed.bytes().begin(), sealed.bytes().end());
      bytes[first + random.below(first)] ^= static_cast<std::byte>(1U << random.below(8));
      CHECK(open_all(opener, bytes, opened) == RecordOpener::State::damaged);
      CHECK(std::ranges::equal(opened.bytes(), text));
      CHECK(open_all(opener, text, opened) == RecordOpener::State::damaged);
      CHECK(opened.size() == text.size());
    }
  }
}

TEST_CASE("record cipher: wide AES and OpenSSL's open what the other has sealed, bit by bit the same") {
  const auto wide_sealer = make_wide_aes_cipher(RecordCipher::Direction::seals);
  const auto wide_opener = make_wide_aes_cipher(RecordCipher::Direction::opens);
  if (!wide_sealer) {
    MESSAGE("this processor has no VAES of AVX-512: nothing to compare");
    return;
  }
  const auto sealer = make_openssl_cipher(EVP_aes_128_gcm(), RecordCipher::Direction::seals);
  const auto opener = make_openssl_cipher(EVP_aes_128_gcm(), RecordCipher::Direction::opens);
  for (const std::uint64_t seed : test::seeds(200)) {
    CAPTURE(seed);
    Random random(seed);
    RecordCipher::Nonce nonce;
    std::ranges::copy(noise(nonce.size(), random), nonce.begin());
    const Bytes header = noise(kRecordHeaderBytes, random);
    const Bytes text = noise(random.below(random.chance(0.3) ? kRecordBytes : 300), random);
    const std::size_t cut = random.below(text.size() + 1);
    const Bytes key = noise(RecordCipher::kKeyBytes, random);
    for (RecordCipher* one : {wide_sealer.get(), wide_opener.get(), sealer.get(), opener.get()})
      one->set_key(std::span<const std::byte, RecordCipher::kKeyBytes>(key));
    const auto turned = [&](RecordCipher& cipher, const Bytes& from, std::size_t at) {
      Bytes into(from.size());
      cipher.begin(nonce, header);
      cipher.turn(std::span(from).first(at), into.data());
      cipher.turn(std::span(from).subspan(at), into.data() + at);
      return into;
    };
    const Bytes sealed = turned(*sealer, text, text.size());
    const RecordCipher::Tag tag = sealer->finish_sealing();
    CHECK(turned(*wide_sealer, text, cut) == sealed);
    CHECK(wide_sealer->finish_sealing() == tag);
    CHECK(turned(*wide_opener, sealed, cut) == text);
    CHECK(wide_opener->finish_opening(tag));
    CHECK(turned(*opener, sealed, cut) == text);
    CHECK(opener->finish_opening(tag));
    RecordCipher::Tag forged = tag;
    forged[random.below(forged.size())] ^= static_cast<std::byte>(1U << random.below(8));
    CHECK(turned(*wide_opener, sealed, cut) == text);
    CHECK_FALSE(wide_opener->finish_opening(forged));
  }
}

TEST_CASE("records: one that is left out, repeated, or another direction's is noticed") {
  const auto others = [](std::uint64_t number) { return material_of(number + 100); };
  for (const EVP_CIPHER* cipher : ciphers()) {
    RecordSealer sealer(cipher, material_of, 100);
    Random random(5);
    std::vector<Bytes> records;
    for (int i = 0; i < 3; ++i) {
      ByteQueue sealed;
      sealer.seal(noise(50, random), {}, sealed);
      records.emplace_back(sealed.bytes().begin(), sealed.bytes().end());
    }
    for (const std::vector<std::size_t>& order : {std::vector<std::size_t>{0, 2}, {0, 0}, {1}}) {
      RecordOpener opener(cipher, material_of, 100);
      ByteQueue opened;
      for (const std::size_t one : order) (void)open_all(opener, records[one], opened);
      CHECK(opener.state() == RecordOpener::State::damaged);
      CHECK(opened.size() == (order.size() - 1) * 50);
    }
    RecordOpener stranger(cipher, others, 100);
    ByteQueue opened;
    CHECK(open_all(stranger, records[0], opened) == RecordOpener::State::damaged);
  }
}

}  // namespace collab::net
