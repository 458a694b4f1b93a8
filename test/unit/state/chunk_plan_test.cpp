#include "state/chunk_plan.hpp"

#include <set>

#include "support/doctest.hpp"

namespace collab::state {
namespace {

using std::chrono::milliseconds;

constexpr TimePoint at(int ms) {
  return TimePoint(milliseconds(ms));
}

}  // namespace

TEST_CASE("chunk plan: every missing chunk is given out once, in order") {
  ChunkPlan plan({false, true, false, false});
  CHECK(plan.take(0, at(0)) == 0);
  CHECK(plan.take(1, at(0)) == 2);
  CHECK(plan.take(0, at(0)) == 3);
  CHECK_FALSE(plan.take(1, at(0)));
  CHECK(plan.arrived(2, 1, at(10)));
  plan.checked(2, true);
  CHECK(plan.here() == 2);
  CHECK_FALSE(plan.complete());
}

TEST_CASE("chunk plan: what a donor gives back or spoils goes to the next") {
  ChunkPlan plan({false, false});
  CHECK(plan.take(0, at(0)) == 0);
  CHECK(plan.take(0, at(0)) == 1);
  plan.give_back(0, 0);
  CHECK(plan.take(1, at(1)) == 0);
  CHECK(plan.arrived(1, 0, at(2)));
  plan.checked(1, false);
  CHECK(plan.take(1, at(2)) == 1);
}

TEST_CASE("chunk plan: who has some chunks is asked for those only, and peers begin at different ones") {
  const std::vector<bool> some{false, true, false, true};
  ChunkPlan plan(std::vector<bool>(4));
  CHECK(plan.take(0, at(0), &some) == 1);
  CHECK(plan.take(0, at(0), &some) == 3);
  CHECK_FALSE(plan.take(0, at(0), &some));
  CHECK(plan.take(1, at(0)) == 0);
  CHECK(plan.take(1, at(0)) == 2);
  CHECK(plan.take(2, at(2000), &some) == 1);  // nobody else has given it so far
  CHECK(plan.lacks_any(some));
  for (const std::size_t chunk : {1U, 3U}) {
    CHECK(plan.arrived(chunk, 0, at(2100)));
    plan.checked(chunk, true);
  }
  CHECK_FALSE(plan.lacks_any(some));
  std::set<std::size_t> firsts;
  for (const std::uint64_t seed : test::seeds(16)) {
    Random random(seed);
    ChunkPlan shuffled(std::vector<bool>(8), &random);
    std::set<std::size_t> all;
    while (const auto chunk = shuffled.take(0, at(0))) {
      if (all.empty()) firsts.insert(*chunk);
      all.insert(*chunk);
    }
    CHECK(all.size() == 8);
  }
  CHECK(firsts.size() >= 4);
}

TEST_CASE("chunk plan: a slow chunk is asked of one more donor, and the first bytes count") {
  ChunkPlan plan({false, false});
  CHECK(plan.take(0, at(0)) == 0);
  CHECK(plan.take(1, at(0)) == 1);
  CHECK(plan.arrived(1, 1, at(100)));
  plan.checked(1, true);
  CHECK_FALSE(plan.take(1, at(100)));
  CHECK(plan.next_repeat(1) == at(300));  // three times the usual 100 ms
  CHECK(plan.next_repeat(0) == TimePoint::max());
  CHECK_FALSE(plan.take(0, at(300)));  // not of the donor that owes it
  CHECK(plan.take(1, at(300)) == 0);
  CHECK_FALSE(plan.take(2, at(900)));
  CHECK(plan.next_repeat(2) == TimePoint::max());
  CHECK(plan.arrived(0, 1, at(950)));
  CHECK_FALSE(plan.arrived(0, 0, at(951)));  // while the other's bytes are being checked
  plan.checked(0, true);
  CHECK(plan.complete());
  CHECK(plan.under_way() == 0);
}

TEST_CASE("chunk plan: a chunk that was spoilt while another donor still owes it is not lost") {
  ChunkPlan plan({false});
  CHECK(plan.take(0, at(0)) == 0);
  CHECK(plan.take(1, at(2000)) == 0);
  CHECK(plan.arrived(0, 1, at(2100)));
  plan.checked(0, false);
  CHECK_FALSE(plan.complete());
  CHECK(plan.take(2, at(2100)) == 0);  // donor 0 has been slow for long enough
  plan.give_back(0, 0);
  CHECK(plan.arrived(0, 2, at(2300)));
  plan.checked(0, true);
  CHECK(plan.complete());
}

}  // namespace collab::state
