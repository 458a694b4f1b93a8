#pragma once
// The records one node keeps: what others put here, and what it has read elsewhere. Pure: time is handed in.

#include "directory/lease_record.hpp"
#include "directory/record.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace collab::directory {

/// Names (key, owner, subkey) in 16 bytes: the start of a hash.
using SlotId = std::array<unsigned char, 16>;
SlotId slot_of(const Record&);

inline constexpr std::size_t kBuckets = 64;

/// Which of the records of a slot: (sequence, expires_ms) decides, the greater wins.
struct Version {
  SlotId slot{};
  std::uint64_t sequence = 0;
  std::int64_t expires_ms = 0;
  auto operator<=>(const Version&) const = default;
};
/// Whether the first would replace the second, both of one slot.
inline bool newer(const Version& a, const Version& b) {
  return std::pair(a.sequence, a.expires_ms) > std::pair(b.sequence, b.expires_ms);
}

/// Stands for a record in all its bytes, where a mistake is made good elsewhere: the start of its signature. A reader
/// tells what it has in four bytes each; that it lacks one of a thousand and it looks like one of them happens once in
/// four million times.
using Mark = std::uint32_t;
Mark mark_of(const SignedRecord&);

class Storage {
 public:
  /// Every bound is for one node; what would pass one is refused as `busy`.
  struct Options {
    RecordRules rules;
    std::size_t records_max = 40'000;
    std::size_t bytes_max = std::size_t(48) << 20U;  ///< encoded records; twice as much again for what is in them
    std::size_t owner_records_max = 64;
    std::size_t owner_bytes_max = std::size_t(256) << 10U;
    double owner_records_per_s = 5;   ///< that are put by others; not what this node reads
    double owner_records_burst = 64;  ///< all its slots at once
    std::size_t origin_owners = 8;    ///< owners' worth of records that one /24 or /48 may keep here
    std::size_t keeper_owners = 64;   ///< the same of records that are handed over
    std::size_t evidence_max = 64;    ///< pairs; the oldest goes
  };

  enum class Source : std::uint8_t {
    put,          ///< its owner brought it
    handed_on,    ///< somebody else brought it
    handed_over,  ///< one who keeps the key as this node does brought it: his network may bring more
    read,         ///< this node asked for it, from a server that has applied the rates
    own,          ///< this node has just signed it
  };
  enum class Outcome : std::uint8_t {
    stored,     ///< it is the current record of its slot now
    unchanged,  ///< it was here already
    older,      ///< a greater (sequence, expires_ms) is here: `find(slot_of(…))`
    refused,
  };
  struct Offered {
    Outcome outcome = Outcome::refused;
    Refusal refusal = Errc::denied;  ///< of `refused`
    bool visible = false;            ///< readers see another value than before: not for a mere renewal
  };
  /// Two records of one owner that should not both exist.
  struct Evidence {
    SignedRecord kept, dropped;
  };
  struct Page {
    /// Encoded, oldest change first; valid until the next change of the storage.
    std::vector<std::span<const std::byte>> records;
    std::uint64_t next = 0;  ///< ask again from here
    bool more = false;       ///< at once, because the page is full
  };

  explicit Storage(Options options) : options_(std::move(options)) {}

  /// Applies every rule of the specification in its order: sizes, run, expiry, quotas, signature, policy; and of one
  /// slot the greatest (sequence, expires_ms) wins, in whatever order they come. Equal with different bytes: the lower
  /// hash stays, both become evidence. `origin`: network of the owner's address, empty when unknown or local.
  /// A lease that its owner brings is refused as `denied` when it claims what another's live one holds; one that comes
  /// by others is kept beside it, so that storers that were apart agree in the end.
  Offered offer(SignedRecord record, std::int64_t now_ms, Source source, const std::string& origin = {});

