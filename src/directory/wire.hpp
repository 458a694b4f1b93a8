#pragma once
// Every message of the directory protocol, version 1. This file is the protocol's specification; base/frame.hpp has
// the frame around it and the rules of evolution.
//
//   method              claim      request           answer
//   directory.put       join       Put               Stored
//   directory.get       join       Get               Page       at once
//   directory.watch     join       Get               Page       when there is something, or after `wait_ms`
//   directory.exchange  directory  Compare | Fetch   Differing | Fetched
//   directory.find      join       Find              Found      the nearest nodes, and the records
//
// Records travel in the payload, as their owners encoded them: u32 length | record, one after the other. A list is as
// long as the message says, and nothing follows it.
//
// **Servers known.** A request has a hash of the servers its sender knows, a Stored or Page that of the answerer. When
// they differ, the answer also carries the answerer's servers, each as its own signed record of key "peer"; the asker
// takes them and puts those that the answerer lacks. So one contact between two halves of a swarm joins them. A node of
// a large swarm finds its servers by their places and names none: its hash is 0, and who asks with 0 is told none.

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/message.hpp"
#include "directory/routing_table.hpp"
#include "directory/storage.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace collab::directory::wire {

inline constexpr std::uint16_t kVersion = 1;
inline constexpr std::size_t kPutRecordsMax = 32;
inline constexpr std::size_t kServersMax = 32;
inline constexpr std::size_t kContactsMax = 32;
inline constexpr std::size_t kPageBytesMax = std::size_t(256) << 10U;
inline constexpr std::size_t kPageRecordsMax = 2048;
inline constexpr std::size_t kGetBytesMax = 4096;
inline constexpr std::size_t kKnownMax = 960;  ///< marks of one Get, which they fill
inline constexpr std::size_t kFetchMax = 128;
inline constexpr std::size_t kVersionsMax = 2048;  ///< of one Differing
/// Of any answer: a page, the servers, the contacts, the header.
inline constexpr std::size_t kAnswerBytesMax = std::size_t(512) << 10U;
inline constexpr std::size_t kPutBytesMax = std::size_t(64) << 10U;
inline constexpr std::size_t kNodesMax = 20;      ///< of one Found: k
inline constexpr std::size_t kFollowersMax = 12;  ///< of one Found

/// "Keep these." Payload: `records` records, of any owner.
struct Put {
  std::uint32_t records = 0;  ///< 1..kPutRecordsMax
  std::uint64_t servers = 0;  ///< hash of the servers the sender knows
  MESSAGE_MAP(records, servers)
};

/// What became of one of them.
struct Outcome {
  std::uint8_t code = 0;     ///< 0: kept, or kept already. 1: there is a newer one. Else 1 + the number of an Errc
  std::uint64_t number = 0;  ///< as in Refusal: for `busy` the milliseconds to wait
  std::string reason;        ///< for the owner's user
  MESSAGE_MAP(code, number, reason)
};

/// Payload: `newer` records that stand in the way of what was put, in the order of their outcomes (proof, signed by the
/// same owner, that he has to go on above their sequence); then `known` servers.
struct Stored {
  std::vector<Outcome> outcomes;  ///< in the order of the records
  std::uint32_t newer = 0;
  std::uint32_t known = 0;
  std::uint64_t servers = 0;
  std::uint32_t nodes = 0;     ///< how many the answerer knows that can be dialled: whether to look for them
  std::uint64_t instance = 0;  ///< of the storer's memory, as in Get: who finds another one puts everything anew
  MESSAGE_MAP(outcomes, newer, known, servers, nodes, instance)
};

/// "What is under this key?" Changes after (instance, since) only: the cursor of the last page from the same storer.
/// Who has most of it from others says what it has, and is told the rest.
struct Get {
  std::string key;
  std::uint64_t instance = 0;  ///< of the storer's memory, so that a restarted one is read from its beginning
  std::uint64_t since = 0;     ///< change number
  std::uint32_t wait_ms = 0;   ///< directory.watch: how long a change may be awaited; at most 30 s
  std::uint64_t servers = 0;   ///< hash of the servers the asker knows
  bool contacts = false;       ///< send some contacts too
  Bytes known;                 ///< marks of what the asker has under the key, u32 each; at most `kKnownMax`
  MESSAGE_MAP(key, instance, since, wait_ms, servers, contacts, known)
};

/// Somebody who may know the swarm. Hearsay: TLS shows whether it is him.
struct KnownPeer {
  std::array<unsigned char, 32> id{};
  std::vector<std::string> addresses;  ///< `host:port`; at most 8
  std::int64_t seen_ms = 0;            ///< Unix milliseconds
  MESSAGE_MAP(id, addresses, seen_ms)
};

