#pragma once
// The one answer to "may this peer …?".

#include "base/clock.hpp"
#include "crypto/claim.hpp"
#include "crypto/peer_id.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace collab {

/// How a run admits peers.
enum class Admission : std::uint8_t {
  open,        ///< anybody: identities are free, so votes guard against faults only
  allow_list,  ///< whose id is in a file
  token,       ///< who shows a token of the authority
};
std::string_view name(Admission) noexcept;

struct Decision {
  bool yes = false;
  std::string reason;  ///< for the peer's user, when not
  explicit operator bool() const noexcept { return yes; }
};

/// Asked, in this order: own key and authority, which may everything; local blocks; the run's mode; the claim. Bans and
/// revoked tokens come between the first two when they exist, claims of a token with the mode `token`: until a token is
/// shown, that mode admits nobody.
///
/// Not thread-safe. Has no clock of its own: time is that of the last `refresh`.
class Access {
 public:
  struct Options {
    Admission admission = Admission::open;
    std::filesystem::path allow_list;  ///< one id per line, `#` begins a comment
    PeerId own{};
    std::optional<PeerId> authority;                   ///< signs what concerns the whole run
    Duration reload_period = std::chrono::seconds(3);  ///< the file's time stamp is looked at this often, so ≤ 5 s
    std::size_t allowed_max = 100'000;                 ///< ids in the file
    Duration block_min = std::chrono::minutes(1);      ///< the first block; the next is twice as long
    Duration block_max = std::chrono::hours(1);        ///< also: how long after its end a block counts as the last one
    std::size_t blocks_max = 4096;                     ///< then the one that ends first is forgotten
  };

  /// Reads nothing yet: until the first `refresh` an allow-list is empty.
  explicit Access(Options options) : options_(std::move(options)) {}

  Decision may(const PeerId& peer, Claim claim) const;

  /// Refuses `peer` here for `block_min`, twice as long as last time, up to `block_max`: it broke the protocol. Returns
  /// when the block ends. Own key and authority are never refused.
  TimePoint block(const PeerId& peer);

  /// What reading the allow-list gave; nothing: it was not due or has not changed.
  struct Reloaded {
    std::size_t peers = 0;  ///< on the list that is now in force
    std::string problem;    ///< why the file was not taken, with its line; the list before it stays in force
  };
  /// Moves time on: ends blocks, re-reads a changed allow-list. Call it once before serving, and at least every second.
  std::optional<Reloaded> refresh(TimePoint now);

 private:
  struct Block {
    TimePoint until;
    Duration length;
  };
  Reloaded reload();

  Options options_;
  TimePoint now_{};
  std::optional<TimePoint> looked_;
  std::string stamp_;  ///< identifies the file's content without reading it
  std::set<PeerId> allowed_;
  std::map<PeerId, Block> blocks_;
};

}  // namespace collab
