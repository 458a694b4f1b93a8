#pragma once
// A committed round as bytes, for a peer that was not in it.

#include "averaging/committed_round.hpp"
#include "base/bytes.hpp"
#include "base/error.hpp"
#include "state/download.hpp"
#include "state/result_keeper.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace collab::epoch {

/// Begin, proof and every Average, each preceded by its length.
Bytes encode(const averaging::CommittedRound& round);
/// Holds the round, and makes these bytes of it when somebody asks.
state::KeptResult kept(std::shared_ptr<const averaging::CommittedRound> round);
/// From anyone's hands. Verifies that a quorum of the group signed exactly these bytes, and that it is the round of
/// `epoch` among peers with this schema. Errors: `bad_request`, `denied`.
Result<std::shared_ptr<const averaging::CommittedRound>> decode_round(std::span<const std::byte> bytes,
                                                                      std::uint64_t epoch, const Digest& schema,
                                                                      const CodecMap& codecs,
                                                                      const SignatureScheme& scheme = ed25519());

/// What is asked for, and what the bytes must fit.
struct WantedRound {
  std::uint64_t epoch = 0;
  /// A group of a pass with this topic, not the one that ended the epoch;
  std::optional<Digest> first_group;
  std::function<bool(const matchmaking::Group&)> is_it;  ///< and it must be this one. Empty: any
  Duration wait{};                                       ///< donors may wait so long for it to end
  Digest schema{};
  const CodecMap& codecs;         ///< copied
  const SignatureScheme& scheme;  ///< outlives the call
};

struct FetchedRound {
  std::shared_ptr<const averaging::CommittedRound> round;
  std::vector<PeerId> silent;  ///< as FetchedResult::silent
};

/// From whoever has it. Errors: as state::download_result.
Task<boost::system::result<FetchedRound, Refusal>> fetch_round(state::Context context, WantedRound wanted,
                                                               std::vector<PeerId> donors);

}  // namespace collab::epoch
