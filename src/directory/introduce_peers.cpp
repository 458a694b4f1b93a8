#include "directory/introduce_peers.hpp"

#include "directory/peer_record.hpp"

#include <map>
#include <utility>
#include <vector>

namespace collab::directory {
namespace {

/// Whether this node's own record says that nobody can dial it.
bool only_dials(const std::vector<Record>& records, const PeerId& self) {
  for (const Record& record : records) {
    if (record.owner != self || !record.subkey.empty()) continue;
    const auto own = decode_peer_record(record.value);
    return own && !own->reachable && own->listen.empty();
  }
  return false;
}

}  // namespace

Task<> introduce_peers(Directory& directory, net::Endpoint& net, Log& log) {
  const auto members = directory.watch(std::string(kPeerKey));
  members->relax(kMembersPace);
  std::map<PeerId, std::vector<net::Address>> introduced;
  for (;;) {
    std::map<PeerId, std::vector<net::Address>> current;
    const bool only_proven = only_dials(members->records(), net.self());
    for (const Record& record : members->records()) {
      if (record.owner == net.self() || !record.subkey.empty()) continue;
      auto peer = decode_peer_record(record.value);
      if (!peer) {
        log.debug("directory.bad_peer_record", {{"peer", record.owner.short_text()}});
        continue;
      }
      if (only_proven && !peer->reachable) peer->listen.clear();
      const auto known = introduced.find(record.owner);
      if (known == introduced.end() || known->second != peer->listen) net.introduce(record.owner, peer->listen);
      current.emplace(record.owner, std::move(peer->listen));
    }
    introduced = std::move(current);
    co_await members->changed_until(TimePoint::max());
  }
}

}  // namespace collab::directory
