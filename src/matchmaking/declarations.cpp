#include "matchmaking/declarations.hpp"

namespace collab::matchmaking {

std::vector<Candidate> Declarations::candidates(const Wanted& wanted) {
  std::vector<Candidate> candidates;
  if (!watches()) return candidates;
  auto known = known_.begin();  // sorted as the records are
  for (const directory::Record& record : watch_->records()) {
    if (record.subkey != kDeclarationSubkey) continue;
    while (known != known_.end() && known->first < record.owner) known = known_.erase(known);
    if (known == known_.end() || known->first != record.owner)
      known = known_.emplace_hint(known, record.owner, Known());
    auto& [written, declaration] = known->second;
    ++known;
    if (written != record.value) {
      written = record.value;
      const auto decoded = decode_declaration(written);
      declaration = decoded ? std::optional(*decoded) : std::nullopt;
    }
    if (!declaration || declaration->epoch > wanted.epoch) continue;
    const bool this_round = declaration->epoch == wanted.epoch && declaration->round == wanted.round;
    candidates.push_back({record.owner, declaration->reachable, this_round ? Sureness::declared : Sureness::contact});
  }
  known_.erase(known, known_.end());
  return candidates;
}

}  // namespace collab::matchmaking
