#pragma once
// Peers without keys, told apart by a number.

#include "crypto/peer_id.hpp"

namespace collab::test {

/// Easy to read where a test fails; never a real key.
inline PeerId peer(unsigned number) {
  PeerId id;
  id.key[0] = static_cast<unsigned char>(number >> 8U);
  id.key[1] = static_cast<unsigned char>(number);
  id.key[31] = 1;
  return id;
}

}  // namespace collab::test
