#pragma once
// The progress record: what every peer says of itself, under key "progress" of the directory; and the keeper record,
// under key "keeper". This file is their specification; base/frame.hpp has the rules of their evolution. They are
// signed as a whole by the directory's records.

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/message.hpp"
#include "crypto/hash.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

namespace collab::progress {

inline constexpr std::string_view kProgressKey = "progress";
inline constexpr std::string_view kKeeperKey = "keeper";

namespace wire {

struct ProgressV1 {
  std::uint64_t epoch = 0;        ///< of the parameters it holds
  std::uint64_t samples = 0;      ///< gathered for this epoch
  double samples_per_s = 0;       ///< while it computes
  std::int64_t unix_ms = 0;       ///< when this was so
  std::uint32_t period_ms = 0;    ///< until the next record, at most; older than two of them it says nothing any more
  Digest group{};                 ///< of its last committed round; zero: none yet
  Digest parameters{};            ///< state::parameter_hash
  Digest ledger{};                ///< content_hash of the units behind them; zero: not told
  double loss = 0;                ///< its training loss of the last epoch; NaN: unknown
  bool taking_part = false;       ///< it gathers samples for this epoch; else it watches, or catches up
  std::uint64_t microbatch = 0;   ///< samples of its last one: they come all at once; 0: not told
  bool client = false;            ///< it cannot be dialled
  std::uint64_t handed_over = 0;  ///< besides, to a pass of this epoch that has not ended
  /// Of one that leaves: to whose key it hands on what it has gathered for this epoch.
  std::optional<std::array<unsigned char, 32>> heir = {};
  std::uint64_t left = 0;  ///< so many samples; `samples` is 0 then
  /// It is in no round of this epoch with a lower attempt any more, and got the result of none of them.
  std::uint32_t given_up = 0;
  std::uint64_t incarnation = 0;  ///< as in matchmaking: grows with every start of the peer
  bool averaging = false;         ///< a round of a pass, at that moment
  /// Of one that started anew and may have signed in its former life: when it takes part at the latest; 0: another.
  std::int64_t votes_from_ms = 0;
  MESSAGE_MAP(epoch, samples, samples_per_s, unix_ms, period_ms, group, parameters, ledger, loss, taking_part,
              microbatch, client, handed_over, heir, left, given_up, incarnation, averaging, votes_from_ms)
};
using Header = std::variant<ProgressV1>;

/// Of who keeps checkpoints of the run and takes no part in it.
struct KeeperV1 {
  std::uint64_t epoch = 0;  ///< of its newest checkpoint; 0: none yet
  MESSAGE_MAP(epoch)
};
using KeeperHeader = std::variant<KeeperV1>;

}  // namespace wire

using Record = wire::ProgressV1;
using KeeperRecord = wire::KeeperV1;

Bytes encode(const Record& record);
/// Errors: `bad_request` for other bytes, or numbers that no correct peer says: a rate, loss or time out of range, a
/// period of 0.
Result<Record> decode(std::span<const std::byte> value);

Bytes encode(const KeeperRecord& record);
/// Errors: `bad_request`.
Result<KeeperRecord> decode_keeper(std::span<const std::byte> value);

}  // namespace collab::progress
