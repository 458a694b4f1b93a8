#include "directory/server_set.hpp"

#include "crypto/hash.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

namespace collab::directory {
namespace {

constexpr std::uint64_t kSequenceFar = std::uint64_t(1) << 53U;  // whoever writes more stays young

struct Member {
  bool young = false;
  Digest rank{};
  PeerId id;
  auto operator<=>(const Member&) const = default;
};

Digest rank_of(const std::string& run, const PeerId& id) {
  Hasher hasher("collab/standing/v1");
  hasher.add({reinterpret_cast<const unsigned char*>(run.data()), run.size()}).add(id.key);
  return hasher.finish();
}

std::uint64_t hash_of(const std::set<PeerId>& named) {
  Hasher hasher("collab/servers/v1");
  for (const PeerId& id : named) hasher.add(id.key);
  const Digest digest = hasher.finish();
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < 8; ++i) number |= static_cast<std::uint64_t>(digest[i]) << (8 * i);
  return number;
}

void add_lowest(std::set<PeerId>& servers, std::vector<Member>& members, std::size_t count) {
  std::sort(members.begin(), members.end());
  for (std::size_t i = 0; i < std::min(count, members.size()); ++i) servers.insert(members[i].id);
}

}  // namespace

bool ServerSet::update(const Storage& storage, std::int64_t now_ms) {
  const std::string key(kPeerKey);
  const std::uint64_t version = storage.visible_version(key);
  if (version == seen_version_ && now_ms >= seen_ms_ && now_ms < next_ms_) return false;
  seen_version_ = version;
  seen_ms_ = now_ms;
  next_ms_ = std::numeric_limits<std::int64_t>::max();

  std::vector<Member> flagged;
  std::vector<Member> reachable;
  std::set<PeerId> published;
  for (const SignedRecord* record : storage.records(key, now_ms)) {
    const Record& fact = record->record;
    next_ms_ = std::min(next_ms_, fact.expires_ms);
    const auto peer = decode_peer_record(fact.value);
    if (!peer || !fact.subkey.empty()) continue;
    published.insert(fact.owner);
    if (!peer->reachable) continue;
    // a node's sequence begins at its start, in Unix milliseconds
    const std::int64_t born_ms = static_cast<std::int64_t>(std::min(fact.sequence, kSequenceFar));
    const bool young = born_ms + options_.young_ms > now_ms;
    if (young) next_ms_ = std::min(next_ms_, born_ms + options_.young_ms);
    const Digest rank = rank_of(options_.run, fact.owner);
    if (peer->directory) flagged.push_back({false, rank, fact.owner});
    reachable.push_back({young, rank, fact.owner});
  }
  std::set<PeerId> servers;
  for (const PeerId& id : options_.bootstrap) {
    if (servers.size() < options_.bootstrap_max) servers.insert(id);
  }
  add_lowest(servers, flagged, options_.flagged_max);
  add_lowest(servers, reachable, options_.standing_max);

  std::set<PeerId> named;
  std::set_intersection(servers.begin(), servers.end(), published.begin(), published.end(),
                        std::inserter(named, named.end()));
  hash_ = hash_of(named);
  std::vector<PeerId> ids(servers.begin(), servers.end());
  const bool changed = ids != ids_;
  ids_ = std::move(ids);
  return changed;
}

bool ServerSet::contains(const PeerId& id) const {
  return std::binary_search(ids_.begin(), ids_.end(), id);
}

bool ServerSet::is_bootstrap(const PeerId& id) const {
  return std::find(options_.bootstrap.begin(), options_.bootstrap.end(), id) != options_.bootstrap.end();
}

std::vector<const SignedRecord*> ServerSet::records(const Storage& storage, std::int64_t now_ms) const {
  const std::string key(kPeerKey);
  std::vector<const SignedRecord*> named;
  for (const PeerId& id : ids_) {
    const SignedRecord* record = storage.record(key, id, now_ms);
    if (record != nullptr) named.push_back(record);
  }
  return named;
}

}  // namespace collab::directory
