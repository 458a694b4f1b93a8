#include "epoch/owed_keeper.hpp"

#include "base/task_group.hpp"
#include "unit/epoch/fed_swarm.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include <vector>

#include "support/doctest.hpp"

namespace collab::epoch {
namespace {

/// A keeper of the first of two peers. Its loop, and the workers, move when the test says so.
struct ByHand {
  ByHand() { tasks.spawn("owed", keeper.run()); }
  ~ByHand() {
    stop();
    drain();
  }

  void stop() {
    const auto stopping = [](TaskGroup& of, bool& ended) -> Task<> {
      co_await of.stop();
      ended = true;
    };
    owner.spawn("stop", stopping(tasks, stopped));
  }
  void drain() {
    while (loop.poll() + workers.poll() > 0) continue;
  }
  matchmaking::Group group(std::uint64_t epoch) const { return swarm.group(epoch); }

  /// `values` are those of the hand-over, and of its parts when this is done.
  void add_to(std::vector<float>& values, std::uint64_t epoch, bool& done) {
    const auto adding = [](ByHand& hand, std::vector<float>& mean, std::uint64_t of, bool& is_done) -> Task<> {
      const matchmaking::Group group = hand.group(of);
      co_await hand.keeper.add_to(mean, 3, group, hand.swarm.options(0, group));
      is_done = true;
    };
    owner.spawn("add", adding(*this, values, epoch, done));
  }
  std::shared_ptr<const averaging::CommittedRound> average(const std::vector<float>& values, std::uint64_t epoch) {
    return swarm.average(group(epoch), {values, values}, {3, 5});
  }

  FedSwarm swarm{2, CodecId::topk};
  asio::io_context loop{1};
  asio::io_context workers{1};
  asio::executor_work_guard<asio::io_context::executor_type> loop_stays{loop.get_executor()};
  asio::executor_work_guard<asio::io_context::executor_type> workers_stay{workers.get_executor()};
  OwedKeeper keeper{loop.get_executor(), workers.get_executor(), swarm.map, swarm.identities[0].id()};
  TaskGroup tasks{loop.get_executor(), rethrow};
  TaskGroup owner{loop.get_executor(), rethrow};
  bool stopped = false;
};

}  // namespace

TEST_CASE("owed keeper: the loop goes on while what is owed is settled, and the next hand-over waits for it") {
  ByHand hand;
  const auto gradient = noise(hand.swarm.map.length(), 1);
  auto sent = gradient;
  bool first = false;
  hand.add_to(sent, 1, first);
  hand.loop.poll();
  CHECK_FALSE(first);  // workers do it
  hand.drain();
  CHECK(first);
  CHECK(sent == gradient);
  const auto round = hand.average(sent, 1);
  hand.keeper.settle(round);
  bool second = false;
  auto next = gradient;
  hand.add_to(next, 2, second);
  hand.loop.poll();
  CHECK(hand.keeper.owed().empty());
  CHECK_FALSE(second);
  hand.drain();
  CHECK(second);

  Feedback& plain = *hand.swarm.feedback[0];
  auto expected = gradient;
  plain.add_to(expected, 3, hand.group(1), hand.swarm.options(0, hand.group(1)));
  settle(plain, round, hand.swarm.identities[0].id());
  CHECK(std::ranges::equal(plain.owed(), hand.keeper.owed()));
  expected = gradient;
  plain.add_to(expected, 3, hand.group(2), hand.swarm.options(0, hand.group(2)));
  CHECK(next == expected);
  CHECK(next != gradient);
}

TEST_CASE("owed keeper: a state that is fetched while it settles leaves nothing owed") {
  for (const bool begun : {false, true}) {
    CAPTURE(begun);
    ByHand hand;
    const auto gradient = noise(hand.swarm.map.length(), 1);
    auto sent = gradient;
    bool done = false;
    hand.add_to(sent, 1, done);
    hand.drain();
    hand.keeper.settle(hand.average(sent, 1));
    if (begun) hand.loop.poll();
    hand.keeper.forget();
    bool again = false;
    auto next = gradient;
    hand.add_to(next, 2, again);
    hand.loop.poll();
    CHECK_FALSE(again);
    hand.drain();
    CHECK(again);
    CHECK(next == gradient);
  }
}

TEST_CASE("owed keeper: whoever ends while it settles waits for what is under way, and for no more") {
  ByHand hand;
  auto sent = noise(hand.swarm.map.length(), 1);
  bool done = false;
  hand.add_to(sent, 1, done);
  hand.drain();
  hand.keeper.settle(hand.average(sent, 1));
  hand.loop.poll();
  hand.stop();
  hand.loop.poll();
  CHECK_FALSE(hand.stopped);
  hand.drain();
  CHECK(hand.stopped);
}

}  // namespace collab::epoch
