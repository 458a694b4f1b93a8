#pragma once
// What a peer brings to a group, what it asks of one, and what it accepts.

#include "base/clock.hpp"
#include "matchmaking/group_key.hpp"
#include "matchmaking/wire.hpp"
#include "net/endpoint.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace collab::matchmaking {

/// What a leader knows of one peer when it plans.
struct Applicant {
  PeerId id;
  Role role = Role::node;
  std::uint64_t up_bytes_per_s = 0;    ///< 0: unknown
  std::uint64_t down_bytes_per_s = 0;  ///< 0: unknown
  std::uint64_t samples = 0;           ///< told so far
  Digest previous{};                   ///< the group it committed with in the round before
  std::uint32_t dropped = 0;           ///< grid digit
  std::uint64_t incarnation = 0;
};

/// A member of the group that committed last.
struct Standing {
  PeerId id;
  Role role = Role::node;
  std::uint64_t incarnation = 0;
};

struct Plan {
  std::vector<std::uint32_t> units;  ///< by rank; as many as the vector has, none for a client
  std::uint32_t chunk_units = 16;
  bool coarse = false;  ///< by the coarse codec map, where there is one
};

/// Segments for a roster sorted by id, of 1..kGroupSizeMax peers, in `round` of the pass. Must keep what check() asks.
using Planner = std::function<Plan(const std::vector<Applicant>& roster, std::uint32_t round)>;
/// Samples that a peer can honestly have: what its progress records allow, and one microbatch.
using WeightMax = std::function<std::uint64_t(const PeerId&)>;

inline constexpr std::uint32_t kAttemptsAhead = 64;  ///< tries of a round by which peers may differ
inline constexpr std::uint64_t kTargetsPerPeer = 4;  ///< nobody's weight may exceed so many target batches

/// How long one waits for others. Silence is measured on the connection, so a busy peer is not a silent one.
struct Patience {
  Duration silence_min = std::chrono::milliseconds(500);  ///< or 4 x rtt if longer: then a silent peer is struck
  Duration ping_period = std::chrono::milliseconds(500);  ///< connections are this quiet in good health
  Duration absent_max = std::chrono::seconds(2);          ///< then a live peer that does not answer a Join is struck
  Duration expected_max = std::chrono::seconds(5);        ///< the same of who is expected: its round before may be slow
  Duration back_max = std::chrono::milliseconds(2500);    ///< after the first is back, when all were cut off at once
  Duration ask_again = std::chrono::milliseconds(100);    ///< after a redirect to a peer that is struck here
  Duration blocked = std::chrono::milliseconds(350);      ///< own loop stood still for longer: nobody is struck for it
  Duration distrust = std::chrono::seconds(2);            ///< of who told what cannot be true; twice as long each time
  unsigned redirects_max = 8;                             ///< of one search; then who redirects is struck
};

struct MatchmakerOptions {
  std::string key;  ///< run/bundle/grid/digits, at most wire::kKeyBytesMax; a search may go on under another
  Digest schema{};
  Digest codec_map{};
  std::optional<Digest> coarse_codec_map;  ///< that a leader may plan with instead
  std::size_t values = 0;                  ///< length of the flat vector
  Role role = Role::node;                  ///< a client never leads
  bool looks = true;                       ///< for others in the directory, under the key
  std::uint64_t incarnation = 0;           ///< grows with every start of this peer
  Patience patience;
  Planner plan;
  WeightMax weight_max;        ///< by the time it hands over; who has more brings so many
  WeightMax samples_believed;  ///< now: so many of what it tells count towards the begin; empty: `weight_max`
  std::function<void(const Group&)> declined;  ///< it counts on us, who take no part; may be empty
};

/// Somebody who will look for the same group.
struct Expected {
  PeerId id;
  Role role = Role::node;
  std::uint32_t dropped = 0;  ///< its grid digit, as below
};

