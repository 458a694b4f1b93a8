#pragma once
// Why a sender is left out of a segment.

#include <array>
#include <cstdint>
#include <string_view>

namespace collab::averaging {

/// overlap: its units are counted already, in this round by another sender or in an earlier one.
enum class Fault : std::uint8_t { none, malformed, not_finite, conflict, weight_refused, overlap };

constexpr std::string_view name(Fault fault) noexcept {
  constexpr std::array<std::string_view, 6> kNames = {"none",     "malformed",      "not_finite",
                                                      "conflict", "weight_refused", "overlap"};
  return kNames.at(static_cast<std::size_t>(fault));
}

}  // namespace collab::averaging
