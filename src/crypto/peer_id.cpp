#include "crypto/peer_id.hpp"

#include "base/text.hpp"

#include <sodium.h>

#include <algorithm>
#include <span>

namespace collab {
namespace {

constexpr std::size_t kKeyBytes = 32;
constexpr std::size_t kChecksumBytes = 2;
constexpr std::size_t kIdBytes = kKeyBytes + 1 + kChecksumBytes;
constexpr std::size_t kTextLetters = kIdBytes * 8 / 5;
constexpr unsigned char kVersion = 0x01;
static_assert(kTextLetters == 56 && kIdBytes % 5 == 0);

class Category final : public boost::system::error_category {
 public:
  const char* name() const noexcept override { return "peer id"; }

  std::string message(int value) const override {
    switch (static_cast<PeerIdErrc>(value)) {
      case PeerIdErrc::length: return "a peer id has 56 letters";
      case PeerIdErrc::letter: return "a peer id has only the letters a-z and the digits 2-7";
      case PeerIdErrc::version: return "a peer id of a newer form; update collab";
      case PeerIdErrc::checksum: return "mistyped: the peer id's checksum does not fit";
      case PeerIdErrc::non_canonical: return "not a peer id: a key in a second encoding";
      case PeerIdErrc::weak_key: return "not a peer id: a key that proves nothing";
    }
    return "not a peer id";
  }
};

using IdBytes = std::array<unsigned char, kIdBytes>;

IdBytes with_checksum(const std::array<unsigned char, kKeyBytes>& key) {
  IdBytes bytes;
  std::copy(key.begin(), key.end(), bytes.begin());
  bytes[kKeyBytes] = kVersion;
  std::array<unsigned char, 32> digest;
  crypto_generichash(digest.data(), digest.size(), bytes.data(), kKeyBytes + 1, nullptr, 0);
  std::copy_n(digest.begin(), kChecksumBytes, bytes.begin() + kKeyBytes + 1);
  return bytes;
}

/// Whether the coordinate y (the low 255 bits) is below the field's prime 2^255 - 19.
bool is_reduced(const std::array<unsigned char, kKeyBytes>& key) {
  if ((key[31] & 0x7fU) != 0x7fU) return true;
  const auto full = [](unsigned char byte) { return byte == 0xff; };
  return !std::all_of(key.begin() + 1, key.end() - 1, full) || key[0] < 0xed;
}

}  // namespace

boost::system::error_code make_error_code(PeerIdErrc errc) noexcept {
  static const Category category;
  return {static_cast<int>(errc), category};
}

std::string PeerId::text() const {
  return to_base32(with_checksum(key));
}

Result<PeerId> PeerId::parse(std::string_view text) {
  auto id = parse_listed(text);
  if (!id) return id;
  if (const auto usable = check_key(*id); !usable) return usable.error();
  return id;
}

Result<PeerId> PeerId::parse_listed(std::string_view text) {
  if (text.size() != kTextLetters) return PeerIdErrc::length;
  const auto bytes = from_base32(text);
  if (!bytes) return PeerIdErrc::letter;
  if ((*bytes)[kKeyBytes] != kVersion) return PeerIdErrc::version;
  PeerId id;
  std::copy_n(bytes->begin(), kKeyBytes, id.key.begin());
  const auto right = with_checksum(id.key);
  if (!std::equal(right.begin(), right.end(), bytes->begin(), bytes->end())) return PeerIdErrc::checksum;
  if (!is_reduced(id.key)) return PeerIdErrc::non_canonical;
  return id;
}

Result<> check_key(const PeerId& id) {
  if (!is_reduced(id.key)) return PeerIdErrc::non_canonical;
  if (crypto_core_ed25519_is_valid_point(id.key.data()) != 1) return PeerIdErrc::weak_key;
  return {};
}

}  // namespace collab
