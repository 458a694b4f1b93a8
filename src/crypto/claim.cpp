#include "crypto/claim.hpp"

namespace collab {

std::string_view name(Claim claim) noexcept {
  switch (claim) {
    case Claim::join: return "join";
    case Claim::contribute: return "contribute";
    case Claim::reduce: return "reduce";
    case Claim::directory: return "directory";
    case Claim::relay: return "relay";
    case Claim::coordinate: return "coordinate";
  }
  return "unknown";
}

std::optional<Claim> claim_named(std::string_view text) noexcept {
  for (const Claim claim : kEveryClaim)
    if (name(claim) == text) return claim;
  return std::nullopt;
}

}  // namespace collab
