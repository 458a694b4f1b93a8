#pragma once
// Why a sender is left out of a segment.

#include <cstdint>

namespace collab::averaging {

enum class Fault : std::uint8_t { none, malformed, not_finite, conflict, weight_refused };

}  // namespace collab::averaging
