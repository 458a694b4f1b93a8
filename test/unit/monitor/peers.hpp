#pragma once
// Peers that tests of this room tell apart by a number.

#include "crypto/peer_id.hpp"

namespace collab::monitor {

inline PeerId peer(unsigned char number) {
  PeerId id;
  id.key[0] = number;
  return id;
}

}  // namespace collab::monitor
