#pragma once
// Where this machine's way to the internet begins.

#include <optional>
#include <string>
#include <string_view>

namespace collab::nat {

/// The router of the default route for IPv4 in a Linux routing table as /proc/net/route prints it; of several the one
/// with the smallest metric. None: no default route, or one without a router.
std::optional<std::string> parse_default_router(std::string_view table);

/// The router of this machine now, if its address is private: one that can be asked to map a port.
std::optional<std::string> private_router();

}  // namespace collab::nat
