#include "directory/server_set.hpp"

#include "crypto/hash.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

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

/// `named`: sorted.
std::uint64_t hash_of(const std::vector<PeerId>& named) {
  Hasher hasher("collab/servers/v1");
  for (const PeerId& id : named) hasher.add(id.key);
  const Digest digest = hasher.finish();
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < 8; ++i) number |= static_cast<std::uint64_t>(digest[i]) << (8 * i);
  return number;
}

void add_lowest(std::set<PeerId>& servers, std::vector<Member>& members, std::size_t count) {
  const auto end = members.begin() + static_cast<std::ptrdiff_t>(std::min(count, members.size()));
  std::partial_sort(members.begin(), end, members.end());
  for (auto next = members.begin(); next != end; ++next) servers.insert(next->id);
}

}  // namespace

/// As before when that was of the same record.
ServerSet::Published ServerSet::read(const SignedRecord& signed_record, const Published* before) const {
  if (before != nullptr && before->signature == signed_record.signature) return *before;
  const Record& record = signed_record.record;
  Published read;
  read.owner = record.owner;
  read.signature = signed_record.signature;
  read.sequence = record.sequence;
  const auto peer = decode_peer_record(record.value);
  read.valid = peer.has_value();
  read.reachable = peer && peer->reachable;
  read.directory = peer && peer->directory;
  read.rank = before != nullptr ? before->rank : rank_of(options_.run, record.owner);
  return read;
}

void ServerSet::read_all(const Storage& storage, std::int64_t now_ms) {
  std::vector<Published> all;
  all.reserve(published_.size() + 1);
  next_expiry_ms_ = std::numeric_limits<std::int64_t>::max();
  auto before = published_.begin();
  for (const SignedRecord* record : storage.records(std::string(kPeerKey), now_ms)) {
    const Record& fact = record->record;
    next_expiry_ms_ = std::min(next_expiry_ms_, fact.expires_ms);
    if (!fact.subkey.empty()) continue;
    while (before != published_.end() && before->owner < fact.owner) ++before;
    const bool known = before != published_.end() && before->owner == fact.owner;
    all.push_back(read(*record, known ? &*before : nullptr));
  }
  published_ = std::move(all);
}

bool ServerSet::may_serve(const Published& peer) const {
  return peer.valid && (peer.reachable || is_bootstrap(peer.owner));
}

/// A node's sequence begins at its start, in Unix milliseconds.
std::int64_t ServerSet::young_until_ms(const Published& peer) const {
  return static_cast<std::int64_t>(std::min(peer.sequence, kSequenceFar)) + options_.young_ms;
}

/// Whether the servers may be others for it.
bool ServerSet::bring(const SignedRecord& record, std::int64_t now_ms) {
  const Record& fact = record.record;
  const bool visible = fact.expires_ms > now_ms && !fact.value.empty();
  if (visible) next_expiry_ms_ = std::min(next_expiry_ms_, fact.expires_ms);
  if (!fact.subkey.empty()) return false;
  const auto before = [](const Published& peer, const PeerId& id) { return peer.owner < id; };
  const auto place = std::lower_bound(published_.begin(), published_.end(), fact.owner, before);
  const bool known = place != published_.end() && place->owner == fact.owner;
  if (!visible) {
    const bool served = known && may_serve(*place);
    if (known) published_.erase(place);
    return served;
  }
  const Published now = read(record, known ? &*place : nullptr);
  if (!known) {
    published_.insert(place, now);
    return may_serve(now);
  }
  const Published was = std::exchange(*place, now);
  const auto young = [&](const Published& peer) { return young_until_ms(peer) > now_ms; };
  const auto stands = [&](const Published& peer) {
    return std::tuple(may_serve(peer), peer.reachable, peer.directory, young(peer));
  };
  return (may_serve(was) || may_serve(now)) && stands(was) != stands(now);
}

bool ServerSet::update(const Storage& storage, std::int64_t now_ms) {
  const std::string key(kPeerKey);
  const std::uint64_t version = storage.visible_version(key);
  // a renewal is seen by nobody but here: whoever is young no more may have been renewed
  const bool in_order = now_ms >= seen_ms_ && now_ms < std::min(next_expiry_ms_, next_grown_ms_);
  if (version == seen_version_ && in_order) return false;
  seen_version_ = version;
  seen_ms_ = now_ms;
  bool others = !in_order;
  if (in_order) {
    for (const SignedRecord* changed : storage.changed(key, newest_)) others = bring(*changed, now_ms) || others;
  } else {
    read_all(storage, now_ms);
  }
  newest_ = std::max(newest_, storage.latest(key));
  return others && choose(now_ms);
}

/// Returns whether they are others.
bool ServerSet::choose(std::int64_t now_ms) {
  next_grown_ms_ = std::numeric_limits<std::int64_t>::max();
  std::vector<Member> flagged;
  std::vector<Member> reachable;
  for (const Published& peer : published_) {
    if (!peer.valid || !peer.reachable) continue;
    const bool young = young_until_ms(peer) > now_ms;
    if (young) next_grown_ms_ = std::min(next_grown_ms_, young_until_ms(peer));
    if (peer.directory) flagged.push_back({false, peer.rank, peer.owner});
    reachable.push_back({young, peer.rank, peer.owner});
  }
  std::set<PeerId> servers;
  for (const PeerId& id : options_.bootstrap) {
    if (servers.size() < options_.bootstrap_max) servers.insert(id);
  }
  add_lowest(servers, flagged, options_.flagged_max);
  add_lowest(servers, reachable, options_.standing_max);

  std::vector<PeerId> named;
  const auto before = [](const Published& peer, const PeerId& id) { return peer.owner < id; };
  for (const PeerId& id : servers) {
    const auto found = std::lower_bound(published_.begin(), published_.end(), id, before);
    if (found != published_.end() && found->owner == id && found->valid) named.push_back(id);
  }
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
