#pragma once
// The one answer to "may this peer …?".

#include "base/clock.hpp"
#include "crypto/ban.hpp"
#include "crypto/claim.hpp"
#include "crypto/peer_id.hpp"
#include "crypto/token.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace collab {

/// How a run admits peers.
enum class Admission : std::uint8_t {
  open,        ///< anybody: identities are free, so votes guard against faults only
  allow_list,  ///< whose id is in a file
  token,       ///< who shows a token of the authority
};
std::string_view name(Admission) noexcept;

/// Which rule says no.
enum class Denial : std::uint8_t {
  none,
  banned,   ///< by the authority
  token,    ///< it was revoked, has expired, does not hold yet, or none was shown that is this peer's
  blocked,  ///< here, for a while
  list,     ///< not on the allow-list
  claim,    ///< admitted, but not for this
};

struct Decision {
  bool yes = false;
  std::string reason;  ///< for the peer's user, when not
  Denial why = Denial::none;
  Duration wait{};  ///< `blocked`: until it ends
  explicit operator bool() const noexcept { return yes; }
};

/// Asked, in this order: bans; revoked tokens; own key and authority, which may everything; local blocks; the run's
/// mode; the claim. An open run and an allow-list grant everybody who is admitted all but to coordinate; beside that,
/// a token grants what it says in every mode.
///
/// Not thread-safe. Has no clock of its own: time is that of the last `refresh`.
class Access {
 public:
  struct Options {
    std::string run_id;  ///< what tokens and bans are signed for
    Admission admission = Admission::open;
    std::filesystem::path allow_list;  ///< one id per line, `#` begins a comment
    PeerId own{};
    std::optional<PeerId> authority;  ///< signs what concerns the whole run; without one no token helps
    Duration reload_period = std::chrono::seconds(3);  ///< the file's time stamp is looked at this often, so ≤ 5 s
    std::size_t allowed_max = 100'000;                 ///< ids in the file
    Duration block_min = std::chrono::minutes(1);      ///< the first block; the next is twice as long
    Duration block_max = std::chrono::hours(1);        ///< also: how long after its end a block counts as the last one
    std::size_t blocks_max = 4096;                     ///< then the one that ends first is forgotten
    std::size_t tokens_max = 4096;                     ///< likewise of the tokens that were shown
  };

  /// Reads nothing yet: until the first `refresh` an allow-list is empty.
  explicit Access(Options options) : options_(std::move(options)) {}
  /// Other rules from now on, of the same run. Who is blocked gets a new chance; tokens and bans stay.
  void change(Options options);

  Decision may(const PeerId& peer, Claim claim) const;
  /// Whether the others may still admit this node, as far as it can know: as `may`, without the trust in oneself.
  Decision own() const;

  /// `peer`, as TLS proves, shows this token; it is kept unless a newer one is known that holds. Decides nothing: ask
  /// `may`, which also knows the time. Empty: none was shown, which is no error. Errors: those of `read_token`, and
  /// `TokenErrc::other_peer`; it is then not kept.
  Result<> show(const PeerId& peer, std::span<const std::byte> token);
  /// When the token that `peer` has shown expires, Unix milliseconds; nothing: it has shown none.
  std::optional<std::int64_t> expiry_of(const PeerId& peer) const;

  /// All bans and revocations that hold, in place of those before. Verified: `read_ban`.
  void obey(const std::vector<Ban>& bans);

  /// Refuses `peer` here for `block_min`, twice as long as last time, up to `block_max`: it broke the protocol. Returns
  /// when the block ends. Own key and authority are never refused.
  TimePoint block(const PeerId& peer);

  /// What reading the allow-list gave; nothing: it was not due or has not changed.
  struct Reloaded {
    std::size_t peers = 0;  ///< on the list that is now in force
    std::string problem;    ///< why the file was not taken, with its line; the list before it stays in force
  };
  /// Moves time on: ends blocks, bans and tokens, re-reads a changed allow-list. `unix_ms`: swarm time. Call it once
  /// before serving, and at least every second.
  std::optional<Reloaded> refresh(TimePoint now, std::int64_t unix_ms);

 private:
  struct Block {
    TimePoint until;
    Duration length;
  };
  Reloaded reload();
  std::optional<Decision> taken_back(const PeerId& peer) const;
  const Token* token_of(const PeerId& peer) const;
  Decision by_token(const PeerId& peer, Claim claim) const;

  Options options_;
  TimePoint now_{};
  std::int64_t unix_ms_ = 0;
  std::optional<TimePoint> looked_;
  std::string stamp_;  ///< identifies the file's content without reading it
  std::set<PeerId> allowed_;
  std::map<PeerId, Block> blocks_;
  std::map<PeerId, Token> tokens_;  ///< that were shown
  std::map<PeerId, Ban> banned_;
  std::map<TokenSerial, Ban> revoked_;
};

}  // namespace collab
