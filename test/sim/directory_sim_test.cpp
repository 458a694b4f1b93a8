#include "support/crowd.hpp"

#include "support/doctest.hpp"

namespace collab::directory {
namespace {

using namespace std::chrono_literals;
using test::Crowd;

/// Of the records of each of two halves, how many the other one does not find; all ask at once.
Task<std::size_t> missing_across(Crowd& crowd) {
  const std::size_t half = crowd.nodes.size() / 2;
  std::size_t missing = 0;
  const auto read = [&](std::size_t i) -> Task<> {
    const std::size_t reader = (i + half) % crowd.nodes.size();
    const auto got = co_await crowd.nodes[reader]->directory.get("k" + std::to_string(i), crowd.in(10s));
    if (!got || got->size() != 1) ++missing;
  };
  TaskGroup tasks(crowd.simulation.executor(), rethrow);
  for (std::size_t i = 0; i < crowd.nodes.size(); ++i) tasks.spawn("read", read(i));
  co_await tasks.join();
  co_return missing;
}

}  // namespace

TEST_CASE("sim directory: one contact joins two halves of 90, whose far buckets are full, within half a minute") {
  Crowd crowd(1);
  crowd.run([&]() -> Task<> {
    crowd.bootstrap = {test::test_identity(1).id()};
    crowd.add_many(1, 1);
    crowd.add_many(3, 89);
    crowd.bootstrap = {test::test_identity(2).id()};
    crowd.add_many(2, 1);
    crowd.add_many(1000, 89);
    co_await crowd.sleep(150s);  // so long that all is calm
    CHECK(crowd.all_are(Form::routed));
    crowd.publish_all("k", true);
    co_await crowd.sleep(5s);
    const std::size_t apart = co_await missing_across(crowd);
    CHECK(apart == 180);
    Contact contact;
    contact.id = crowd.nodes[111]->id();
    contact.addresses.push_back({"192.0.2.2", 4600});
    crowd.nodes[17]->directory.meet(contact);
    const TimePoint met = crowd.simulation.clock().now();
    for (std::size_t missing = 180; missing > 0 && crowd.simulation.clock().now() - met < 60s;) {
      co_await crowd.sleep(1s);
      missing = co_await missing_across(crowd);
    }
    const Duration took = crowd.simulation.clock().now() - met;
    CAPTURE(to_seconds(took));
    CHECK(took < 30s);
    co_await crowd.stop();
  }());
}

}  // namespace collab::directory
