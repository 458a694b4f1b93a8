#include "directory/routing_table.hpp"

#include "directory/wire.hpp"

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

namespace collab::directory {
namespace {

/// The first 8 bytes, of which the distance is enough but for ties.
std::uint64_t high_of(const Place& place) noexcept {
  std::uint64_t high = 0;
  for (std::size_t i = 0; i < 8; ++i) high = high << 8U | place[i];
  return high;
}

Bytes packed(const RouteNode& node) {
  const RouteNode* list = &node;
  return wire::pack_nodes(std::span(&list, 1));
}

}  // namespace

Place place_of(const PeerId& node) {
  Hasher hasher("collab/directory/node/v1");
  return hasher.add(node.key).finish();
}

Place place_of(const std::string& run, const std::string& key) {
  const auto letters = [](const std::string& text) {
    return std::span(reinterpret_cast<const unsigned char*>(text.data()), text.size());
  };
  Hasher hasher("collab/directory/place/v1");
  return hasher.add(letters(run)).add(letters(key)).finish();
}

bool nearer(const Place& place, const Place& a, const Place& b) noexcept {
  for (std::size_t i = 0; i < place.size(); ++i) {
    if (a[i] != b[i]) return (a[i] ^ place[i]) < (b[i] ^ place[i]);
  }
  return false;
}

/// How many leading bits he shares with this node; 256: he is it.
std::size_t RoutingTable::bucket_of(const Place& place) const noexcept {
  for (std::size_t i = 0; i < place.size(); ++i) {
    const auto differing = static_cast<unsigned char>(place[i] ^ place_[i]);
    if (differing != 0) return 8 * i + static_cast<std::size_t>(std::countl_zero(differing));
  }
  return 8 * place.size();
}

/// Who failed most, of those the one not heard for longest.
RoutingTable::Entry* RoutingTable::replaceable(std::size_t bucket) const {
  const auto worth = [](const Entry* a) { return std::tuple(-static_cast<int>(a->failures), a->heard, a->place); };
  Entry* found = nullptr;
  for (const Slot& slot : buckets_[bucket]) {
    if (!slot.sound && (found == nullptr || worth(slot.entry) < worth(found))) found = slot.entry;
  }
  return found;
}

RoutingTable::Slot& RoutingTable::slot_of(const Entry& entry) {
  auto& bucket = buckets_[bucket_of(entry.place)];
  return *std::find_if(bucket.begin(), bucket.end(), [&](const Slot& slot) { return slot.entry == &entry; });
}

bool RoutingTable::is_crowded(std::size_t bucket, const std::string& network) const {
  const auto neighbours = [&](const Slot& slot) { return slot.entry->network == network; };
  const auto count = std::count_if(buckets_[bucket].begin(), buckets_[bucket].end(), neighbours);
  return !network.empty() && static_cast<std::size_t>(count) >= options_.network_max;
}

bool RoutingTable::has_room_for(const PeerId& id) const {
  if (id == self_ || entries_.contains(id)) return false;
  const std::size_t bucket = bucket_of(place_of(id));
  return buckets_[bucket].size() < options_.bucket_max || replaceable(bucket) != nullptr;
}

bool RoutingTable::is_short_of(const PeerId& id) const {
  if (!has_room_for(id)) return false;
  const std::size_t bucket = bucket_of(place_of(id));
  const bool small = sound_ < 3 * options_.bucket_max;  // it tells by its size how large the swarm is
  return small || bucket >= neighbourhood() || 2 * buckets_[bucket].size() < options_.bucket_max;
}

bool RoutingTable::add(RouteNode node, std::string network, TimePoint now) {
  if (node.id == self_) return false;
  suggested_.erase(node.id);
  if (const auto known = entries_.find(node.id); known != entries_.end()) {
    if (known->second.node.addresses != node.addresses) {
      known->second.node.addresses = std::move(node.addresses);
      known->second.packed = packed(known->second.node);
    }
    heard(node.id, now);
    return true;
  }
  Entry entry;
  entry.place = place_of(node.id);
  entry.heard = now;
  const std::size_t bucket = bucket_of(entry.place);
  if (is_crowded(bucket, network)) return false;
  if (buckets_[bucket].size() >= options_.bucket_max) {
    const Entry* failing = replaceable(bucket);
    if (failing == nullptr) return false;
    erase(entries_.find(failing->node.id));
  }
  entry.network = std::move(network);
  entry.node = std::move(node);
  entry.packed = packed(entry.node);
  const PeerId id = entry.node.id;
  const std::uint64_t high = high_of(entry.place);
  added_.push_back(entry.place);
  buckets_[bucket].push_back({high, true, &entries_.emplace(id, std::move(entry)).first->second});
  ++sound_;
  ++version_;
  return true;
}

bool RoutingTable::suggest(RouteNode node, std::optional<PeerId> teacher) {
  if (suggested_.size() >= options_.suggested_max || suggested_.contains(node.id) || !is_short_of(node.id))
    return false;
  const PeerId id = node.id;
  suggested_.emplace(id, Suggested{std::move(node), teacher});
  return true;
}

RoutingTable::Suggested RoutingTable::take_suggested(std::size_t index) {
  return std::move(suggested_.extract(std::next(suggested_.begin(), static_cast<std::ptrdiff_t>(index))).mapped());
}

bool RoutingTable::heard(const PeerId& id, TimePoint now) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return false;
  found->second.heard = now;
  if (std::exchange(found->second.failures, 0) == 0) return true;
  slot_of(found->second).sound = true;
  ++sound_;
  ++version_;
  return true;
}

