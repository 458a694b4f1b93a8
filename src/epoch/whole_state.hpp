#pragma once
// The state of a run as it travels and is kept: the trainer's, with the ledger.

#include "epoch/trainer.hpp"

namespace collab::epoch {

/// Everything that makes two peers of `epoch` equal. On the trainer's thread, as all of this file.
state::Snapshot take_state(const Trainer& trainer, std::uint64_t epoch);
/// Errors: `bad_request` when a section is missing or malformed; nothing has changed then.
Result<> restore_state(Trainer& trainer, const state::Snapshot& snapshot);

}  // namespace collab::epoch
