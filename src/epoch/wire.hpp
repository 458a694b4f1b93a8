#pragma once
// Every message by which one that leaves hands on what it has gathered, version 1. This file is the protocol's
// specification; base/frame.hpp has the frame around it and the rules of evolution.
//
// The leaver asks its heir by the call `epoch.take_on`. The heir, before it answers, opens the conversation
// `epoch.legacy` about topic_of(ask) and says Ready; the leaver, whose end is open, sends the mean gradient as Pieces
// in order, one after the other, in the run's codecs. The answer says that its samples are in the heir's sum: from then
// on they count as the heir's own, or are lost with it. Who gets no answer does not know, and never hands them on
// again.

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/message.hpp"
#include "base/work.hpp"
#include "crypto/hash.hpp"
#include "crypto/peer_id.hpp"
#include "tensor/partition.hpp"

#include <cstdint>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

namespace collab::epoch::wire {

inline constexpr std::string_view kTakeOnMethod = "epoch.take_on";
inline constexpr std::string_view kLegacyProtocol = "epoch.legacy";
inline constexpr std::size_t kPieceUnits = 8;  ///< of the vector, in each piece but the last: 128 KiB as float32

/// `count` units of work from `first` on.
struct Run {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  MESSAGE_ARRAY(first, count)
};

/// Leaver -> heir. Refused: `stale` (number: the heir's epoch) when that is another one, or its samples are in a round;
/// `busy` when it takes on another's, or has enough; `denied` when it has taken on this peer's in this epoch, or units
/// are another's; `gone` when it does not take part; `bad_request` when it cannot be so, of the samples, the units or
/// the pieces; `late` when the pieces do not come.
struct TakeOn {
  std::uint64_t epoch = 0;
  std::uint64_t samples = 0;  ///< at least 1, and no more than the records of the leaver allow
  Digest parameters{};        ///< on which they were computed: state::parameter_hash
  std::vector<Run> work;      ///< the units among them, ascending and apart; at most kWorkRangesMax
  std::uint64_t nonce = 0;    ///< by chance: the topic of one try is not that of another
  MESSAGE_MAP(epoch, samples, parameters, work, nonce)
};

/// The answer.
struct TakenOn {
  std::uint64_t samples = 0;  ///< all of them
  MESSAGE_MAP(samples)
};

/// Heir -> leaver: it waits for the pieces.
struct Ready {
  std::uint32_t pieces = 0;  ///< so many
  MESSAGE_MAP(pieces)
};

/// Leaver -> heir. Payload: the values of piece(index), as codecs write them.
struct Piece {
  std::uint32_t index = 0;
  MESSAGE_MAP(index)
};

using Message = std::variant<TakeOn, TakenOn, Ready, Piece>;

/// Of a vector of `length` values.
std::uint32_t pieces_of(std::size_t length) noexcept;
Range piece(std::size_t length, std::uint32_t index) noexcept;

struct Asked {
  TakeOn ask;
  Work work;
};
/// Errors: `bad_request` for anything but a TakeOn whose units are of the form that Work::of accepts, and no more than
/// its samples.
Result<Asked> read_ask(std::span<const std::byte> frame);
/// Between these two.
Digest topic_of(const TakeOn& ask, const PeerId& leaver, const PeerId& heir);

}  // namespace collab::epoch::wire
