#include "matchmaking/candidates.hpp"

#include <algorithm>

namespace collab::matchmaking {

Candidates::Candidates(const Terms& terms, Links links) : terms_(terms), links_(std::move(links)) {}

bool Candidates::add(const Candidate& candidate) {
  if (candidate.id == terms_.self) return true;
  const auto found = known_.find(candidate.id);
  if (found != known_.end()) {
    found->second.reachable = candidate.reachable;
    found->second.sureness = std::max(found->second.sureness, candidate.sureness);
    return true;
  }
  if (known_.size() >= kCandidatesMax) {
    const auto is_contact = [](const auto& entry) { return entry.second.sureness == Sureness::contact; };
    const auto contact = std::find_if(known_.begin(), known_.end(), is_contact);
    if (contact == known_.end() || candidate.sureness == Sureness::contact) return false;
    by_place_.erase(place_of(contact->first));
    known_.erase(contact);
  }
  const auto added = known_.emplace(candidate.id, candidate).first;
  by_place_.emplace(place_of(candidate.id), &added->second);
  return true;
}

void Candidates::strike(const PeerId& peer, std::string_view why) {
  if (struck_.size() < 2 * kCandidatesMax) struck_.emplace(peer, why);
}

std::optional<PeerId> Candidates::smallest(Sureness at_least) const {
  const bool leads = terms_.options.role != Role::client;
  const auto end = leads ? by_place_.lower_bound(place_of(terms_.self)) : by_place_.end();
  for (auto next = by_place_.begin(); next != end; ++next) {
    const Candidate& candidate = *next->second;
    const bool fits = candidate.reachable && candidate.sureness >= at_least && !struck_.contains(candidate.id);
    if (fits && links_.can_reach(candidate.id)) return candidate.id;
  }
  return leads ? std::optional(terms_.self) : std::nullopt;
}

std::size_t Candidates::possible() const {
  const auto open = [this](const auto& entry) { return !struck_.contains(entry.first); };
  return 1 + static_cast<std::size_t>(std::count_if(known_.begin(), known_.end(), open));
}

Digest Candidates::place_of(const PeerId& peer) const {
  const auto found = places_.find(peer);
  if (found != places_.end()) return found->second;
  if (places_.size() > 4 * kCandidatesMax) places_.clear();
  return places_.emplace(peer, terms_.place_of(peer)).first->second;
}

}  // namespace collab::matchmaking
