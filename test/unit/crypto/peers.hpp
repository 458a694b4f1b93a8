#pragma once
// Peers that tests of this room tell apart by a number, and the time they live in.

#include "crypto/identity.hpp"

#include <cstdint>

namespace collab {

inline constexpr std::int64_t kNow = 1'790'000'000'000;

inline PeerId peer(unsigned char number) {
  return Identity::generate({number}).id();
}

}  // namespace collab
