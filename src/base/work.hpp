#pragma once
// Units of work as sets: what a peer computes, what a round counted, what a pass still lacks.
//
// A unit of work is one sample's worth of gradient, named by its index in the run's endless stream of passes over the
// data. Not a `unit` of the flat vector.

#include "base/error.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace collab {

/// Units first .. first + count - 1.
struct WorkRange {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  std::uint64_t end() const noexcept { return first + count; }
  bool operator==(const WorkRange&) const = default;
};

/// How many ranges one contribution or one lease may name: more is a peer that collects crumbs.
inline constexpr std::size_t kWorkRangesMax = 64;

/// No run gets there, and whoever looks ahead from there does not overflow.
inline constexpr std::uint64_t kWorkEndMax = std::uint64_t(1) << 62U;

/// A set of units. Its ranges are its only form: ascending, none empty, none touching the next, so equal sets are equal
/// in every byte they are written to. Every operation costs at most the number of ranges of its operands.
class Work {
 public:
  Work() = default;
  /// `range.end()` does not overflow; it may be empty.
  explicit Work(WorkRange range) { add(range); }

  /// From anybody's hands. Errors: `bad_request` unless it is at most `ranges_max` ranges in the form above, up to
  /// kWorkEndMax.
  static Result<Work> of(std::span<const WorkRange> ranges, std::size_t ranges_max);

  const std::vector<WorkRange>& ranges() const noexcept { return ranges_; }
  bool empty() const noexcept { return ranges_.empty(); }
  /// Units in it.
  std::uint64_t count() const noexcept;
  bool contains(std::uint64_t unit) const noexcept;

  void add(WorkRange range);
  void add(const Work& more);
  void subtract(const Work& less);
  /// What both have.
  Work common(const Work& other) const;
  bool overlaps(const Work& other) const { return !common(other).empty(); }
  /// Of `all` what is not in here.
  Work missing_of(WorkRange all) const;
  /// Takes the `n` lowest units out of it, or all there are.
  Work take(std::uint64_t n);
  /// Fills the smallest gaps between its ranges (of equal ones the lower) until there are at most `ranges_max` > 0.
  /// Returns the units that are in it since, which nobody put there.
  std::uint64_t close_gaps(std::size_t ranges_max);

  bool operator==(const Work&) const = default;

 private:
  std::vector<WorkRange> ranges_;
};

/// What stands behind a gradient: how much it counts, and which units it is made of. A free-form loop names none.
struct Gathered {
  std::uint64_t samples = 0;
  Work work;
};

}  // namespace collab
