#include "base/work.hpp"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <limits>
#include <tuple>

namespace collab {

Result<Work> Work::of(std::span<const WorkRange> ranges, std::size_t ranges_max) {
  if (ranges.size() > ranges_max) return Errc::bad_request;
  const WorkRange* before = nullptr;
  for (const WorkRange& range : ranges) {
    if (range.count == 0 || range.count > kWorkEndMax || range.first > kWorkEndMax - range.count)
      return Errc::bad_request;
    if (before != nullptr && range.first <= before->end()) return Errc::bad_request;
    before = &range;
  }
  Work work;
  work.ranges_.assign(ranges.begin(), ranges.end());
  return work;
}

std::uint64_t Work::count() const noexcept {
  std::uint64_t units = 0;
  for (const WorkRange& range : ranges_) units += range.count;
  return units;
}

bool Work::contains(std::uint64_t unit) const noexcept {
  const auto after = std::upper_bound(ranges_.begin(), ranges_.end(), unit,
                                      [](std::uint64_t what, const WorkRange& range) { return what < range.first; });
  return after != ranges_.begin() && unit < std::prev(after)->end();
}

void Work::add(WorkRange range) {
  if (range.count == 0) return;
  assert(range.first <= std::numeric_limits<std::uint64_t>::max() - range.count);
  // the first that touches it, and the first behind it that does not
  const auto begin = std::lower_bound(ranges_.begin(), ranges_.end(), range.first,
                                      [](const WorkRange& have, std::uint64_t first) { return have.end() < first; });
  auto end = begin;
  std::uint64_t last = range.end();
  while (end != ranges_.end() && end->first <= last) {
    range.first = std::min(range.first, end->first);
    last = std::max(last, end->end());
    ++end;
  }
  range.count = last - range.first;
  if (begin == end) {
    ranges_.insert(begin, range);
  } else {
    *begin = range;
    ranges_.erase(std::next(begin), end);
  }
}

void Work::add(const Work& more) {
  std::vector<WorkRange> all;
  all.reserve(ranges_.size() + more.ranges_.size());
  std::merge(ranges_.begin(), ranges_.end(), more.ranges_.begin(), more.ranges_.end(), std::back_inserter(all),
             [](const WorkRange& a, const WorkRange& b) { return a.first < b.first; });
  ranges_.clear();
  for (const WorkRange& range : all) {
    if (ranges_.empty() || ranges_.back().end() < range.first) {
      ranges_.push_back(range);
    } else {
      WorkRange& last = ranges_.back();
      last.count = std::max(last.end(), range.end()) - last.first;
    }
  }
}

void Work::subtract(const Work& less) {
  std::vector<WorkRange> rest;
  auto cut = less.ranges_.begin();
  for (WorkRange range : ranges_) {
    while (cut != less.ranges_.end() && cut->end() <= range.first) ++cut;
    for (auto at = cut; at != less.ranges_.end() && at->first < range.end(); ++at) {
      if (at->first > range.first) rest.push_back({range.first, at->first - range.first});
      const std::uint64_t begin = std::min(std::max(range.first, at->end()), range.end());
      range = {begin, range.end() - begin};
    }
    if (range.count > 0) rest.push_back(range);
  }
  ranges_ = std::move(rest);
}

Work Work::common(const Work& other) const {
  Work both;
  auto a = ranges_.begin();
  auto b = other.ranges_.begin();
  while (a != ranges_.end() && b != other.ranges_.end()) {
    const std::uint64_t begin = std::max(a->first, b->first);
    const std::uint64_t end = std::min(a->end(), b->end());
    if (begin < end) both.ranges_.push_back({begin, end - begin});
    a->end() < b->end() ? ++a : ++b;
  }
  return both;
}

Work Work::missing_of(WorkRange all) const {
  Work missing(all);
  missing.subtract(*this);
  return missing;
}

Work Work::take(std::uint64_t n) {
  Work taken;
  while (n > 0 && !ranges_.empty()) {
    WorkRange& front = ranges_.front();
    const std::uint64_t some = std::min(n, front.count);
    taken.ranges_.push_back({front.first, some});
    n -= some;
    if (some == front.count) {
      ranges_.erase(ranges_.begin());
    } else {
      front = {front.first + some, front.count - some};
    }
  }
  return taken;
}

std::uint64_t Work::close_gaps(std::size_t ranges_max) {
  assert(ranges_max > 0);
  if (ranges_.size() <= ranges_max) return 0;
  std::vector<WorkRange> gaps;
  for (std::size_t i = 1; i < ranges_.size(); ++i)
    gaps.push_back({ranges_[i - 1].end(), ranges_[i].first - ranges_[i - 1].end()});
  const auto by_size = [](const WorkRange& a, const WorkRange& b) {
    return std::tie(a.count, a.first) < std::tie(b.count, b.first);
  };
  std::sort(gaps.begin(), gaps.end(), by_size);
  gaps.resize(ranges_.size() - ranges_max);
  std::uint64_t units = 0;
  Work closed;
  for (const WorkRange& gap : gaps) {
    units += gap.count;
    closed.add(gap);
  }
  add(closed);
  return units;
}

}  // namespace collab
