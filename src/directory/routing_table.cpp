#include "directory/routing_table.hpp"

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

namespace collab::directory {
namespace {

/// The first 8 bytes of the distance: enough but for ties.
std::uint64_t high_distance(const Place& a, const Place& b) noexcept {
  std::uint64_t distance = 0;
  for (std::size_t i = 0; i < 8; ++i) distance = distance << 8U | static_cast<unsigned char>(a[i] ^ b[i]);
  return distance;
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
RoutingTable::Entries::const_iterator RoutingTable::replaceable(std::size_t bucket) const {
  auto found = entries_.end();
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (entry->second.failures == 0 || bucket_of(entry->second.place) != bucket) continue;
    const auto worth = [](const Entry& a) { return std::pair(-static_cast<int>(a.failures), a.heard); };
    if (found == entries_.end() || worth(entry->second) < worth(found->second)) found = entry;
  }
  return found;
}

bool RoutingTable::has_room_for(const PeerId& id) const {
  if (id == self_ || entries_.contains(id)) return false;
  const std::size_t bucket = bucket_of(place_of(id));
  return filled_[bucket] < options_.bucket_max || replaceable(bucket) != entries_.end();
}

bool RoutingTable::add(RouteNode node, TimePoint now) {
  if (node.id == self_) return false;
  if (const auto known = entries_.find(node.id); known != entries_.end()) {
    known->second.node.addresses = std::move(node.addresses);
    heard(node.id, now);
    return true;
  }
  Entry entry;
  entry.place = place_of(node.id);
  entry.heard = now;
  const std::size_t bucket = bucket_of(entry.place);
  if (filled_[bucket] >= options_.bucket_max) {
    const auto failing = replaceable(bucket);
    if (failing == entries_.end()) return false;
    erase(failing);
  }
  ++filled_[bucket];
  ++sound_;
  ++version_;
  entry.node = std::move(node);
  entries_.emplace(entry.node.id, std::move(entry));
  return true;
}

void RoutingTable::heard(const PeerId& id, TimePoint now) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  found->second.heard = now;
  if (std::exchange(found->second.failures, 0) == 0) return;
  ++sound_;
  ++version_;
}

void RoutingTable::failed(const PeerId& id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  if (found->second.failures++ == 0) {
    --sound_;
    ++version_;
  }
  if (found->second.failures >= options_.failures_max) erase(found);
}

void RoutingTable::told(const PeerId& id, TimePoint now) {
  if (const auto found = entries_.find(id); found != entries_.end()) found->second.told = now;
}

std::vector<PeerId> RoutingTable::take_unasked(std::size_t count) {
  std::vector<PeerId> unasked;
  for (auto& [id, entry] : entries_) {
    if (unasked.size() == count) break;
    if (!std::exchange(entry.asked, true)) unasked.push_back(id);
  }
  return unasked;
}

void RoutingTable::remove(const PeerId& id) {
  if (const auto found = entries_.find(id); found != entries_.end()) erase(found);
}

void RoutingTable::erase(Entries::const_iterator entry) {
  --filled_[bucket_of(entry->second.place)];
  if (entry->second.failures == 0) {
    --sound_;
    ++version_;
  }
  entries_.erase(entry);
}

const RoutingTable::Entry* RoutingTable::find(const PeerId& id) const {
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : &found->second;
}

std::vector<const RoutingTable::Entry*> RoutingTable::nearest(const Place& place, std::size_t count) const {
  std::vector<std::pair<std::uint64_t, const Entry*>> sound;
  sound.reserve(sound_);
  for (const auto& [id, entry] : entries_) {
    if (entry.failures == 0) sound.emplace_back(high_distance(place, entry.place), &entry);
  }
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

}  // namespace collab::directory
