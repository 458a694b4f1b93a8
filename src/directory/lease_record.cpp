#include "directory/lease_record.hpp"

#include "crypto/fields.hpp"

#include <algorithm>
#include <cassert>
#include <vector>

namespace collab::directory {

std::string lease_key(std::uint64_t pass) {
  return std::string(kLeasePrefix) + std::to_string(pass);
}

bool is_lease_key(std::string_view key) noexcept {
  return key.starts_with(kLeasePrefix);
}

bool fits_lease(const Work& work) noexcept {
  return work.ranges().size() <= kWorkRangesMax && work.count() <= kLeaseUnitsMax;
}

Bytes encode_lease(const Work& work) {
  assert(!work.empty());
  FieldWriter writer;
  std::uint64_t room = kLeaseUnitsMax;
  const auto& ranges = work.ranges();
  for (std::size_t i = 0; i < std::min(ranges.size(), kWorkRangesMax) && room > 0; ++i) {
    const std::uint64_t units = std::min(ranges[i].count, room);
    writer.add(ranges[i].first).add(static_cast<std::uint32_t>(units));
    room -= units;
  }
  return writer.finish();
}

Result<Work> decode_lease(std::span<const std::byte> value) {
  constexpr std::size_t kRangeBytes = 12;
  if (value.empty() || value.size() > kWorkRangesMax * kRangeBytes) return Errc::bad_request;
  FieldReader reader(value);
  std::vector<WorkRange> ranges;
  for (std::size_t i = 0; i < value.size() / kRangeBytes; ++i) {
    WorkRange range;
    range.first = reader.take<std::uint64_t>();
    range.count = reader.take<std::uint32_t>();
    ranges.push_back(range);
  }
  if (const auto whole = reader.finish(); !whole) return whole.error();
  auto work = Work::of(ranges, kWorkRangesMax);
  if (work && !fits_lease(*work)) return Errc::bad_request;
  return work;
}

}  // namespace collab::directory
