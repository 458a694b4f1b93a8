#pragma once
// What the first groups of passes came to, for a member that could not see it: its round may fail here after its parts
// are with their owners, and the others commit with them. Both sides of the question.

#include "averaging/report.hpp"
#include "base/clock.hpp"
#include "base/task.hpp"
#include "crypto/peer_id.hpp"
#include "matchmaking/group.hpp"
#include "net/endpoint.hpp"

#include <deque>
#include <vector>

namespace collab::averaging {

/// Of `averaging.counted`, which Endpoint::handle gives to FirstGroups::answer.
net::Method counted_method();

/// The last first groups that committed here. Thread safety: none; belongs to the node's loop.
class FirstGroups {
 public:
  /// `kept`: so many, of 2 kB each at most.
  explicit FirstGroups(std::size_t kept = 8) : kept_max_(kept) {}

  /// `round`: committed, the first of its pass.
  void committed(const RoundReport& round);
  /// Tells a member whether its parts are in. Refused: `stale` when this peer has committed no such group, or has
  /// forgotten it; `bad_request`.
  net::Answer answer(const PeerId& from, const Frame& request) const;

 private:
  struct First {
    matchmaking::GroupId group{};
    std::vector<PeerId> counted;
  };
  std::size_t kept_max_;
  std::deque<First> kept_;  // the newest at the back
};

/// Whether the parts of this peer are in what its groupmates of `round` committed, which failed here: by the word of
/// the first of them who says so. All are asked at once. False too when nobody knows until `deadline`.
/// One that lies makes this peer believe its samples counted or lost, and nothing else.
Task<bool> was_counted(net::Endpoint& net, const RoundReport& round, TimePoint deadline);

}  // namespace collab::averaging
