#include "data/ledger.hpp"

#include "crypto/fields.hpp"

#include <vector>

namespace collab::data {
namespace {

constexpr std::size_t kHeadBytes = 20;   // duplicates, skipped, how many ranges
constexpr std::size_t kRangeBytes = 16;  // first, count
static_assert(kLedgerRangesMax == (kLedgerBytesMax - kHeadBytes) / kRangeBytes);

}  // namespace

Ledger::Added Ledger::add(const Work& work) {
  Added added;
  added.duplicates = committed_.common(work).count();
  added.units = work.count() - added.duplicates;
  committed_.add(work);
  // forgetting what is committed would let it be computed again; forgetting what is free costs a few samples
  added.skipped = committed_.close_gaps(kLedgerRangesMax);
  duplicates_ += added.duplicates;
  skipped_ += added.skipped;
  return added;
}

std::uint64_t Ledger::first_free() const noexcept {
  const auto& ranges = committed_.ranges();
  return ranges.empty() || ranges.front().first > 0 ? 0 : ranges.front().end();
}

Bytes Ledger::canonical() const {
  FieldWriter writer;
  writer.add(duplicates_).add(skipped_).add(static_cast<std::uint32_t>(committed_.ranges().size()));
  for (const WorkRange& range : committed_.ranges()) writer.add(range.first).add(range.count);
  return writer.finish();
}

Result<Ledger> Ledger::decode(std::span<const std::byte> bytes) {
  if (bytes.size() > kLedgerBytesMax) return Errc::bad_request;
  FieldReader reader(bytes);
  Ledger ledger;
  ledger.duplicates_ = reader.take<std::uint64_t>();
  ledger.skipped_ = reader.take<std::uint64_t>();
  const auto count = reader.take<std::uint32_t>();
  if (count > kLedgerRangesMax || bytes.size() != kHeadBytes + count * kRangeBytes) return Errc::bad_request;
  std::vector<WorkRange> ranges;
  for (std::uint32_t i = 0; i < count; ++i) {
    WorkRange range;
    range.first = reader.take<std::uint64_t>();
    range.count = reader.take<std::uint64_t>();
    ranges.push_back(range);
  }
  if (const auto whole = reader.finish(); !whole) return whole.error();
  auto committed = Work::of(ranges, kLedgerRangesMax);
  if (!committed) return committed.error();
  ledger.committed_ = std::move(*committed);
  return ledger;
}

}  // namespace collab::data
