#pragma once
// Who serves the directory: a function of what is published under "peer", so every node that sees the same members
// knows the same servers.

#include "directory/peer_record.hpp"
#include "directory/storage.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace collab::directory {

/// A pure cache over a Storage: call `update` before asking.
class ServerSet {
 public:
  struct Options {
    std::string run;
    std::vector<PeerId> bootstrap;  ///< given by the user: servers whatever is published; the first 8 count
    std::size_t bootstrap_max = 8;
    std::size_t flagged_max = 16;     ///< members that say `directory`, by lowest hash
    std::size_t standing_max = 8;     ///< reachable members of lowest hash(run, id), from the start of a run
    std::int64_t young_ms = 120'000;  ///< members that started later stand behind all older ones
  };

  explicit ServerSet(Options options) : options_(std::move(options)) {}

  /// True when the set is another one now.
  bool update(const Storage& storage, std::int64_t now_ms);
  /// Sorted; at most 32.
  const std::vector<PeerId>& ids() const noexcept { return ids_; }
  bool contains(const PeerId&) const;
  bool is_bootstrap(const PeerId&) const;
  /// Of the servers that have a record of key "peer": equal for two nodes that can name the same ones.
  std::uint64_t hash() const noexcept { return hash_; }
  /// Their records, sorted by owner; valid until the storage changes.
  std::vector<const SignedRecord*> records(const Storage& storage, std::int64_t now_ms) const;

 private:
  /// What a member says of itself, as far as it matters here.
  struct Published {
    PeerId owner;
    Signature signature{};
    std::uint64_t sequence = 0;
    bool valid = false;
    bool reachable = false;
    bool directory = false;
    Digest rank{};
  };
  Published read(const SignedRecord& record, const Published* before) const;
  void read_all(const Storage& storage, std::int64_t now_ms);
  bool bring(const SignedRecord& record, std::int64_t now_ms);
  bool may_serve(const Published& peer) const;
  std::int64_t young_until_ms(const Published& peer) const;
  bool choose(std::int64_t now_ms);

  Options options_;
  std::vector<Published> published_;  ///< sorted by owner: of many one or two have changed since the last time
  std::vector<PeerId> ids_;
  std::uint64_t hash_ = 0;
  std::uint64_t seen_version_ = 0;   ///< of what is visible, and
  std::uint64_t newest_ = 0;         ///< the newest change, at
  std::int64_t seen_ms_ = 0;         ///< the last update
  std::int64_t next_expiry_ms_ = 0;  ///< of one of the records
  std::int64_t next_grown_ms_ = 0;   ///< when the next member is young no more
};

}  // namespace collab::directory
