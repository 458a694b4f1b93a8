#include "base/clock.hpp"
#include "base/event_queue.hpp"
#include "base/random.hpp"
#include "base/signal.hpp"
#include "base/task_group.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "support/doctest.hpp"

namespace collab {
namespace {

using namespace std::chrono_literals;

void rethrow_in_loop(std::exception_ptr failure) {
  if (failure) std::rethrow_exception(std::move(failure));
}

class Noted final : public Event {
 public:
  Noted(EventQueue& queue, int number, std::vector<int>& happened)
      : Event(queue), number_(number), happened_(happened) {}

 private:
  void happen() override { happened_.push_back(number_); }

  int number_;
  std::vector<int>& happened_;
};

void run_out(EventQueue& queue) {
  while (queue.next()) queue.happen_next();
}

TEST_CASE("events: happen by time, and those of one moment in the order in which they were set") {
  EventQueue queue;
  std::vector<int> happened;
  std::vector<std::unique_ptr<Noted>> events;
  for (int i = 0; i < 5; ++i) events.push_back(std::make_unique<Noted>(queue, i, happened));
  events[0]->set(TimePoint(3h));
  events[1]->set(TimePoint(1ms));
  events[2]->set(TimePoint(3h));
  events[3]->set(TimePoint(0s));
  events[4]->set(TimePoint::max());
  CHECK(queue.size() == 4);
  run_out(queue);
  CHECK(happened == std::vector{3, 1, 0, 2});
}

TEST_CASE("events: one that is set for the past comes after those of the present that were set before it") {
  EventQueue queue;
  std::vector<int> happened;
  Noted now(queue, 1, happened);
  Noted also_now(queue, 2, happened);
  Noted late(queue, 3, happened);
  now.set(TimePoint(5s));
  also_now.set(TimePoint(5s));
  queue.happen_next();
  late.set(TimePoint(1s));
  run_out(queue);
  CHECK(happened == std::vector{1, 2, 3});
}

TEST_CASE("events: any that are called off do not happen, and take no memory until their time") {
  EventQueue queue;
  Random random(1);
  std::vector<int> happened;
  std::map<std::pair<std::int64_t, int>, int> expected;  // by time and order
  std::vector<std::unique_ptr<Noted>> events;
  for (int i = 0; i < 20'000; ++i) {
    events.push_back(std::make_unique<Noted>(queue, i, happened));
    const auto ms = static_cast<std::int64_t>(random.below(3'600'000));
    events.back()->set(TimePoint(std::chrono::milliseconds(ms)));
    if (random.below(10) > 0) {
      events.back().reset();
    } else {
      expected[{ms, i}] = i;
    }
  }
  CHECK(queue.size() == expected.size());
  run_out(queue);
  std::vector<int> order;
  for (const auto& [when, number] : expected) order.push_back(number);
  CHECK(happened == order);
}

TEST_CASE("events: an event outlives its queue") {
  std::vector<int> happened;
  auto queue = std::make_unique<EventQueue>();
  Noted event(*queue, 1, happened);
  event.set(TimePoint(1s));
  queue.reset();
  event.call_off();
  event.set(TimePoint(2s));
  CHECK(happened.empty());
}

Task<> wait_and_say(Signal& signal, std::shared_ptr<int> held, int& woken) {
  co_await signal.wait();
  ++*held;
  ++woken;
}

TEST_CASE("wakeup: what still waits when its loop ends is destroyed with it") {
  const auto held = std::make_shared<int>(0);
  int woken = 0;
  {
    asio::io_context loop;
    Signal signal(loop.get_executor());
    asio::co_spawn(loop, wait_and_say(signal, held, woken), rethrow_in_loop);
    asio::co_spawn(loop, wait_and_say(signal, held, woken), rethrow_in_loop);
    loop.poll();
    CHECK(held.use_count() == 3);
    signal.notify();
    loop.poll();
    CHECK(woken == 2);
    asio::co_spawn(loop, wait_and_say(signal, held, woken), rethrow_in_loop);
    loop.poll();
    CHECK(held.use_count() == 2);
  }
  CHECK(held.use_count() == 1);
  CHECK(woken == 2);
}

TEST_CASE("real clock: sleepers wake in order, a notified one early, and nothing keeps the loop from ending") {
  asio::io_context loop;
  RealClock clock(loop.get_executor());
  Signal signal(loop.get_executor());
  std::vector<int> order;
  const auto sleeper = [&](int number, Duration length) -> Task<> {
    co_await clock.sleep_until(clock.now() + length);
    order.push_back(number);
    signal.notify();
  };
  std::optional<bool> in_time;
  const auto waiter = [&]() -> Task<> { in_time = co_await signal.wait_until(clock, clock.now() + 1h); };
  const TimePoint begin = clock.now();
  asio::co_spawn(loop, waiter(), rethrow_in_loop);
  asio::co_spawn(loop, sleeper(2, 20ms), rethrow_in_loop);
  asio::co_spawn(loop, sleeper(1, 5ms), rethrow_in_loop);
  asio::co_spawn(loop, sleeper(0, 0ms), rethrow_in_loop);
  loop.run();
  CHECK(order == std::vector{0, 1, 2});
  CHECK(in_time == true);
  CHECK(clock.now() - begin >= 20ms);
  CHECK(clock.now() - begin < 1h);
}

TEST_CASE("real clock: may go before those who wait for it") {
  asio::io_context loop;
  auto clock = std::make_unique<RealClock>(loop.get_executor());
  const auto held = std::make_shared<int>(0);
  const auto sleeper = [&clock](std::shared_ptr<int>) -> Task<> { co_await clock->sleep_until(clock->now() + 1h); };
  asio::co_spawn(loop, sleeper(held), rethrow_in_loop);
  loop.poll();
  clock.reset();
  loop.poll();
  CHECK(held.use_count() == 2);
}

}  // namespace
}  // namespace collab
