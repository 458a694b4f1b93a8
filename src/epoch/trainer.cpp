#include "epoch/trainer.hpp"

#include <string>
#include <utility>

namespace collab::epoch {

Stepped Trainer::take_step(std::span<float> averaged, std::uint64_t epoch, const Work& counted) {
  const auto alone = still();
  Stepped out;
  out.finite = step(averaged, epoch).has_value();
  out.work = ledger_.add(counted);
  out.parameters = parameter_hash();
  out.ledger = ledger_;
  return out;
}

state::Snapshot Trainer::snapshot() const {
  const auto alone = still();
  state::Snapshot snapshot = copy_state(epoch());
  snapshot.sections.push_back({std::string(data::kLedgerSection), ledger_.canonical()});
  return snapshot;
}

Result<> Trainer::restore(const state::Snapshot& snapshot) {
  const state::Section* section = snapshot.find(data::kLedgerSection);
  if (section == nullptr) return Errc::bad_request;
  auto ledger = data::Ledger::decode(section->bytes);
  if (!ledger) return ledger.error();
  const auto alone = still();
  if (const auto loaded = load_state(snapshot); !loaded) return loaded;
  ledger_ = std::move(*ledger);
  return {};
}

}  // namespace collab::epoch
