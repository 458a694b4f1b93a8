#pragma once
// Every message of matchmaking, version 1. This file is the protocol's specification; base/frame.hpp has the frame
// around it and the rules of evolution. No message has a payload.
//
// All frames of one (key, epoch, round) travel in one conversation, "matchmaking.group" with topic() below. Places:
// each peer has one per (key, epoch, round), the hash place() below; whoever waits, waits for a smaller place, so
// nobody waits in a circle.

#include "base/error.hpp"
#include "base/message.hpp"
#include "matchmaking/group.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace collab::matchmaking {

inline constexpr std::string_view kProtocol = "matchmaking.group";

Digest topic(std::string_view key, std::uint64_t epoch, std::uint32_t round);
/// The reachable candidate with the smallest place leads.
Digest place(std::string_view key, std::uint64_t epoch, std::uint32_t round, const PeerId&);

/// Why a Join or a Begin is refused. Numbers are wire values.
enum class RefusalReason : std::uint8_t {
  other_round = 1,  ///< another key, epoch or round than the conversation's
  schema_differs,
  codec_map_differs,
  full,
  begun,
  not_leading,
  former_life,
  bad_plan,
  weight_refused,
  joined_elsewhere,
  too_few,
  other_role,
};
/// One sentence for a person.
std::string_view sentence(RefusalReason) noexcept;

}  // namespace collab::matchmaking

namespace collab::matchmaking::wire {

inline constexpr std::size_t kKeyBytesMax = 128;
inline constexpr std::size_t kDetailBytesMax = 200;

/// Asker -> who it believes leads: "count me in". A promise to nobody else until redirected, refused or withdrawn.
struct Join {
  std::string key;  ///< run/bundle/grid/digits, at most kKeyBytesMax
  std::uint64_t epoch = 0;
  std::uint32_t round = 1;
  std::uint32_t attempt = 0;  ///< tries of this round that failed for the asker
  Digest schema{};
  Digest codec_map{};
  std::uint8_t role = 0;  ///< a Role
  std::uint64_t up = 0;   ///< measured bytes per second; 0: unknown
  std::uint64_t down = 0;
  std::uint64_t samples = 0;      ///< accumulated for this epoch so far
  Digest previous{};              ///< the group it committed with in the round before; zero: none
  std::uint32_t dropped = 0;      ///< the grid digit it dropped after that round: orders the sums of this one
  std::uint64_t incarnation = 0;  ///< grows with every start of the peer
  std::uint32_t electorate = 0;   ///< current peers as it counts them: a group of half of them it refuses
  MESSAGE_MAP(key, epoch, round, attempt, schema, codec_map, role, up, down, samples, previous, dropped, incarnation,
              electorate)
};

/// Follower -> leader, after every microbatch, when it counts other peers, and while the batch fills elsewhere.
/// Replaces what was told before.
struct Samples {
  std::uint64_t total = 0;
  std::uint32_t electorate = 0;  ///< as in Join
  std::uint64_t elsewhere = 0;   ///< of the other groups of this round, as its sender has read
  MESSAGE_MAP(total, electorate, elsewhere)
};

/// Leader -> follower: "you are in, stay with me".
struct Accepted {
  std::uint32_t deadline_ms = 0;  ///< milliseconds until the leader begins with whoever is there, or gives up
  MESSAGE_MAP(deadline_ms)
};

/// "This one leads." From the peer that was asked: go there, it has a smaller place. From a peer that names itself: an
/// invitation. From a follower to its leader, or about a third peer: there is a smaller one than you, give way to it.
struct Redirect {
  std::array<unsigned char, 32> leader{};
  std::uint32_t attempt = 0;      ///< the try that the sender is in: whose round of that try runs has begun without it
  std::uint64_t incarnation = 0;  ///< of the sender: who is in that round, and asks, does not know
  MESSAGE_MAP(leader, attempt, incarnation)
};

/// The answer to a Join, an invitation or a Begin.
struct Refused {
  std::uint8_t reason = 0;    ///< a RefusalReason; unknown numbers are refusals too
  std::string detail;         ///< at most kDetailBytesMax; for the log
  std::uint32_t attempt = 0;  ///< of the group that has begun, where that is the reason
  MESSAGE_MAP(reason, detail, attempt)
};

/// "Do not count on me": I wait elsewhere, my search ended, or I leave the run. After a Begin, to its roster: I take
/// part in its round, but am not free to begin the next one with you.
struct Leave {
  bool for_good = false;  ///< leaves the run: not of the standing group any more
  bool sits_out = false;  ///< after a Begin, which may come to the receiver only later
  MESSAGE_MAP(for_good, sits_out)
};

/// Leader -> roster: the whole group. Its id is the hash of this body, so it is not sent. Lists have one entry per
/// rank.
struct Begin {
  Digest topic{};  ///< the conversation's
  std::uint64_t epoch = 0;
  std::uint32_t round = 1;
  std::uint32_t attempt = 0;
  std::vector<std::array<unsigned char, 32>> roster;  ///< sorted
  std::vector<std::uint8_t> roles;
  std::vector<std::uint8_t> order;
  std::vector<std::uint64_t> weights;  ///< bounds, in samples
  std::vector<Digest> previous;
  std::vector<std::uint64_t> incarnations;
  std::vector<std::uint32_t> units;
  std::uint32_t chunk_units = 0;
  std::uint64_t weight_min = 0;
  std::uint32_t electorate = 0;
  Digest codec_map{};
  Digest schema{};
  MESSAGE_MAP(topic, epoch, round, attempt, roster, roles, order, weights, previous, incarnations, units, chunk_units,
              weight_min, electorate, codec_map, schema)
};

using Header = std::variant<Join, Samples, Accepted, Redirect, Refused, Leave, Begin>;

Begin to_wire(const Group&);
/// With the id that follows from the body. Errors: `bad_request` when the lists differ in length, are empty or longer
/// than kGroupSizeMax, or hold a role that does not exist. What remains is for matchmaking::check().
Result<Group> from_wire(const Begin&);

}  // namespace collab::matchmaking::wire
