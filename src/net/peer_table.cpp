#include "net/peer_table.hpp"

#include <algorithm>
#include <utility>

namespace collab::net {

KnownPeer& PeerTable::at(const PeerId& peer, TimePoint now) {
  auto found = peers_.find(peer);
  if (found == peers_.end()) {
    const auto older = [](const auto& a, const auto& b) { return a.second->used < b.second->used; };
    if (peers_.size() >= options_.peers_max) peers_.erase(std::min_element(peers_.begin(), peers_.end(), older));
    found = peers_.emplace(peer, std::make_unique<KnownPeer>()).first;
  }
  found->second->used = now;
  return *found->second;
}

const KnownPeer* PeerTable::find(const PeerId& peer) const {
  const auto found = peers_.find(peer);
  return found == peers_.end() ? nullptr : found->second.get();
}

void PeerTable::introduce(const PeerId& peer, std::vector<Address> addresses, TimePoint now) {
  take(peer, &KnownPeer::addresses, std::move(addresses), now);
}

void PeerTable::introduce_relays(const PeerId& peer, std::vector<Address> relays, TimePoint now) {
  take(peer, &KnownPeer::relays, std::move(relays), now);
}

void PeerTable::take(const PeerId& peer, std::vector<Address> KnownPeer::*which, std::vector<Address> fresh,
                     TimePoint now) {
  if (fresh.size() > options_.addresses_max) fresh.resize(options_.addresses_max);
  KnownPeer& known = at(peer, now);
  if (known.*which == fresh) {  // it may be back: but whoever says so often has it dialled no more often
    known.retry_at = std::min(known.retry_at, std::max(now, known.lost_at + options_.back_off_heard_of));
    return;
  }
  known.*which = std::move(fresh);
  known.failures = 0;
  known.retry_at = now;
}

void PeerTable::failed(const PeerId& peer, Refusal why, TimePoint now) {
  no_circuit(peer, std::move(why), now);
  at(peer, now).lost_at = now;
}

void PeerTable::fell_silent(const PeerId& peer, TimePoint now) {
  at(peer, now).failures = 0;
  failed(peer, Refusal(Errc::gone, "it fell silent"), now);
}

void PeerTable::may_dial_anew(const PeerId& peer, TimePoint now) {
  at(peer, now).failures = 0;
  at(peer, now).retry_at = now;
}

void PeerTable::no_circuit(const PeerId& peer, Refusal why, TimePoint now) {
  KnownPeer& known = at(peer, now);
  const unsigned doublings = std::min(known.failures, 16U);
  const Duration full = std::min(options_.back_off_min * (std::int64_t(1) << doublings), options_.back_off_max);
  ++known.failures;
  const double spread = 0.5 + static_cast<double>(random_.below(1'000'001)) / 1'000'000;
  known.retry_at = now + from_seconds(to_seconds(full) * spread);
  known.refused = std::move(why);
}

void PeerTable::lost(const PeerId& peer, TimePoint since, TimePoint now) {
  KnownPeer& known = at(peer, now);
  if (now - since >= options_.connected_for_good) known.failures = 0;
  known.lost_at = now;
}

bool PeerTable::may_dial(const PeerId& peer, TimePoint now) const {
  const KnownPeer* known = find(peer);
  return known != nullptr && !(known->addresses.empty() && known->relays.empty()) && now >= known->retry_at;
}

}  // namespace collab::net
