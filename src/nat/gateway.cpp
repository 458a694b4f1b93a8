#include "nat/gateway.hpp"

#include "nat/protocols.hpp"

#include <array>
#include <stdexcept>

namespace collab::nat {

std::string_view name(Protocol protocol) noexcept {
  constexpr std::array<std::string_view, 2> kNames = {"NAT-PMP", "UPnP"};
  return kNames[static_cast<std::size_t>(protocol)];
}

void throw_exception_from_error(const GatewayRefusal& refusal, const boost::source_location&) {
  throw std::runtime_error(refusal.text);
}

Gateways real_gateways(const asio::any_io_executor& executor, Clock& clock) {
  Gateways all;
  all.push_back(natpmp_gateway(executor, clock));
  all.push_back(upnp_gateway(executor, clock));
  return all;
}

}  // namespace collab::nat
