#pragma once
// Why others cannot dial this machine, and what its owner can do about it: for the log, the doctor, and people.

#include "nat/port_mapping.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace collab::nat {

/// Phrases without a full stop.
struct Explanation {
  std::string why;
  std::string remedy;
};

/// Of a node that listens at `port` and that dial-backs do not reach. `observed`: its address as others see it; empty:
/// unknown.
Explanation explain_unreachable(const MappingStatus& status, std::uint16_t port, std::string_view observed);

/// "mapped by NAT-PMP: 11.99.0.11:4600 leads here, for 3600 s at a time".
std::string describe(const Mapping& mapping);

}  // namespace collab::nat
