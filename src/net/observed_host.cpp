#include "net/observed_host.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace collab::net {

void ObservedHost::look(std::span<Connection* const> connections) {
  std::map<std::string, std::set<std::string>> named_by;  // hosts of the tellers, so that one machine is one voice
  for (const Connection* connection : connections) {
    if (connection->is_circuit()) continue;
    if (const auto seen = parse_numeric_address(connection->theirs().observed))
      named_by[seen->host].insert(connection->remote().host);
  }
  const auto fewer = [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); };
  const auto most = std::max_element(named_by.begin(), named_by.end(), fewer);
  if (most == named_by.end() || (most->second.size() < 2 && named_by.size() > 1)) return;
  const bool moved = host_ && *host_ != most->first;
  host_ = most->first;
  if (moved) moved_.notify();
}

}  // namespace collab::net
