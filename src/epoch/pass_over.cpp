#include "epoch/pass_over.hpp"

namespace collab::epoch {

averaging::Pass pass_over(const matchmaking::Seating& seating, std::uint64_t epoch, const PeerId& self,
                          const progress::Tracker& tracker) {
  averaging::Pass pass;
  pass.grid = seating.grid();
  pass.epoch = epoch;
  pass.schedule = std::make_shared<const matchmaking::Schedule>(seating.schedule(epoch, {self}));
  pass.look_up = [&tracker](const PeerId& seated) {
    // of one that is not known the rest of the id is zero: no other of its seat comes before it
    const auto known = tracker.first_from(seated);
    matchmaking::Expected expected{seated};
    if (!known || matchmaking::seat_of(known->peer) != matchmaking::seat_of(seated)) return expected;
    expected.id = known->peer;
    if (known->record.client) expected.role = matchmaking::Role::client;
    return expected;
  };
  return pass;
}

std::vector<PeerId> without_seat(const std::vector<progress::Standing>& peers, const matchmaking::Seating* seating) {
  std::vector<PeerId> without;
  for (const progress::Standing& standing : peers)
    if (seating != nullptr && !seating->has(standing.peer)) without.push_back(standing.peer);
  return without;
}

}  // namespace collab::epoch
