#pragma once
// Whether a port can be had for others to dial.

#include "doctor/finding.hpp"
#include "net/network.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace collab::doctor {

struct PortWish {
  std::optional<net::Address> wanted;  ///< numeric; port 0: any. None: [::]:4600, else 4601 to 4619, else any
  bool client = false;                 ///< none at all
  bool peer_here = false;              ///< a peer of this home is running, which may be what holds the port
};

struct PortCheck {
  Finding finding;
  std::optional<net::Address> open;  ///< where a peer would listen if it started now; none: nowhere, or not to be known
};

/// Opens each port that it tries, and closes it at once. Fails as a start would: a port that is taken or not allowed is
/// a matter of this machine, an address of another one is wrong usage.
PortCheck check_port(net::Network& network, const PortWish& wish);
/// The same of the port for WebSockets, at `host`. `peer_here`: as in PortWish.
Finding check_wss_port(net::Network& network, const std::string& host, std::uint16_t port, bool peer_here);

}  // namespace collab::doctor
