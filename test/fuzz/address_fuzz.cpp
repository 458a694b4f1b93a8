// Addresses as people and peers write them: refused, or the same when written and read again; of no text two are read.
#include "net/address.hpp"
#include "support.hpp"

namespace collab::fuzz::address_target {

COLLAB_FUZZ_TARGET(address) {
  const std::string_view text = fuzz::text_of(fuzz::bytes_of(data, size));
  for (const bool any_port : {false, true}) {
    const auto address = net::parse_address(text, any_port);
    if (!address) continue;
    require((address->port != 0 || any_port) && !address->host.empty() && address->host.size() <= 253);
    require((address->leg == net::Leg::wss) == text.starts_with("wss://"));
    require((address->leg == net::Leg::relay) == text.starts_with("relay://"));
    const std::string written = net::to_string(*address);
    require(net::parse_address(written, any_port).value() == *address);
    // it goes into requests and logs as it is
    for (const char c : written) require(c > ' ' && c < '\x7f');
    net::Address bare = *address;
    bare.leg = net::Leg::tcp;
    bare.relay = {};
    require(net::parse_address(net::host_and_port(*address), any_port).value() == bare);
  }
  if (const auto numeric = net::parse_numeric_address(text)) require(net::is_numeric(*numeric));
  return 0;
}

}  // namespace collab::fuzz::address_target