/// Payload: `records` records of the key, oldest change first; then `known` servers.
struct Page {
  std::uint64_t instance = 0;
  std::uint64_t next = 0;  ///< the cursor to ask from
  bool more = false;       ///< at once: the page is full
  std::uint32_t records = 0;
  std::uint32_t known = 0;
  std::uint64_t servers = 0;
  std::vector<KnownPeer> contacts;  ///< at most `kContactsMax`
  std::uint32_t nodes = 0;          ///< as in Stored
  std::uint8_t distance = 0;        ///< 0: the answerer keeps the key; 1: it watches at one that does; 2: neither
  MESSAGE_MAP(instance, next, more, records, known, servers, contacts, nodes, distance)
};

/// Server -> server: "where do we differ, from bucket `first` on?"
struct Compare {
  std::uint32_t first = 0;
  SlotId after{};                      ///< in bucket `first`: only slots behind it; zero: all
  std::vector<std::uint64_t> buckets;  ///< kBuckets hashes
  MESSAGE_MAP(first, after, buckets)
};

/// Payload: the versions in the differing buckets of first..next, sorted: slot (16) | u64 sequence | i64 expires_ms.
struct Differing {
  std::uint64_t buckets = 0;  ///< bit b: bucket b differs and is in the payload
  std::uint32_t next = 0;     ///< compare again from here; kBuckets: that was all
  SlotId after{};             ///< where bucket `next` was cut, because it is large; zero: it is not in the payload
  std::uint32_t versions = 0;
  MESSAGE_MAP(buckets, next, after, versions)
};

/// "Send me these." Payload: `slots` times a slot (16).
struct Fetch {
  std::uint32_t slots = 0;  ///< 1..kFetchMax
  MESSAGE_MAP(slots)
};

/// Payload: `records` records: those of the slots that are still there.
struct Fetched {
  std::uint32_t records = 0;
  MESSAGE_MAP(records)
};

/// "Who is nearest to this place, and what do you have there?" Payload: `records` records: the asker's own of key
/// "peer", when it can be dialled and has not said so to this node yet.
struct Find {
  std::string key;             ///< empty: nodes only, nearest to `place`; else nearest to the key's place, and records
  Place place{};               ///< of an empty key
  std::uint64_t instance = 0;  ///< as in Get
  std::uint64_t since = 0;     ///< as in Get
  bool values = true;          ///< false: no records, whatever the key
  std::uint32_t records = 0;   ///< 0 or 1
  std::uint32_t nodes = kNodesMax;  ///< how many to name; at most kNodesMax are
  MESSAGE_MAP(key, place, instance, since, values, records, nodes)
};

/// Payload: `records` records of the key, oldest change first; then `nodes` nodes, nearest first; then `followers`
/// nodes. A node: its id (32) | u8 addresses | each u8 length, `host:port`. Hearsay: TLS shows who it is.
struct Found {
  bool serves = false;         ///< the answerer can be dialled by others and keeps records
  std::uint64_t instance = 0;  ///< as in Page
  std::uint64_t next = 0;      ///< as in Page
  bool more = false;           ///< as in Page: the rest by directory.get
  std::uint32_t records = 0;
  std::uint32_t nodes = 0;      ///< at most kNodesMax
  std::uint32_t followers = 0;  ///< at most kFollowersMax: who watches the key here, and can be asked instead
  MESSAGE_MAP(serves, instance, next, more, records, nodes, followers)
};

using Header = std::variant<Put, Stored, Get, Page, Compare, Differing, Fetch, Fetched, Find, Found>;

/// What stands in the payloads.
Bytes pack_records(std::span<const SignedRecord* const> records);
/// The same of what is encoded already.
Bytes pack_records(std::span<const std::span<const std::byte>> encoded);
Bytes pack_versions(std::span<const Version> versions);
Bytes pack_slots(std::span<const SlotId> slots);
Bytes pack_marks(std::span<const Mark> marks);
Bytes pack_nodes(std::span<const RouteNode* const> nodes);

/// Takes `count` records off the front of `payload`, as they are encoded there. Errors: `bad_request`.
Result<std::vector<std::span<const std::byte>>> take_encoded(std::span<const std::byte>& payload, std::size_t count);
/// The same, decoded.
Result<std::vector<SignedRecord>> take_records(std::span<const std::byte>& payload, std::size_t count);
/// The same of nodes. Errors: `bad_request`, also for an address that is a name, or none at all.
Result<std::vector<RouteNode>> take_nodes(std::span<const std::byte>& payload, std::size_t count);
/// The whole payload. Errors: `bad_request` unless it is exactly `count` of them.
Result<std::vector<Version>> unpack_versions(std::span<const std::byte> payload, std::size_t count);
Result<std::vector<SlotId>> unpack_slots(std::span<const std::byte> payload, std::size_t count);
/// Sorted, in whatever order they came. Errors: `bad_request` for more than `kKnownMax` of them.
Result<std::vector<Mark>> unpack_marks(std::span<const std::byte> packed);

}  // namespace collab::directory::wire
