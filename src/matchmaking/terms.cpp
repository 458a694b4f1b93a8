#include "matchmaking/terms.hpp"

#include <algorithm>

namespace collab::matchmaking {
namespace {

bool broke(const net::LinkState& link, TimePoint since) {
  return !link.connected && link.lost_at != TimePoint{} && link.lost_at >= since;
}

}  // namespace

Duration silence_limit(const net::LinkState& link, const Patience& patience) {
  return std::max(patience.silence_min, 4 * link.rtt);
}

bool is_lost(const net::LinkState& link, TimePoint since, TimePoint now, const Patience& patience) {
  if (broke(link, since)) return true;
  const Duration quiet = now - std::max(link.last_received, since);
  if (!link.connected) return quiet >= patience.absent_max;  // it is being dialled
  return quiet >= silence_limit(link, patience) + patience.ping_period;
}

}  // namespace collab::matchmaking
