#include "nat/explain.hpp"

#include "net/address.hpp"

#include <fmt/format.h>

namespace collab::nat {

std::string describe(const Mapping& mapping) {
  const std::string lease =
      mapping.lease_s == 0 ? "until this peer leaves" : fmt::format("for {} s at a time", mapping.lease_s);
  net::Address outside;
  outside.host = mapping.outside_host.empty() ? "the router" : mapping.outside_host;
  outside.port = mapping.outside_port;
  return fmt::format("mapped by {}: {} leads to port {} here, {}", name(mapping.by), net::to_string(outside),
                     mapping.inside_port, lease);
}

Explanation explain_unreachable(const MappingStatus& status, std::uint16_t port, std::string_view observed) {
  using Phase = MappingStatus::Phase;
  Explanation out;
  const std::string forward = fmt::format("forward TCP port {} to this machine there", port);
  switch (status.phase) {
    case Phase::mapped:
      if (const auto second = second_nat(*status.mapping, observed)) {
        out.why =
            fmt::format("the router mapped port {}, which leads nowhere: {}", status.mapping->outside_port, *second);
        out.remedy = "set one of the two routers to bridge mode, or ask the provider for a public address or IPv6";
      } else {
        out.why = fmt::format("the router mapped port {}, yet nobody gets through: the provider or a firewall filters",
                              status.mapping->outside_port);
        out.remedy = fmt::format("allow TCP port {} in this machine's firewall, or ask the provider", port);
      }
      break;
    case Phase::refused:
      out.why = fmt::format("the router at {} maps no port: {}", status.router, describe(status.trials));
      out.remedy = fmt::format("switch on UPnP or NAT-PMP in the router, or {}", forward);
      break;
    case Phase::asking:
      out.why = fmt::format("the router at {} has not answered yet", status.router);
      out.remedy = fmt::format("wait, or {}", forward);
      break;
    case Phase::off:
      out.why = "nobody gets through from outside, and no router is asked for a port";
      out.remedy = fmt::format("leave out --no-port-map, or forward TCP port {} at the router to this machine", port);
      break;
    case Phase::no_router:
      out.why = "nobody gets through from outside, and no home router is in between that could map a port";
      out.remedy = fmt::format("allow TCP port {} in the firewall of this machine or network", port);
      break;
  }
  return out;
}

}  // namespace collab::nat
