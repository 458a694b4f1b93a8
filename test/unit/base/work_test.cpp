#include "base/work.hpp"

#include "base/random.hpp"

#include <limits>
#include <set>
#include <vector>

#include "support/doctest.hpp"

namespace collab {
namespace {

std::set<std::uint64_t> units_of(const Work& work) {
  std::set<std::uint64_t> units;
  for (const WorkRange& range : work.ranges())
    for (std::uint64_t unit = range.first; unit < range.end(); ++unit) units.insert(unit);
  return units;
}

Work draw(Random& random) {
  Work work;
  for (std::uint64_t i = random.below(6); i > 0; --i) work.add({random.below(60), random.below(9)});
  return work;
}

}  // namespace

TEST_CASE("work: every operation is that of sets, and its ranges are in the one form") {
  Random random(3);
  for (int i = 0; i < 3000; ++i) {
    CAPTURE(i);
    const Work a = draw(random);
    const Work b = draw(random);
    CHECK(Work::of(a.ranges(), a.ranges().size()).value() == a);
    const auto in_a = units_of(a);
    const auto in_b = units_of(b);
    CHECK(a.count() == in_a.size());
    auto expected = in_a;
    expected.insert(in_b.begin(), in_b.end());
    Work both = a;
    both.add(b);
    CHECK(units_of(both) == expected);
    CHECK(Work::of(both.ranges(), 100).has_value());
    Work rest = a;
    rest.subtract(b);
    Work again = a.common(b);
    CHECK(Work::of(rest.ranges(), 100).has_value());
    CHECK(Work::of(again.ranges(), 100).has_value());
    for (std::uint64_t unit = 0; unit < 70; ++unit) {
      CHECK(a.contains(unit) == in_a.contains(unit));
      CHECK(rest.contains(unit) == (in_a.contains(unit) && !in_b.contains(unit)));
      CHECK(again.contains(unit) == (in_a.contains(unit) && in_b.contains(unit)));
    }
    CHECK(a.missing_of({5, 50}).count() + a.common(Work(WorkRange{5, 50})).count() == 50);
    Work left = a;
    const std::uint64_t n = random.below(20);
    Work taken = left.take(n);
    CHECK(taken.count() == std::min(n, a.count()));
    CHECK_FALSE(taken.overlaps(left));
    taken.add(left);
    CHECK(taken == a);
  }
}

TEST_CASE("work: from outside only the one form is taken, and not too much of it") {
  using Ranges = std::vector<WorkRange>;
  CHECK(Work::of(Ranges{{0, 2}, {3, 1}}, 2).has_value());
  CHECK(Work::of(Ranges{}, 0).has_value());
  CHECK(Work::of(Ranges{{0, 2}, {3, 1}}, 1).error() == Errc::bad_request);
  CHECK(Work::of(Ranges{{0, 2}, {2, 1}}, 9).error() == Errc::bad_request);  // touching: has another form
  CHECK(Work::of(Ranges{{4, 2}, {0, 1}}, 9).error() == Errc::bad_request);
  CHECK(Work::of(Ranges{{0, 3}, {2, 2}}, 9).error() == Errc::bad_request);
  CHECK(Work::of(Ranges{{7, 0}}, 9).error() == Errc::bad_request);
  CHECK(Work::of(Ranges{{kWorkEndMax - 1, 1}}, 9).has_value());
  CHECK(Work::of(Ranges{{kWorkEndMax - 1, 2}}, 9).error() == Errc::bad_request);
  const auto most = std::numeric_limits<std::uint64_t>::max();
  for (const WorkRange& far : {WorkRange{0, most}, WorkRange{most, 1}, WorkRange{most - 1, 1}})
    CHECK(Work::of(Ranges{far}, 9).error() == Errc::bad_request);
}

TEST_CASE("work: with too many ranges the smallest gaps are filled, the lower of equal ones first") {
  Work work({0, 10});
  work.add({12, 3});   // gap of 2
  work.add({20, 5});   // of 5
  work.add({27, 1});   // of 2
  work.add({100, 1});  // of 72
  Work same = work;
  CHECK(same.close_gaps(5) == 0);
  CHECK(same == work);
  CHECK(same.close_gaps(4) == 2);
  CHECK(same.ranges().front() == WorkRange{0, 15});
  CHECK(work.close_gaps(1) == 81);
  CHECK(work == Work({0, 101}));
}

}  // namespace collab