void RoutingTable::failed(const PeerId& id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  if (found->second.failures++ == 0) {
    slot_of(found->second).sound = false;
    --sound_;
    ++version_;
  }
  if (found->second.failures >= options_.failures_max) erase(found);
}

bool RoutingTable::told(const PeerId& id, TimePoint now) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return false;
  found->second.told = now;
  return true;
}

void RoutingTable::asked(const PeerId& id) {
  if (const auto found = entries_.find(id); found != entries_.end()) found->second.asked = true;
}

void RoutingTable::remove(const PeerId& id) {
  suggested_.erase(id);
  if (const auto found = entries_.find(id); found != entries_.end()) erase(found);
}

void RoutingTable::erase(Entries::iterator entry) {
  std::erase_if(buckets_[bucket_of(entry->second.place)],
                [&](const Slot& slot) { return slot.entry == &entry->second; });
  if (entry->second.failures == 0) --sound_;
  ++version_;
  entries_.erase(entry);
}

const RoutingTable::Entry* RoutingTable::find(const PeerId& id) const {
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : &found->second;
}

std::size_t RoutingTable::neighbourhood() const noexcept {
  std::size_t count = 0;
  for (std::size_t bucket = buckets_.size(); bucket-- > 0;) {
    count += buckets_[bucket].size();
    if (count >= options_.bucket_max) return bucket;
  }
  return 0;
}

std::vector<const RoutingTable::Entry*> RoutingTable::nearest(const Place& place, std::size_t count) const {
  std::vector<std::pair<std::uint64_t, const Entry*>> sound;
  sound.reserve(std::min(sound_, 2 * options_.bucket_max));  // often one bucket, or the few behind it
  const std::uint64_t high = high_of(place);
  const auto gather = [&](std::size_t bucket) {
    for (const Slot& slot : buckets_[bucket]) {
      if (slot.sound) sound.emplace_back(high ^ slot.high, slot.entry);
    }
  };
  // Nearest are those who begin to differ from this node where the place does; then all who share more with this node,
  // in whatever order; then those who share less, the less the farther.
  const std::size_t same = bucket_of(place);
  gather(same);
  if (sound.size() < count) {
    for (std::size_t bucket = same + 1; bucket < buckets_.size(); ++bucket) gather(bucket);
  }
  for (std::size_t bucket = same; bucket-- > 0 && sound.size() < count;) gather(bucket);
  const auto before = [&](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : nearer(place, a.second->place, b.second->place);
  };
  const auto end = sound.begin() + static_cast<std::ptrdiff_t>(std::min(count, sound.size()));
  std::partial_sort(sound.begin(), end, sound.end(), before);
  std::vector<const Entry*> nearest;
  nearest.reserve(static_cast<std::size_t>(end - sound.begin()));
  for (auto next = sound.begin(); next != end; ++next) nearest.push_back(next->second);
  return nearest;
}

std::vector<PeerId> RoutingTable::silent_since(TimePoint before, std::size_t count) const {
  std::vector<std::tuple<bool, TimePoint, PeerId>> silent;
  for (const auto& [id, entry] : entries_) {
    if (entry.failures > 0 || entry.heard < before) silent.emplace_back(entry.failures == 0, entry.heard, id);
  }
  std::sort(silent.begin(), silent.end());
  if (silent.size() > count) silent.resize(count);
  std::vector<PeerId> ids;
  for (const auto& [sound, heard, id] : silent) ids.push_back(id);
  return ids;
}

std::vector<Place> RoutingTable::take_added() {
  return std::exchange(added_, {});
}

std::vector<PeerId> RoutingTable::take_unasked(std::size_t count) {
  std::vector<PeerId> unasked;
  for (auto& [id, entry] : entries_) {
    if (unasked.size() == count) break;
    if (!std::exchange(entry.asked, true)) unasked.push_back(id);
  }
  return unasked;
}

}  // namespace collab::directory
