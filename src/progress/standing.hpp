#pragma once
// What the records of a swarm say together: pure.

#include "crypto/peer_id.hpp"
#include "progress/wire.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <vector>

namespace collab::progress {

/// One peer's record that is fresh: at most two of its periods old.
struct Standing {
  PeerId peer;
  Record record;
};

/// Whether `record` still speaks for its peer: at most two periods and `slack` old, and not from the future by more.
bool is_fresh(const Record& record, std::int64_t unix_ms, std::int64_t slack_ms = 2000);
/// The last moment at which that is what it is at `unix_ms`, while nothing else is told.
std::int64_t stays_so_until(const Record& record, std::int64_t unix_ms, std::int64_t slack_ms = 2000);

/// The highest two epochs that were shown.
class EpochsShown {
 public:
  void add(std::uint64_t epoch);
  /// The highest epoch that two show; of two or one: the highest. Empty: nobody shows any.
  std::optional<std::uint64_t> global() const;

 private:
  std::size_t count_ = 0;
  std::uint64_t highest_ = 0;
  std::uint64_t second_ = 0;
};

/// EpochsShown::global of all of them.
std::optional<std::uint64_t> global_epoch(const std::vector<Standing>& standings);

/// For hashes that peers hold.
class Votes {
 public:
  void add(const Digest& hash, std::uint64_t samples);
  /// That of most peers; ties to more samples, then to the lower hash. Empty: nobody voted.
  std::optional<Digest> most() const;

 private:
  struct For {
    std::size_t peers = 0;
    std::uint64_t samples = 0;
  };
  std::map<Digest, For> votes_;
};

/// The hash that most of those at `epoch` hold; ties to more samples, then to the lower hash. Empty: nobody is there.
std::optional<Digest> majority(const std::vector<Standing>& standings, std::uint64_t epoch);
/// The ledger that most of those tell who hold the majority's parameters; ties as above. Empty: nobody tells one.
std::optional<Digest> majority_ledger(const std::vector<Standing>& standings, std::uint64_t epoch);

/// Samples gathered for `epoch` by now: what was told, and since then at the told rate, but for no longer than two
/// periods. Of one of them, and of all.
double gathered(const Record& record, std::uint64_t epoch, std::int64_t unix_ms);
double gathered(const std::vector<Standing>& standings, std::uint64_t epoch, std::int64_t unix_ms);

/// When a peer took its last steps. In a large swarm most records that it knows tell of an epoch that is over.
struct Steps {
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::min();
  std::uint64_t epoch = 0;          ///< that began with the last one
  std::int64_t began_ms = kNever;   ///< when
  std::int64_t last_ms = kNever;    ///< the same, if it came from the epoch before
  std::int64_t before_ms = kNever;  ///< when that one had begun, if it came from the one before it

  void take(std::uint64_t next, std::int64_t now_ms);
};
/// Whether who told that gathers for the epoch of `steps`: it said so, or was in step in one of the two before it when
/// it told of that.
bool gathers(const Record& record, const Steps& steps);
/// As above, with what those gather since the epoch began, at the told rate, who were in step before it.
double gathered(const Record& record, const Steps& steps, std::int64_t unix_ms);

/// Samples per second of all who take part at `epoch` or one before it (their next record will say so).
double samples_per_s(const std::vector<Standing>& standings, std::uint64_t epoch);

}  // namespace collab::progress
