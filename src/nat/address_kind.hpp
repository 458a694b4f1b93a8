#pragma once
// Which addresses the whole internet can dial, and which belong to somebody's own network.

#include <string_view>

namespace collab::nat {

/// Numeric, and one that routers everywhere would deliver to: not private, shared (100.64/10), loopback, link-local,
/// documentation, benchmarking, multicast or reserved; of IPv6 only 2000::/3. A v4-mapped one is judged as IPv4.
bool is_public(std::string_view host);

/// Numeric IPv4 of a network behind some router: 10/8, 172.16/12, 192.168/16, 169.254/16, and what providers hand out
/// inside of theirs, 100.64/10.
bool is_private_v4(std::string_view host);

}  // namespace collab::nat
