#pragma once
// Every message of the averaging protocol, version 1. This file is the protocol's specification; base/frame.hpp has
// the frame around it and the rules of evolution.
//
// All peers of a group hold the same plan (matchmaking/group.hpp). A *rank* is an index into its roster; a *segment* is
// named by the rank that owns it in view 0; a manifest or a plan has one entry for every segment that has values, in
// order of segments. Payloads are encodings by the group's codec map (tensor/codec.hpp). Part and Average travel as
// bulk, everything else as control.

#include "base/message.hpp"
#include "crypto/identity.hpp"
#include "matchmaking/group.hpp"

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

namespace collab::averaging::wire {

inline constexpr std::uint16_t kVersion = 1;
/// The row that guards the conversation; its topic is the group id.
inline constexpr std::string_view kProtocol = "averaging.round";
/// The call beside it: an Inquiry, answered by one.
inline constexpr std::string_view kCountedMethod = "averaging.counted";

using matchmaking::GroupId;
/// One digest per segment that has values: what a round may commit.
using Manifest = std::vector<Digest>;

/// So many units of a chunk weigh so much.
struct UnitWeight {
  std::uint32_t units = 0;
  std::uint64_t weight = 0;
  bool operator==(const UnitWeight&) const = default;
  MESSAGE_ARRAY(units, weight)
};

/// Units of work first .. first + count - 1 (base/work.hpp), not units of the vector. Lists of them are ascending and
/// do not touch.
struct WorkRun {
  std::uint64_t first = 0;
  std::uint32_t count = 0;  ///< so that the work of 64 senders in 64 ranges each fits a header
  MESSAGE_ARRAY(first, count)
};

/// Sender -> owner: "average this with the others". Payload: the sender's values of the chunk.
/// With weight 0: chunk 0 without payload, "nothing will come from me".
struct Part {
  GroupId group{};           ///< frames of any other round are stale
  std::uint32_t view = 0;    ///< in which the receiver owns the segment
  std::uint8_t segment = 0;  ///< what is averaged
  std::uint32_t chunk = 0;   ///< index into the segment's chunks
  std::uint64_t weight = 0;  ///< samples behind the values; in round 1 the same in all parts of one sender
  /// In later rounds: of the chunk's units from the first on, where they differ; then `weight` is the smallest.
  std::vector<UnitWeight> weights;
  /// In chunk 0: the units of work behind the values, in at most work_ranges_max() ranges; see believable().
  std::vector<WorkRun> work;
  MESSAGE_MAP(group, view, segment, chunk, weight, weights, work)
};

struct SenderWork {
  std::uint8_t rank = 0;
  std::vector<WorkRun> work;
  MESSAGE_ARRAY(rank, work)
};

/// Owner -> everyone who receives results: encoded once, the same bytes for all, so replicas stay equal to the bit.
/// Payload: the weighted mean of the chunk; empty when its weight is 0. Any holder may repeat the frame as it is.
struct Average {
  GroupId group{};
  std::uint32_t view = 0;  ///< in which it was reduced
  std::uint8_t segment = 0;
  std::uint32_t chunk = 0;
  std::uint64_t senders = 0;        ///< bit i: the part of roster[i] is in it
  std::uint64_t weight = 0;         ///< sum of the senders' weights
  std::vector<UnitWeight> weights;  ///< as in Part
  /// In the last one that the owner encodes of a segment: what the senders of any of its chunks named, one of each
  /// previous group; ascending ranks, none with nothing. Covered by the segment's digest.
  std::vector<SenderWork> work;
  /// There too: who is in no chunk because its units are counted already (Fault::overlap).
  std::uint64_t overlapping = 0;
  MESSAGE_MAP(group, view, segment, chunk, senders, weight, weights, work, overlapping)
};

/// Voter -> coordinator of the view: "I hold all of this". Also a receipt for those who were not in the round.
struct Hold {
  GroupId group{};
  std::uint32_t view = 0;
  Manifest manifest;
  std::uint64_t weight = 0;  ///< the smallest weight of a chunk in it
  Signature signature{};     ///< over commit.hpp: hold_bytes(group, view, manifest)
  MESSAGE_MAP(group, view, manifest, weight, signature)
};

/// Coordinator -> all: "promise me this view, and tell what you hold".
struct Ask {
  GroupId group{};
  std::uint32_t view = 0;
  MESSAGE_MAP(group, view)
};

/// Answer to an Ask below the promised view.
struct Refuse {
  GroupId group{};
  std::uint32_t view = 0;  ///< the promised one
  MESSAGE_MAP(group, view)
};

struct SignedHold {
  std::uint8_t rank = 0;
  Signature signature{};
  MESSAGE_ARRAY(rank, signature)
};

/// A quorum of voters held this manifest in this view, so no other can ever be committed.
struct Proof {
  std::uint32_t view = 0;
  Manifest manifest;
  std::vector<SignedHold> holds;  ///< ascending ranks
  MESSAGE_MAP(view, manifest, holds)
};

struct HeldResult {
  std::uint8_t segment = 0;
  std::uint32_t view = 0;  ///< in which it was reduced
  Digest digest{};
  MESSAGE_ARRAY(segment, view, digest)
};

struct Accepted {
  std::uint32_t view = 0;
  Manifest manifest;
  MESSAGE_MAP(view, manifest)
};

/// Answer to an Ask: the promise, and everything its coordinator has to know.
struct Tell {
  GroupId group{};
  std::uint32_t view = 0;            ///< the promised one
  std::optional<Accepted> accepted;  ///< the last Hold that was sent
  std::vector<HeldResult> held;      ///< complete results; at most one per segment, that of the highest view
  std::optional<Proof> committed;
  MESSAGE_MAP(group, view, accepted, held, committed)
};

/// Who does what for one segment: reduces it anew, or serves a result that exists.
struct Assignment {
  std::uint8_t owner = 0;         ///< a reachable rank
  std::optional<Digest> adopted;  ///< the result it serves; absent: it reduces
  MESSAGE_ARRAY(owner, adopted)
};

/// Coordinator -> all: the plan of a new view.
struct View {
  GroupId group{};
  std::uint32_t view = 0;
  std::vector<Assignment> plan;
  MESSAGE_MAP(group, view, plan)
};

/// Anyone -> all: the round is committed. Whoever promised a higher view waits for that view's coordinator instead.
struct Commit {
  GroupId group{};
  std::uint32_t view = 0;
  Proof proof;
  MESSAGE_MAP(group, view, proof)
};

/// Why a group gave up. Numbers never change.
enum class GiveUpReason : std::uint8_t {
  no_quorum = 1,   ///< fewer than a quorum of voters answered
  weight_low = 3,  ///< less than the group's weight_min is behind some value
  no_weight,       ///< nobody had samples for some value
};

/// Coordinator -> all: this view will not commit.
struct GiveUp {
  GroupId group{};
  std::uint32_t view = 0;
  std::uint8_t reason = 0;  ///< a GiveUpReason; others may come later
  MESSAGE_MAP(group, view, reason)
};

/// To all: "I have the result and need nothing more".
struct Done {
  GroupId group{};
  std::uint32_t view = 0;
  MESSAGE_MAP(group, view)
};

/// "Send me the chunks of this result", answered by its Average frames or by NotHeld; without a digest: "send me your
/// part of this segment", to a peer whose previous groupmate was to send it.
struct Fetch {
  GroupId group{};
  std::uint32_t view = 0;
  std::uint8_t segment = 0;
  std::optional<Digest> digest;
  MESSAGE_MAP(group, view, segment, digest)
};

struct NotHeld {
  GroupId group{};
  std::uint8_t segment = 0;
  Digest digest{};
  MESSAGE_MAP(group, segment, digest)
};

/// To a groupmate of the first round of a pass, after the pass: "my round failed; did you commit, and with my parts?"
/// Refused as `stale` by who did not, or does not know any more.
struct WasCounted {
  GroupId group{};
  MESSAGE_MAP(group)
};

/// The answer of who did.
struct Counted {
  bool counted = false;  ///< the asker's parts, at least some
  MESSAGE_MAP(counted)
};

using Inquiry = std::variant<WasCounted, Counted>;

using Header = std::variant<Part, Average, Hold, Ask, Refuse, Tell, View, Commit, GiveUp, Done, Fetch, NotHeld>;

}  // namespace collab::averaging::wire
