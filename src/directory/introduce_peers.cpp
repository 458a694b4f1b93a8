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
  struct Introduced {
    std::uint64_t sequence = 0;  ///< of the record that was read last: most are as they were when one has changed
    std::vector<net::Address> addresses;
  };
  std::map<PeerId, Introduced> introduced;
  bool only_proven = false;
  for (;;) {
    std::map<PeerId, Introduced> current;
    const bool all_anew = only_dials(members->records(), net.self()) != only_proven;
    only_proven = only_proven != all_anew;
    for (const Record& record : members->records()) {
      if (record.owner == net.self() || !record.subkey.empty()) continue;
      const auto known = introduced.find(record.owner);
      if (known != introduced.end() && known->second.sequence == record.sequence && !all_anew) {
        current.insert(introduced.extract(known));
        continue;
      }
      auto peer = decode_peer_record(record.value);
      if (!peer) {
        log.debug("directory.bad_peer_record", {{"peer", record.owner.short_text()}});
        continue;
      }
      if (only_proven && !peer->reachable) peer->listen.clear();
      if (known == introduced.end() || known->second.addresses != peer->listen)
        net.introduce(record.owner, peer->listen);
      current.emplace(record.owner, Introduced{record.sequence, std::move(peer->listen)});
    }
    introduced = std::move(current);
    co_await members->changed_until(TimePoint::max());
  }
}

}  // namespace collab::directory