  /// What changed under `key` after change number `since`, withdrawn records too, but none of `known`, which is sorted;
  /// at most `bytes_max`, at least one if there is any.
  Page page(const std::string& key, std::uint64_t since, std::int64_t now_ms, std::size_t bytes_max,
            std::span<const Mark> known = {}) const;
  /// Of all that is kept under `key`, sorted.
  std::vector<Mark> marks(const std::string& key) const;
  /// Sorted; those under which records are kept.
  std::vector<std::string> keys() const;
  /// The change number of the newest record of `key`; zero: there is none.
  std::uint64_t latest(const std::string& key) const;
  /// Grows whenever readers of `key` see another value. What expires does not count.
  std::uint64_t visible_version(const std::string& key) const;
  /// What a reader sees: neither expired nor withdrawn, sorted by (owner, subkey).
  std::vector<const SignedRecord*> records(const std::string& key, std::int64_t now_ms) const;
  /// Those that changed under `key` after change number `since`, in the order of their changes, withdrawn ones too.
  std::vector<const SignedRecord*> changed(const std::string& key, std::uint64_t since) const;
  /// Whether the record of this name is here in these very bytes: most of what one server tells, another has told
  /// before.
  bool holds(const RecordName&, std::span<const std::byte> encoded) const;
  /// Null: nothing is kept there.
  const SignedRecord* find(const SlotId&) const;
  /// The same, encoded; empty: nothing. Valid until the next change.
  std::span<const std::byte> encoded(const SlotId&) const;
  /// Null when there is none to read.
  const SignedRecord* record(const std::string& key, const PeerId& owner, std::int64_t now_ms) const;
  /// Whether `lease` claims units, beyond those that its owner's live record was granted here, that another live lease
  /// names. What live records were granted here never overlaps, so of two majorities one has a storer that says no.
  bool claims_anothers(const Record& lease, std::int64_t now_ms) const;

  /// One number per 64th of all slots; equal for two storages that keep the same versions.
  const std::array<std::uint64_t, kBuckets>& bucket_hashes() const noexcept { return bucket_hashes_; }
  /// Sorted by slot; those behind `after`, at most `count`.
  std::vector<Version> versions(std::size_t bucket, const SlotId& after = {},
                                std::size_t count = std::numeric_limits<std::size_t>::max()) const;

  /// Forgets what expired more than `kExpiryBehindMsMax` ago. A record that was replaced by one with an earlier expiry
  /// keeps its slot until it has expired itself, so that nobody brings it back.
  void expire(std::int64_t now_ms);

  std::size_t size() const noexcept { return entries_.size(); }
  std::size_t bytes() const noexcept { return bytes_; }
  const std::vector<Evidence>& evidence() const noexcept { return evidence_; }

 private:
  struct Entry;
  struct Owner;
  using Entries = std::map<SlotId, Entry>;
  using Changes = std::list<Entries::iterator>;
  struct Entry {
    SignedRecord record;
    Bytes encoded;  // it is read far more often than written
    std::uint64_t change = 0;
    std::uint64_t hash = 0;  // of its version
    std::int64_t forget_ms = 0;
    std::string origin;
    Work leased;   // of a lease: its units,
    Work granted;  // and which of them nobody else had here when it came
    Owner* owner = nullptr;
    Changes::iterator turn;  // among those of its key
  };
  struct ByPlace {
    using is_transparent = void;
    template <class A, class B>
    bool operator()(const A& a, const B& b) const {
      const auto order = a.first <=> b.first;
      return order != 0 ? order < 0 : std::string_view(a.second) < std::string_view(b.second);
    }
  };
  struct Shelf {
    std::map<std::pair<PeerId, std::string>, Entries::iterator, ByPlace> by_owner;
    Changes by_change;  // the newest last
    std::uint64_t visible_version = 0;
  };
  struct Usage {
    std::size_t records = 0;
    std::size_t bytes = 0;
  };
  struct Owner {
    Usage usage;
    double tokens = 0;
    std::int64_t refilled_ms = 0;
  };

  /// By its names, which needs no hash. Nullopt: nothing is kept under them.
  std::optional<Entries::iterator> entry_of(const RecordName&) const;
  Verdict check_quotas(const SignedRecord&, std::size_t bytes, const Entry* replaced, std::int64_t now_ms,
                       Source source, const std::string& origin);
  Owner& owner(const PeerId&, std::int64_t now_ms);
  /// What a record claims beyond what its owner was granted here, and which of that others name. For leases.
  struct Claim {
    Work leased;
    Work claimed;
    Work taken;
  };
  std::optional<Claim> claim_of(const Record& lease, std::int64_t now_ms) const;
  void store(const SlotId&, SignedRecord record, Bytes encoded, const std::string& origin, Claim claim);
  void unlist(Entries::iterator);
  void count(const Entry&, int sign);
  static Changes::const_iterator first_after(const Changes& changes, std::uint64_t since);
  bool keep_evidence(const SignedRecord& old, const SignedRecord& fresh);

  Options options_;
  Entries entries_;
  std::map<std::string, Shelf, std::less<>> shelves_;
  std::map<PeerId, Owner> owners_;
  std::map<std::string, Usage> origins_;
  std::set<std::pair<std::int64_t, SlotId>> by_expiry_;  // each entry once, for when it was to be forgotten at first
  std::array<std::uint64_t, kBuckets> bucket_hashes_{};
  std::vector<Evidence> evidence_;
  std::uint64_t changes_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace collab::directory
