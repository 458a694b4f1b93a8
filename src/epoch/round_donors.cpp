#include "epoch/round_donors.hpp"

#include <algorithm>
#include <utility>

namespace collab::epoch {

std::vector<PeerId> choose_donors(RoundDonors from, const std::function<bool(const PeerId&)>& can_reach, bool relayed,
                                  Random& random) {
  const auto reachable = [&](const std::vector<PeerId>& peers, bool may_relay) {
    std::vector<PeerId> near;
    std::copy_if(peers.begin(), peers.end(), std::back_inserter(near), can_reach);
    return near.empty() && may_relay ? peers : near;
  };
  const auto is_ahead = [&](const PeerId& peer) {
    return std::find(from.ahead.begin(), from.ahead.end(), peer) != from.ahead.end();
  };
  std::erase_if(from.all, is_ahead);
  std::vector<PeerId> donors = reachable(from.ahead, relayed);
  std::vector<PeerId> others = reachable(from.all, relayed && donors.empty());
  const std::size_t drawn = std::min(from.others_max, others.size());
  for (std::size_t i = 0; i < drawn; ++i) std::swap(others[i], others[i + random.below(others.size() - i)]);
  donors.insert(donors.end(), others.begin(), others.begin() + static_cast<std::ptrdiff_t>(drawn));
  return donors;
}

}  // namespace collab::epoch
