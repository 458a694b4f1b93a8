#pragma once
// The two protocols that home routers speak.

#include "nat/gateway.hpp"

namespace collab::nat {

/// By libnatpmp: tries at 0, 250 and 750 ms.
std::unique_ptr<Gateway> natpmp_gateway(const asio::any_io_executor& executor, Clock& clock);
/// By miniupnpc. Only a device inside of a private network is believed to be the router.
std::unique_ptr<Gateway> upnp_gateway(const asio::any_io_executor& executor, Clock& clock);

}  // namespace collab::nat
