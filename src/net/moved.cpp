#include "net/moved.hpp"

#include <algorithm>
#include <map>
#include <string>

namespace collab::net {

void doubt_stranded(std::span<Connection* const> all, TimePoint now, Log& log) {
  std::map<std::string, Connection*> quietest;  // by the own address, which WebSockets do not tell
  for (Connection* connection : all) {
    if (connection->is_circuit()) continue;  // whose relay's connection is asked
    Connection*& seen = quietest[connection->local().host];
    if (seen == nullptr || connection->last_received() < seen->last_received()) seen = connection;
  }
  std::string was;
  std::size_t doubted = 0;
  for (const auto& [host, one] : quietest) {
    if (!one->may_be_doubted(now) || !one->is_stranded()) continue;
    if (!host.empty()) was = host;
    for (Connection* connection : all) {
      if (connection->is_circuit() || connection->local().host != host) continue;
      connection->doubt(now);
      ++doubted;
    }
  }
  if (doubted > 0) log.info("net.readdressed", {{"was", was}, {"connections", doubted}});
}

bool has_left(const Connection& connection, std::span<const Address> before, std::span<const Address> now) {
  if (now.empty() || connection.side() != Side::dialled) return false;
  const auto there = [host = connection.remote().host](const Address& at) { return at.host == host; };
  const auto is_somewhere = [&](const Address& at) { return there(at) || !is_numeric(at); };
  return std::any_of(before.begin(), before.end(), there) && std::none_of(now.begin(), now.end(), is_somewhere);
}

}  // namespace collab::net
