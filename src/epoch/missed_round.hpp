#pragma once
// A committed round as bytes, for a peer that was not in it.

#include "averaging/committed_round.hpp"
#include "base/bytes.hpp"
#include "base/error.hpp"
#include "state/result_keeper.hpp"

#include <memory>
#include <span>

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

}  // namespace collab::epoch
