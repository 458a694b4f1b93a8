#pragma once
// Where a peer may be dialled.

#include "base/error.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace collab::net {

/// A numeric IP or a host name, and a port. Text: `host:port`, `[v6]:port`.
struct Address {
  std::string host;
  std::uint16_t port = 0;
  auto operator<=>(const Address&) const = default;
};

std::string to_string(const Address&);
/// Errors: `bad_request` for an empty host, a port outside 1..65535, or an IPv6 host without brackets. Port 0 is
/// accepted when `any_port` is set (listening on a port the system chooses).
Result<Address> parse_address(std::string_view text, bool any_port = false);

/// Whether dialling it asks no name server. Names are for what the user or the run's authority wrote (flags, run book,
/// join links, manifest): a stranger's would have us look up whatever it likes, one at a time.
bool is_numeric(const Address&);
/// `parse_address` of what another peer says. Errors: `bad_request` also for a name.
Result<Address> parse_numeric_address(std::string_view text);

}  // namespace collab::net
