#include "averaging/round_work.hpp"

#include "matchmaking/terms.hpp"

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

namespace collab::averaging {

std::size_t work_ranges_max(std::size_t voices) noexcept {
  constexpr std::size_t kListMax = 256;
  return std::min(kListMax, kRoundWorkRangesMax / std::max<std::size_t>(voices, 1));
}

std::size_t work_ranges_max(const Members& members) noexcept {
  std::size_t voices = 0;
  for (Ranks rest = members.voters; rest != 0; rest &= ~members.previous[first(rest)]) ++voices;
  return work_ranges_max(voices);
}

bool believable(const Work& work, std::uint64_t weight_max) noexcept {
  return work.count() / matchmaking::kTargetsPerPeer <= weight_max;
}

bool fits_part(const Work& work, std::size_t ranges_max) noexcept {
  const auto& ranges = work.ranges();
  const auto fits = [](const WorkRange& range) { return range.count <= std::numeric_limits<std::uint32_t>::max(); };
  return ranges.size() <= ranges_max && std::all_of(ranges.begin(), ranges.end(), fits);
}

std::vector<wire::WorkRun> to_wire(const Work& work) {
  assert(fits_part(work, kRoundWorkRangesMax));
  std::vector<wire::WorkRun> runs;
  for (const WorkRange& range : work.ranges()) runs.push_back({range.first, static_cast<std::uint32_t>(range.count)});
  return runs;
}

std::vector<wire::SenderWork> to_wire(const WorkOfSenders& work) {
  std::vector<wire::SenderWork> senders;
  for (const auto& [rank, units] : work) senders.push_back({rank, to_wire(units)});
  return senders;
}

Result<Work> from_wire(const std::vector<wire::WorkRun>& runs, std::size_t ranges_max) {
  std::vector<WorkRange> ranges;
  for (const wire::WorkRun& run : runs) ranges.push_back({run.first, run.count});
  return Work::of(ranges, ranges_max);
}

Result<WorkOfSenders> from_wire(const std::vector<wire::SenderWork>& senders, std::size_t ranges_max) {
  WorkOfSenders work;
  for (const wire::SenderWork& sender : senders) {
    auto units = from_wire(sender.work, ranges_max);
    if (!units || units->empty()) return Errc::bad_request;
    if (!work.empty() && work.rbegin()->first >= sender.rank) return Errc::bad_request;
    work.emplace(sender.rank, std::move(*units));
  }
  return work;
}

Work RoundWork::all() const {
  Work all;
  for (const Work& work : by_rank) all.add(work);
  return all;
}

RoundWork attribute(const Members& members, const std::vector<WorkOfSenders>& named) {
  RoundWork round;
  round.by_rank.resize(members.size);
  for (const WorkOfSenders& segment : named)
    for (const auto& [rank, work] : segment) round.by_rank.at(rank).add(work);
  Work counted;
  for (const Rank rank : members.order) {
    Work& work = round.by_rank[rank];
    work.subtract(counted);
    counted.add(work);
  }
  return round;
}

}  // namespace collab::averaging
