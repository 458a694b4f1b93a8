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
    known_.erase(contact);
  }
  known_.emplace(candidate.id, candidate);
  return true;
}

void Candidates::strike(const PeerId& peer, std::string_view why) {
  if (struck_.size() < 2 * kCandidatesMax) struck_.emplace(peer, why);
}

std::optional<PeerId> Candidates::smallest(Sureness at_least) const {
  std::optional<PeerId> best;
  if (terms_.options.role != Role::client) best = terms_.self;
  for (const auto& [id, candidate] : known_) {
    if (!candidate.reachable || candidate.sureness < at_least || struck_.contains(id) || !links_.can_reach(id))
      continue;
    if (!best || before(id, *best)) best = id;
  }
  return best;
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
