#include "directory/introduce_peers.hpp"

#include "directory/peer_record.hpp"

#include <boost/container/flat_map.hpp>

#include <iterator>
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
    std::vector<net::Address> relays;
  };
  boost::container::flat_map<PeerId, Introduced> introduced;  // in one piece, for all of it is gone through
  bool only_proven = false;
  for (;;) {
    const bool all_anew = only_dials(members->records(), net.self()) != only_proven;
    only_proven = only_proven != all_anew;
    auto known = introduced.begin();  // both are sorted
    for (const Record& record : members->records()) {
      if (record.owner == net.self() || !record.subkey.empty()) continue;
      while (known != introduced.end() && known->first < record.owner) known = introduced.erase(known);
      const bool is_known = known != introduced.end() && known->first == record.owner;
      if (is_known && known->second.sequence == record.sequence && !all_anew) {
        ++known;
        continue;
      }
      auto peer = decode_peer_record(record.value);
      if (!peer) {
        log.debug("directory.bad_peer_record", {{"peer", record.owner.short_text()}});
        continue;
      }
      if (only_proven && !peer->reachable) peer->listen.clear();
      if (!is_known || known->second.addresses != peer->listen) net.introduce(record.owner, peer->listen);
      if (is_known ? known->second.relays != peer->relays : !peer->relays.empty())
        net.introduce_relays(record.owner, peer->relays);
      Introduced now{record.sequence, std::move(peer->listen), std::move(peer->relays)};
      if (is_known) {
        known++->second = std::move(now);
      } else {
        known = std::next(introduced.emplace_hint(known, record.owner, std::move(now)));
      }
    }
    introduced.erase(known, introduced.end());
    co_await members->changed_until(TimePoint::max());
  }
}

}  // namespace collab::directory
