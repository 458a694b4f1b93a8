#pragma once
// What a member of a run tells whoever shows it.

#include "epoch/report.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace collab::epoch {

/// What happened to the peer, told on the loop. `report` is set for `committed`.
struct MemberEvent {
  enum class Kind : std::uint8_t {
    joined,        ///< in step with the swarm, takes part from here on
    committed,     ///< an epoch ended with this peer in it
    caught_up,     ///< an epoch ended without it; the result was fetched and applied
    downloaded,    ///< the state was fetched whole
    round_failed,  ///< samples kept; `text` says why
    lost_samples,  ///< `samples` were gathered for an epoch that ended without them
    not_finite,    ///< a step came to nothing, and the parameters are older ones; `text` says why
    diverged,      ///< own hash differs from the majority's; the state is fetched
    codec,         ///< averages travel otherwise than in the epoch before; `text` says how
    waiting,       ///< cannot go on; `text` says why
  };
  Kind kind = Kind::joined;
  std::uint64_t epoch = 0;  ///< the peer's own, after the event
  std::uint64_t samples = 0;
  std::string text;
  std::optional<EpochReport> report;
};

}  // namespace collab::epoch
