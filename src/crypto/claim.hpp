#pragma once
// What a peer may do in a run.

#include <cstdint>

namespace collab {

enum class Claim : std::uint8_t {
  join,        ///< be connected, read the manifest and the directory
  contribute,  ///< send gradients
  reduce,      ///< own segments
  directory,   ///< serve records
  relay,       ///< carry others' bytes
  coordinate,  ///< sign what all obey
};

}  // namespace collab
