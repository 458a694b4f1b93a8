#pragma once
// Why a sender is left out of a segment.

#include <cstdint>

namespace collab::averaging {

/// overlap: its units are counted already, in this round by another sender or in an earlier one.
enum class Fault : std::uint8_t { none, malformed, not_finite, conflict, weight_refused, overlap };

}  // namespace collab::averaging
