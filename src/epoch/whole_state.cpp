#include "epoch/whole_state.hpp"

#include <string>
#include <utility>

namespace collab::epoch {

state::Snapshot take_state(const Trainer& trainer, std::uint64_t epoch) {
  state::Snapshot snapshot = trainer.snapshot(epoch);
  snapshot.sections.push_back({std::string(data::kLedgerSection), trainer.ledger().canonical()});
  return snapshot;
}

Result<> restore_state(Trainer& trainer, const state::Snapshot& snapshot) {
  const state::Section* section = snapshot.find(data::kLedgerSection);
  if (section == nullptr) return Errc::bad_request;
  auto ledger = data::Ledger::decode(section->bytes);
  if (!ledger) return ledger.error();
  if (const auto restored = trainer.restore(snapshot); !restored) return restored;
  trainer.ledger() = std::move(*ledger);
  return {};
}

}  // namespace collab::epoch
