// Which units a peer claims: any bytes are refused, or are a set that has exactly this encoding and obeys set algebra.
#include "directory/lease_record.hpp"
#include "support.hpp"

#include <algorithm>

namespace collab::fuzz::lease_target {

void check_algebra(const Work& a, const Work& b) {
  Work sum = a;
  sum.add(b);
  const Work common = a.common(b);
  require(sum.count() + common.count() == a.count() + b.count());
  Work rest = sum;
  rest.subtract(b);
  require(rest.count() == a.count() - common.count() && !rest.overlaps(b));
  Work taken = sum;
  const Work front = taken.take(sum.count() / 2);
  require(front.count() == sum.count() / 2 && !front.overlaps(taken));
  for (const WorkRange& range : front.ranges()) require(sum.contains(range.first) && !taken.contains(range.first));
}

COLLAB_FUZZ_TARGET(lease) {
  const auto bytes = fuzz::bytes_of(data, size);
  const auto work = directory::decode_lease(bytes);
  if (work) {
    require(!work->empty() && work->ranges().size() <= kWorkRangesMax);
    require(work->count() <= directory::kLeaseUnitsMax);
    require(std::ranges::equal(directory::encode_lease(*work), bytes));
  }
  // two leases from one input, so that they meet
  const std::size_t half = size / 24 * 12;
  const auto first = directory::decode_lease(bytes.first(half));
  const auto second = directory::decode_lease(bytes.subspan(half));
  if (first && second) check_algebra(*first, *second);
  return 0;
}

}  // namespace collab::fuzz::lease_target
