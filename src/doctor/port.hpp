#pragma once
// Whether a port can be had for others to dial.

#include "doctor/finding.hpp"
#include "net/network.hpp"

#include <optional>

namespace collab::doctor {

struct PortWish {
  std::optional<net::Address> wanted;  ///< numeric; port 0: any. None: [::]:4600, else 4601 to 4619, else any
  bool client = false;                 ///< none at all
  bool peer_here = false;              ///< a peer of this home is running, which may be what holds the port
};

struct PortCheck {
  Finding finding;
  std::optional<net::Address> open;  ///< where one can listen now
};

/// Opens each port that it tries, and closes it at once.
PortCheck check_port(net::Network& network, const PortWish& wish);

}  // namespace collab::doctor
