#pragma once
// What a peer may do in a run.

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

namespace collab {

enum class Claim : std::uint8_t {
  join,        ///< be connected, read the manifest and the directory
  contribute,  ///< send gradients
  reduce,      ///< own segments
  directory,   ///< serve records
  relay,       ///< carry others' bytes
  coordinate,  ///< sign what all obey
};

inline constexpr auto kEveryClaim = {Claim::join,      Claim::contribute, Claim::reduce,
                                     Claim::directory, Claim::relay,      Claim::coordinate};

std::string_view name(Claim) noexcept;
/// The inverse of `name`.
std::optional<Claim> claim_named(std::string_view name) noexcept;

/// A set of them.
class Claims {
 public:
  constexpr Claims() = default;
  constexpr Claims(std::initializer_list<Claim> claims) {
    for (const Claim claim : claims) add(claim);
  }
  /// Nothing for a bit that names no claim.
  static constexpr std::optional<Claims> of_bits(std::uint8_t bits) {
    if (bits >> kEveryClaim.size() != 0) return std::nullopt;
    Claims claims;
    claims.bits_ = bits;
    return claims;
  }
  constexpr std::uint8_t bits() const { return bits_; }
  constexpr void add(Claim claim) { bits_ = static_cast<std::uint8_t>(bits_ | 1U << static_cast<unsigned>(claim)); }
  constexpr bool has(Claim claim) const { return (bits_ >> static_cast<unsigned>(claim) & 1U) != 0; }
  bool operator==(const Claims&) const = default;

 private:
  std::uint8_t bits_ = 0;
};

/// What an open run grants everybody, and a token unless it says less.
inline constexpr Claims kMemberClaims = {Claim::join, Claim::contribute, Claim::reduce, Claim::directory, Claim::relay};

}  // namespace collab
