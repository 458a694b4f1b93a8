#pragma once
// What a peer tells the dashboards of its run: two records of the directory. This file is their specification;
// base/frame.hpp has the rules of evolution. Each is signed as a whole by the directory's record, so readers know who
// says it, and that is all they know: it is shown, nothing depends on it.

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/message.hpp"
#include "crypto/hash.hpp"
#include "monitor/swarm_view.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace collab::monitor {

inline constexpr std::string_view kRoundKey = "round";            ///< the last round that its owner tells of
inline constexpr std::string_view kEvaluationKey = "evaluation";  ///< its last held-out loss
inline constexpr Duration kReportTtl = std::chrono::seconds(60);
inline constexpr std::size_t kRoundMembersMax = 64;
inline constexpr std::size_t kRoundIdBytes = 6;  ///< of a member's id that are told
inline constexpr std::size_t kReasonBytesMax = 200;

namespace wire {

/// A round as its owner lived through it. Payload: 12 bytes for each member of the roster, so that 64 fit a record: the
/// first 6 of its id | u32 samples behind its part, at most that many, 0: unknown | u8 percent of the values that its
/// part is in | u8 why the rest is missing, an index into `kLeftOut`.
struct RoundV1 {
  std::uint64_t epoch = 0;
  std::uint32_t round = 0;
  Digest group{};          ///< zeros: there was none
  bool committed = false;  ///< else it failed
  std::string reason;      ///< of a failure, for a person; at most `kReasonBytesMax`
  double exchange_s = 0;   ///< NaN, here and below: it did not come so far
  double commit_s = 0;
  double apply_s = 0;
  std::uint64_t samples = 0;   ///< behind the step; 0: unknown
  std::uint64_t up_bytes = 0;  ///< the owner's own
  std::uint64_t down_bytes = 0;
  MESSAGE_MAP(epoch, round, group, committed, reason, exchange_s, commit_s, apply_s, samples, up_bytes, down_bytes)
};

/// Loss on text that nobody trains on, of the parameters of `epoch`.
struct EvaluationV1 {
  std::uint64_t epoch = 0;
  double loss = 0;
  MESSAGE_MAP(epoch, loss)
};
using Header = std::variant<RoundV1, EvaluationV1>;

}  // namespace wire

/// Words of `RoundMember::left_out`. Never reordered; an index that a reader does not know is "refused".
inline constexpr std::array<std::string_view, 11> kLeftOut = {"",         "elsewhere",      "dead",      "frozen",
                                                              "slow",     "refused",        "malformed", "not_finite",
                                                              "conflict", "weight_refused", "overlap"};

/// The value of a record. Roles and bytes of single members are not told; a long reason is cut.
/// Errors: `bad_request` when there are more members than `kRoundMembersMax`, or they and the reason do not fit
/// together.
Result<Bytes> encode_round(const RoundView& round);
/// Of the members' ids only the beginning is known: `RoundMember::whole_id` is false. No time, nobody who tells.
/// Errors: `bad_request` for what is no such record, or has numbers that no round has.
Result<RoundView> decode_round(std::span<const std::byte> value);

Bytes encode_evaluation(const wire::EvaluationV1& evaluation);
/// Errors: `bad_request`, also when the loss is not finite.
Result<wire::EvaluationV1> decode_evaluation(std::span<const std::byte> value);

}  // namespace collab::monitor
