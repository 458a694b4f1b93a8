// Which units a run has committed, from any donor: refused, or a ledger with exactly this encoding that goes on growing
// within its bounds. The last 24 bytes are also a round that is added to it, unless nobody would take it.
#include "data/ledger.hpp"
#include "support.hpp"

#include <algorithm>

namespace collab::fuzz::ledger_target {

COLLAB_FUZZ_TARGET(ledger) {
  using fuzz::require;
  const auto bytes = fuzz::bytes_of(data, size);
  const fuzz::AllocationBound bound(32 * size + 65'536);
  auto ledger = data::Ledger::decode(bytes);
  if (!ledger) return 0;
  require(std::ranges::equal(ledger->canonical(), bytes) && bytes.size() <= data::kLedgerBytesMax);
  require(ledger->committed().ranges().size() <= data::kLedgerRangesMax);
  require(ledger->first_free() == 0 || !ledger->committed().contains(ledger->first_free()));

  fuzz::Input input(bytes.last(std::min<std::size_t>(24, size)));
  const WorkRange range{input.number<std::uint64_t>() >> 1U, input.number<std::uint64_t>() >> 1U};
  const auto round = Work::of(std::span(&range, 1), 1);
  if (!round) return 0;
  const std::uint64_t before = ledger->committed().count();
  const auto added = ledger->add(*round);
  require(added.units + added.duplicates == range.count);
  require(ledger->committed().count() == before + added.units + added.skipped);
  const auto again = data::Ledger::decode(ledger->canonical());
  require(again && *again == *ledger);
  return 0;
}

}  // namespace collab::fuzz::ledger_target
