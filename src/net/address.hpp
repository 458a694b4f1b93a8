#pragma once
// Where a peer may be dialled.

#include "base/error.hpp"
#include "crypto/peer_id.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace collab::net {

/// What carries the bytes to an address.
enum class Leg : std::uint8_t {
  tcp,     ///< nothing else
  wss,     ///< WebSocket in TLS (RFC 6455), for networks that let only the web out: net/wss.hpp
  relay,   ///< another peer that both ends can dial, for one whom nobody can: nat/circuit_network.hpp
  onward,  ///< such a one that carries tensors too, for one whom others can dial, but not we; nobody says so of himself
};

inline constexpr std::string_view kWssPath = "/collab/v1";  ///< the resource that a WebSocket asks for
inline constexpr std::uint16_t kWssPort = 443;

/// A numeric IP or a host name, a port, and what carries the bytes. Text: `host:port`, `[v6]:port`,
/// `wss://host:port/collab/v1`, `relay://host:port/RELAY_ID`. A reader older than a leg refuses its text as no address,
/// with `bad_request`: and with it the whole record, manifest or contacts file that it stands in.
///
/// Of a relay it says where that is and who it must be; whom it leads to is for the dialler to know.
struct Address {
  std::string host;
  std::uint16_t port = 0;
  Leg leg = Leg::tcp;
  PeerId relay{};  ///< of `Leg::relay` and `Leg::onward` only
  auto operator<=>(const Address&) const = default;
};

/// The way leads through another peer.
constexpr bool is_relayed(Leg leg) {
  return leg == Leg::relay || leg == Leg::onward;
}

std::string to_string(const Address&);
/// `host:port` or `[v6]:port`, whatever carries the bytes: what a proxy is asked for, and what others see of a host.
std::string host_and_port(const Address&);
/// Of a `wss://` text the port may be missing: 443. Errors: `bad_request` for an empty host, a port outside 1..65535,
/// an IPv6 host without brackets, another path than `kWssPath`, or a relay whose id is none. Port 0 is accepted when
/// `any_port` is set (listening on a port the system chooses).
Result<Address> parse_address(std::string_view text, bool any_port = false);

/// Whether a numeric host is one of IPv6.
constexpr bool is_v6(std::string_view host) {
  return host.find(':') != std::string_view::npos;
}

/// Whether dialling it asks no name server. Names are for what the user or the run's authority wrote (flags, run book,
/// join links, manifest): a stranger's would have us look up whatever it likes, one at a time.
bool is_numeric(const Address&);
/// `parse_address` of what another peer says. Errors: `bad_request` also for a name.
Result<Address> parse_numeric_address(std::string_view text);

}  // namespace collab::net
