#pragma once
// Peers that tests of this room tell apart by a number.

#include "crypto/peer_id.hpp"

namespace collab::net {

inline PeerId numbered(unsigned char number) {
  PeerId peer;
  peer.key[0] = number;
  return peer;
}

}  // namespace collab::net
