#include "epoch/trainer.hpp"

#include <string>
#include <utility>

namespace collab::epoch {

state::Snapshot Trainer::snapshot(std::uint64_t epoch) const {
  state::Snapshot snapshot = copy_state(epoch);
  snapshot.sections.push_back({std::string(data::kLedgerSection), ledger_.canonical()});
  return snapshot;
}

Result<> Trainer::restore(const state::Snapshot& snapshot) {
  const state::Section* section = snapshot.find(data::kLedgerSection);
  if (section == nullptr) return Errc::bad_request;
  auto ledger = data::Ledger::decode(section->bytes);
  if (!ledger) return ledger.error();
  if (const auto loaded = load_state(snapshot); !loaded) return loaded;
  ledger_ = std::move(*ledger);
  return {};
}

}  // namespace collab::epoch
