// What people type and paste: peer ids, addresses, run names, join links. Refused as the user's mistake, or the same
// when written and read again.
#include "node/run_name.hpp"
#include "support.hpp"

namespace collab::fuzz::run_name_target {

/// `parse`, or nothing where it says that the user is wrong. Any other exception is ours.
template <class Parse>
auto parsed(Parse parse, std::string_view text) -> std::optional<decltype(parse(text))> {
  try {
    return parse(text);
  } catch (const Failure& failure) {
    require(failure.code() == ExitCode::usage && !std::string_view(failure.what()).empty());
    return std::nullopt;
  }
}

void check_address(std::string_view text) {
  for (const bool any_port : {false, true}) {
    const auto address = net::parse_address(text, any_port);
    if (!address) continue;
    require((address->port != 0 || any_port) && !address->host.empty() && address->host.size() <= 253);
    require(net::parse_address(net::to_string(*address), any_port).value() == *address);
  }
  if (const auto numeric = net::parse_numeric_address(text)) require(net::is_numeric(*numeric));
}

void check_id(std::string_view text) {
  const auto id = PeerId::parse(text);
  if (id) require(id->text() == text && check_key(*id).has_value());  // one id has exactly one text
  const auto listed = PeerId::parse_listed(text);
  if (listed) require(listed->text() == text);
  if (id) require(listed && *listed == *id);
}

COLLAB_FUZZ_TARGET(run_name) {
  const std::string_view text = fuzz::text_of(fuzz::bytes_of(data, size));
  check_id(text);
  check_address(text);
  if (const auto name = parsed(node::parse_run_name, text)) {
    require(node::is_run_id(name->run_id));
    require(node::parse_run_name(node::to_string(*name)) == *name);
  }
  if (const auto at = parsed(node::parse_peer_address, text))
    require(node::parse_peer_address(node::to_string(*at)) == *at);
  if (const auto link = parsed(node::parse_join_link, text)) {
    require(node::looks_like_link(text) && !link->addresses.empty());
    require(link->addresses.size() <= node::kLinkAddressesMax);
    const std::string again = node::to_string(*link);
    require(again.size() > node::kLinkBytesMax || node::parse_join_link(again) == *link);
  }
  return 0;
}

}  // namespace collab::fuzz::run_name_target
