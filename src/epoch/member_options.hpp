#pragma once
// What a run asks of those who take part in its epochs, and what follows from it for search and round.

#include "averaging/all_reduce.hpp"
#include "averaging/claimed_rates.hpp"
#include "averaging/load_balance.hpp"
#include "epoch/delay.hpp"
#include "epoch/legacy.hpp"
#include "epoch/seating_keeper.hpp"
#include "matchmaking/terms.hpp"
#include "progress/tracker.hpp"
#include "tensor/codec.hpp"

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace collab::epoch {

inline constexpr Duration kLookTime = std::chrono::seconds(10);  ///< for asking the directory who is there

struct MemberOptions {
  explicit MemberOptions(CodecMap map) : codecs(std::move(map)) {}

  std::string run_id;
  std::uint64_t target_batch = 128;  ///< samples that make one optimizer step of the whole run
  double commit_fraction = 0.5;      ///< of it; a round with fewer fails
  CodecMap codecs;
  Digest schema{};
  std::size_t group_size_max = 64;  ///< with more peers groups are on a grid, if enough of them can be dialled
  std::vector<std::uint32_t> grid;  ///< its radices; empty: they follow the number of peers
  matchmaking::Role role = matchmaking::Role::node;
  /// Asked before each epoch, for routers map ports, or forget them, while a peer takes part; empty: `role` stays.
  std::function<matchmaking::Role()> role_now;
  /// Whether `role_now` is more than a guess. The first epoch waits a little for that: a search that changes its role
  /// begins anew, and may miss the group. Empty: it is.
  std::function<bool()> role_known;
  std::uint64_t incarnation = 0;
  std::uint64_t epochs_max = std::numeric_limits<std::uint64_t>::max();  ///< the run is over then
  Duration retry_min = std::chrono::milliseconds(500);                   ///< after a failed round; doubles
  Duration retry_max = std::chrono::seconds(10);
  Duration cut_wait = std::chrono::seconds(2);  ///< of an epoch's begin for a microbatch in hand
  Delay delay = Delay::none;                    ///< of a trainer that may take steps beside its microbatches
  averaging::LoadOptions load;                  ///< how the leader cuts segments; bytes per value follow from `codecs`
  averaging::AllReduceOptions all_reduce;
  /// For who looks on: told before each round what this peer's parts will be made of, when that is more than what the
  /// trainer handed over (Feedback), and their weight.
  std::function<void(std::span<const float>, std::uint64_t)> on_parts = {};
};

/// Of the search for the first round of an epoch. `tracker`, `rates` and `net` outlive it.
matchmaking::MatchmakerOptions matchmaker_options(const MemberOptions& options, progress::Tracker& tracker,
                                                  const averaging::ClaimedRates& rates, net::Endpoint& net);
/// How a leader cuts segments in `round` of a pass, with the bytes per value that follow from the codecs.
averaging::LoadOptions load_options(const MemberOptions& options, std::uint32_t round);
/// Whether a round that is to take so long, by lines alone, would hold the swarm up: a second and more, and a tenth of
/// what those who take part need to compute a target batch.
bool holds_up(Duration round, double samples_per_s, std::uint64_t target_batch);
using TooLong = std::function<bool(Duration)>;
/// What a peer's line can do is what its best connection showed, and all that its owner allows when that was used up.
struct ClaimedLine {
  std::uint64_t up_bytes_per_s = 0;  ///< 0: unknown
  std::uint64_t down_bytes_per_s = 0;
};
ClaimedLine claimed_line(const MemberOptions& options, const progress::Tracker& tracker, const net::Endpoint& net);
/// What a leader plans with. `rates` outlives it. By coarse codecs a round that is `too_long` with the others; empty:
/// none.
matchmaking::Planner planner(const MemberOptions& options, const averaging::ClaimedRates& rates, TooLong too_long);
SeatingOptions seating_options(const MemberOptions& options);
averaging::AllReduceOptions all_reduce_options(const MemberOptions& options);
LegacyOptions legacy_options(const MemberOptions& options);
/// Samples below which a round does not commit.
std::uint64_t weight_min(const MemberOptions& options);

}  // namespace collab::epoch
