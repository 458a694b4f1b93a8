#pragma once
// A pass over the grid in force, from the list of seats and what is known of those who sit there.

#include "averaging/pass.hpp"
#include "matchmaking/seating.hpp"
#include "progress/tracker.hpp"

namespace collab::epoch {

/// `tracker` outlives it. How much the swarm gathers for it, and until when it stands, are the caller's to say.
averaging::Pass pass_over(const matchmaking::Seating& seating, std::uint64_t epoch, const PeerId& self,
                          const progress::Tracker& tracker);

/// Of those in `peers`, who has no seat.
std::vector<PeerId> without_seat(const std::vector<progress::Standing>& peers, const matchmaking::Seating* seating);

}  // namespace collab::epoch
