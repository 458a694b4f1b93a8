#include "crypto/peer_id.hpp"

#include "base/random.hpp"
#include "base/text.hpp"
#include "crypto/identity.hpp"

#include <sodium.h>

#include <array>
#include <vector>

#include "support/doctest.hpp"

namespace collab {
namespace {

PeerId some_id(unsigned char number) {
  Identity::Seed seed{};
  seed[0] = number;
  return Identity::generate(seed).id();
}

/// As `PeerId::text` writes it, but of any key and version.
std::string text_of(const std::array<unsigned char, 32>& key, unsigned char version) {
  std::vector<unsigned char> bytes(key.begin(), key.end());
  bytes.push_back(version);
  std::array<unsigned char, 32> digest;
  crypto_generichash(digest.data(), digest.size(), bytes.data(), bytes.size(), nullptr, 0);
  bytes.insert(bytes.end(), digest.begin(), digest.begin() + 2);
  return to_base32(bytes);
}

}  // namespace

TEST_CASE("peer id: 56 letters, and back") {
  for (unsigned char number = 0; number < 50; ++number) {
    const PeerId id = some_id(number);
    CHECK(id.text().size() == 56);
    CHECK(id.text().starts_with(id.short_text()));
    CHECK(PeerId::parse(id.text()).value() == id);
  }
}

TEST_CASE("peer id: the text of a known key does not change") {  // RFC 8032 7.1, test 1
  const auto seed = from_hex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60").value();
  Identity::Seed array{};
  std::copy(seed.begin(), seed.end(), array.begin());
  const PeerId id = Identity::generate(array).id();
  CHECK(to_hex(id.key) == "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
  CHECK(id.text() == text_of(id.key, 1));
}

TEST_CASE("peer id: every slip of one letter is found") {
  const std::string right = some_id(7).text();
  Random random(1);
  for (std::size_t at = 0; at < right.size(); ++at) {
    std::string wrong = right;
    while (wrong[at] == right[at]) wrong[at] = "abcdefghijklmnopqrstuvwxyz234567"[random.below(32)];
    CHECK_FALSE(PeerId::parse(wrong));
  }
}

TEST_CASE("peer id: what is wrong with a text is said") {
  const PeerId id = some_id(7);
  const std::string right = id.text();
  CHECK(PeerId::parse("").error() == PeerIdErrc::length);
  CHECK(PeerId::parse(right + "a").error() == PeerIdErrc::length);
  CHECK(PeerId::parse(right.substr(1)).error() == PeerIdErrc::length);
  CHECK(PeerId::parse("1" + right.substr(1)).error() == PeerIdErrc::letter);
  CHECK(PeerId::parse("A" + right.substr(1)).error() == PeerIdErrc::letter);
  CHECK(PeerId::parse(text_of(id.key, 2)).error() == PeerIdErrc::version);
  std::string swapped = right;
  std::swap(swapped[3], swapped[4]);
  REQUIRE(swapped != right);
  CHECK(PeerId::parse(swapped).error() == PeerIdErrc::checksum);
  CHECK(PeerId::parse(swapped).error().message().find("mistyped") != std::string::npos);
}

TEST_CASE("peer id: keys that anybody can sign for, and second encodings, are refused") {
  std::array<unsigned char, 32> zero{};
  CHECK(PeerId::parse(text_of(zero, 1)).error() == PeerIdErrc::weak_key);
  std::array<unsigned char, 32> neutral{};
  neutral[0] = 1;
  CHECK(PeerId::parse(text_of(neutral, 1)).error() == PeerIdErrc::weak_key);
  std::array<unsigned char, 32> neutral_again;  // 2^255 - 18: the same point
  neutral_again.fill(0xff);
  neutral_again[0] = 0xee;
  neutral_again[31] = 0x7f;
  CHECK(PeerId::parse(text_of(neutral_again, 1)).error() == PeerIdErrc::non_canonical);
  CHECK(PeerId::parse_listed(text_of(neutral_again, 1)).error() == PeerIdErrc::non_canonical);
  CHECK(PeerId::parse_listed(text_of(neutral, 1)));  // TLS refuses it
  std::array<unsigned char, 32> off_curve{};
  off_curve[0] = 2;
  CHECK(check_key(PeerId{off_curve}).error() == PeerIdErrc::weak_key);
}

}  // namespace collab
