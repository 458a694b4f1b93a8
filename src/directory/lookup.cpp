#include "directory/lookup.hpp"

#include <algorithm>
#include <utility>

namespace collab::directory {

Lookup::Lookup(const Place& place, const PeerId& self, std::vector<RouteNode> start, Options options)
    : place_(place), self_(self), options_(options), candidates_(Nearer{place}) {
  for (RouteNode& node : start) learn(std::move(node), nullptr, 1);
}

void Lookup::learn(RouteNode node, const PeerId* teacher, unsigned hops) {
  if (node.id == self_) return;
  Candidate*& known = named_[node.id];
  if (known == nullptr) {
    known = &candidates_.try_emplace(place_of(node.id)).first->second;
    known->node = std::move(node);
    known->hops = hops;
  } else if (known->teachers.empty()) {
    return;  // known to this node itself
  }
  if (teacher != nullptr) known->teachers.push_back(*teacher);
}

bool Lookup::believed(const Candidate& candidate) const {
  const auto struck = [&](const PeerId& teacher) {
    const auto found = strikes_.find(teacher);
    return found != strikes_.end() && found->second >= options_.strikes_max;
  };
  return candidate.teachers.empty() || !std::all_of(candidate.teachers.begin(), candidate.teachers.end(), struck);
}

/// The nearest who was not asked, as long as fewer than `width` believed ones before him are alive; those who are not
/// believed only when the others are too few.
const Lookup::Candidate* Lookup::choose() const {
  std::size_t alive = 0;
  const Candidate* doubted = nullptr;
  for (const auto& [place, candidate] : candidates_) {
    const bool counts = candidate.state == State::asked || (candidate.state == State::answered && candidate.serves);
    if (counts && ++alive == options_.width) return nullptr;
    if (candidate.state != State::known) continue;
    if (believed(candidate)) return &candidate;
    if (doubted == nullptr) doubted = &candidate;
  }
  return in_flight_ == 0 ? doubted : nullptr;
}

std::optional<RouteNode> Lookup::next() {
  if (stopped_ || in_flight_ >= options_.alpha || asked_ >= options_.asked_max) return std::nullopt;
  const Candidate* chosen = choose();
  if (chosen == nullptr) return std::nullopt;
  named_.at(chosen->node.id)->state = State::asked;
  ++asked_;
  ++in_flight_;
  return chosen->node;
}

void Lookup::answered(const PeerId& from, bool serves, std::vector<RouteNode> named) {
  Candidate& candidate = *named_.at(from);
  candidate.state = State::answered;
  candidate.serves = serves;
  --in_flight_;
  for (RouteNode& node : named) learn(std::move(node), &from, candidate.hops + 1);
}

void Lookup::failed(const PeerId& id) {
  Candidate& candidate = *named_.at(id);
  candidate.state = State::failed;
  --in_flight_;
  for (const PeerId& teacher : candidate.teachers) ++strikes_[teacher];
}

bool Lookup::over() const {
  if (stopped_) return true;
  if (in_flight_ > 0) return false;
  return asked_ >= options_.asked_max || choose() == nullptr;
}

std::vector<PeerId> Lookup::nearest(std::size_t count) const {
  std::vector<PeerId> nearest;
  for (const auto& [place, candidate] : candidates_) {
    if (nearest.size() == count) break;
    if (candidate.state == State::answered && candidate.serves) nearest.push_back(candidate.node.id);
  }
  return nearest;
}

std::size_t Lookup::among_nearest(const std::vector<PeerId>& ids, std::size_t count) const {
  std::size_t found = 0;
  for (const auto& [place, candidate] : candidates_) {
    const bool serves = candidate.state != State::answered || candidate.serves;
    if (candidate.state == State::failed || !serves || !believed(candidate)) continue;
    if (count-- == 0) break;
    if (std::find(ids.begin(), ids.end(), candidate.node.id) != ids.end()) ++found;
  }
  return found;
}

unsigned Lookup::hops() const {
  for (const auto& [place, candidate] : candidates_) {
    if (candidate.state == State::answered && candidate.serves) return candidate.hops;
  }
  return 0;
}

}  // namespace collab::directory
