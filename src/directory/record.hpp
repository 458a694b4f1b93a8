#pragma once
// A signed, expiring fact under (run, key, owner, subkey).

#include "base/bytes.hpp"
#include "crypto/peer_id.hpp"

#include <cstdint>
#include <string>

namespace collab::directory {

inline constexpr std::size_t kKeyBytesMax = 128;
inline constexpr std::size_t kSubkeyBytesMax = 64;
inline constexpr std::size_t kValueBytesMax = 1024;

/// As a reader sees it: the signature is checked, the policy of the key is kept, it has not expired.
struct Record {
  std::string key;
  PeerId owner;  ///< who signed it
  std::string subkey;
  std::uint64_t sequence = 0;   ///< of equal (key, owner, subkey) the greatest wins
  std::int64_t expires_ms = 0;  ///< Unix milliseconds
  Bytes value;
};

}  // namespace collab::directory