/// One search: a group for one round.
struct Wanted {
  std::string key;  ///< to look under from now on; empty: as before
  std::uint64_t epoch = 0;
  std::uint32_t round = 1;           ///< of the pass over the grid
  std::uint32_t attempt = 0;         ///< the try, at least; so the group of a failed one is never met again
  std::uint64_t target_samples = 0;  ///< the leader begins when it knows of so many; 0: at once
  std::uint64_t weight_min = 0;      ///< the round must not commit with fewer
  std::uint64_t weight_max = 0;      ///< nobody brings more; 0: kTargetsPerPeer x target_samples, or no bound
  Digest previous{};                 ///< the group this peer committed with in the round before; zero in round 1
  std::uint32_t dropped = 0;         ///< the grid digit it dropped then
  bool voiced = false;               ///< no group without a voice for every digit: its result would be of no use
  std::vector<Expected>
      expected;  ///< who follows from the grid: nobody else brings values to the group; empty: anybody
  /// Where somebody is expected: who leads when none of those does. They bring no values.
  std::vector<PeerId> auxiliaries;
  std::size_t group_size_max = kGroupSizeMax;  ///< 2..64
  std::size_t electorate = 1;  ///< a group has more than half of so many senders; 1 on a grid of several groups
  bool alone = false;          ///< the directory answers and shows nobody else: a group of one is the swarm
  TimePoint deadline{};
};

/// Everything that stays the same during one search.
struct Terms {
  PeerId self;
  MatchmakerOptions options;
  Wanted wanted;
  std::uint64_t up_bytes_per_s = 0;
  std::uint64_t down_bytes_per_s = 0;

  /// Nobody's weight may be more; 0: any.
  std::uint64_t weight_max() const {
    return wanted.weight_max > 0 ? wanted.weight_max : kTargetsPerPeer * wanted.target_samples;
  }
  /// The grid tells who comes, so nobody needs to be looked for. Of some only the seat may be known.
  bool foreseen() const { return !wanted.expected.empty(); }
  /// It serves a cell of the grid with nothing of its own. When the others come to this round only they know.
  bool lends() const { return foreseen() && options.role == Role::auxiliary; }
  bool expects(const PeerId& peer) const {
    const auto is_peer = [&](const Expected& one) { return seat_of(one.id) == seat_of(peer); };
    return std::any_of(wanted.expected.begin(), wanted.expected.end(), is_peer);
  }
  /// Whether it is known to average for others.
  bool knows_auxiliary(const PeerId& peer) const {
    return std::find(wanted.auxiliaries.begin(), wanted.auxiliaries.end(), peer) != wanted.auxiliaries.end();
  }
  /// Whether it has a place in the group, with that role.
  bool has_place(const PeerId& peer, Role role) const {
    return !foreseen() || expects(peer) || (role == Role::auxiliary && knows_auxiliary(peer));
  }
  /// No more auxiliaries, or somebody who is expected finds the group full.
  std::size_t auxiliaries_max() const {
    const std::size_t others = wanted.expected.size() + (options.role == Role::auxiliary ? 0 : 1);
    return wanted.group_size_max - std::min(others, wanted.group_size_max);
  }
  /// Digits of those who are expected, and of this peer.
  std::set<std::uint32_t> digits() const {
    std::set<std::uint32_t> all = {wanted.dropped};
    for (const Expected& one : wanted.expected) all.insert(one.dropped);
    return all;
  }
  Digest place_of(const PeerId& peer) const { return place(options.key, wanted.epoch, wanted.round, peer); }
};

/// What the protocol may ask about connections. Test fakes and net::Endpoint answer it.
struct Links {
  std::function<net::LinkState(const PeerId&)> state;
  std::function<bool(const PeerId&)> can_reach;
};

/// 4 x rtt, or `silence_min` where that is more.
Duration silence_limit(const net::LinkState&, const Patience&);
/// The connection broke after `since`; or nothing came over it for a ping period and the silence limit, counted from
/// `since` at the earliest; or there is still none after `absent_max`.
bool is_lost(const net::LinkState&, TimePoint since, TimePoint now, const Patience&);
inline constexpr std::string_view kSilent = "silent";  ///< why such a peer is struck

}  // namespace collab::matchmaking
