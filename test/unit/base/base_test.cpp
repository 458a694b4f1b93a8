#include "base/frame.hpp"
#include "base/offload.hpp"
#include "base/task_group.hpp"
#include "sim/simulation.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>

#include <atomic>
#include <semaphore>
#include <stdexcept>
#include <string>
#include <thread>

#include "support/doctest.hpp"

namespace collab {
namespace {

/// Says on destruction that the task really unwound.
struct Tracer {
  Tracer(std::vector<std::string>& out, std::string label) : log(out), name(std::move(label)) {}
  ~Tracer() { log.push_back(name); }
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;
  std::vector<std::string>& log;
  std::string name;
};

Task<> sleep_forever(Clock& clock, std::vector<std::string>& log, std::string name) {
  Tracer tracer(log, std::move(name));
  co_await clock.sleep_until(TimePoint::max());
}

/// A service with a background task of its own.
Task<> service(Clock& clock, std::vector<std::string>& log) {
  Tracer tracer(log, "service");
  const auto body = [&](TaskGroup& tasks) -> Task<> {
    tasks.spawn("child", sleep_forever(clock, log, "child"));
    co_await clock.sleep_until(TimePoint::max());
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
}

Task<Result<int>> slow_answer(Clock& clock) {
  co_await clock.sleep_until(clock.now() + std::chrono::seconds(5));
  co_return 42;
}

struct Ping {
  std::uint32_t number = 0;
  MESSAGE_MAP(number)
};
struct Pong {
  std::uint32_t number = 0;
  std::string since_version_1_1 = "absent";
  MESSAGE_MAP(number, since_version_1_1)
};
using Header = std::variant<Ping, Pong>;
using OldHeader = std::variant<Ping, Ping>;  // a reader from before `since_version_1_1`

}  // namespace

TEST_CASE("failure: what() says cause and remedy, for a program in which nobody catches it") {
  const Failure full(ExitCode::machine, "the disk is full", "free some space");
  CHECK(full.cause() == "the disk is full");
  CHECK(full.remedy() == "free some space");
  CHECK(full.what() == std::string("the disk is full. Try: free some space"));
  const Failure asks(ExitCode::unreachable, "nobody answers. Is it running?", "start it");
  CHECK(asks.what() == std::string("nobody answers. Is it running? Try: start it"));
}

TEST_CASE("frame: it survives the trip, and every shorter one is refused") {
  const Bytes payload(5, std::byte(7));
  Pong pong;
  pong.number = 17;
  const Frame frame = frame::encode(Header(pong), payload);

  const auto back = frame::decode<Header>(*frame);
  REQUIRE(back);
  CHECK(std::get<Pong>(back->header).number == 17);
  CHECK(Bytes(back->payload.begin(), back->payload.end()) == payload);

  const std::size_t header_end = frame->size() - payload.size();
  for (std::size_t size = 0; size < header_end; ++size) {
    CAPTURE(size);
    CHECK(frame::decode<Header>(std::span(*frame).first(size)).error() == Errc::bad_request);
  }
}

TEST_CASE("frame: old and new readers understand each other") {
  Pong pong;
  pong.number = 3;
  const auto read_by_old = frame::decode<OldHeader>(*frame::encode(Header(pong)));
  REQUIRE(read_by_old);
  CHECK(std::get<1>(read_by_old->header).number == 3);

  Ping ping;
  ping.number = 4;
  const auto read_by_new = frame::decode<Header>(*frame::encode(OldHeader(std::in_place_index<1>, ping)));
  REQUIRE(read_by_new);
  CHECK(std::get<Pong>(read_by_new->header).number == 4);
  CHECK(std::get<Pong>(read_by_new->header).since_version_1_1 == "absent");
}

TEST_CASE("task group: stop() unwinds children first, then their owner") {
  sim::Simulation world;
  std::vector<std::string> log;
  const auto scenario = [&]() -> Task<> {
    TaskGroup tasks(world.executor(), rethrow);
    tasks.spawn("service", service(world.clock(), log));
    co_await world.clock().sleep_until(world.clock().now() + std::chrono::seconds(1));
    co_await tasks.stop();
    log.emplace_back("stopped");
  };
  world.run(scenario());
  CHECK(log == std::vector<std::string>{"child", "service", "stopped"});
}

TEST_CASE("task group: join() waits for the slowest") {
  sim::Simulation world;
  const auto nap = [&](Duration length) { return world.clock().sleep_until(world.clock().now() + length); };
  const auto scenario = [&]() -> Task<> {
    TaskGroup tasks(world.executor(), rethrow);
    for (const int length : {3, 1, 2}) tasks.spawn("nap", nap(std::chrono::seconds(length)));
    co_await tasks.join();
    co_await tasks.join();  // of nobody: returns at once
  };
  world.run(scenario());
  CHECK(world.clock().now().time_since_epoch() == std::chrono::seconds(3));
}

TEST_CASE("task group: whoever waits in join() can be cancelled, and the tasks go on") {
  sim::Simulation world;
  std::size_t left = 0;
  const auto scenario = [&]() -> Task<> {
    TaskGroup tasks(world.executor(), rethrow);
    TaskGroup waiting(world.executor(), rethrow);
    tasks.spawn("sleep", world.clock().sleep_until(TimePoint::max()));
    waiting.spawn("join", tasks.join());
    co_await world.clock().sleep_until(world.clock().now() + std::chrono::seconds(1));
    co_await waiting.stop();
    left = tasks.size();
    co_await tasks.stop();
  };
  world.run(scenario());
  CHECK(left == 1);
}

TEST_CASE("task group: an escaped exception reaches the owner by name") {
  sim::Simulation world;
  std::string failed;
  const auto fail = []() -> Task<> {
    throw std::runtime_error("bug");
    co_return;
  };
  const auto scenario = [&]() -> Task<> {
    TaskGroup tasks(world.executor(), [&](std::string_view name, std::exception_ptr) { failed = name; });
    tasks.spawn("faulty", fail());
    co_await tasks.join();
  };
  world.run(scenario());
  CHECK(failed == "faulty");
}

TEST_CASE("task group: cancelling a wait that has a deadline is no failure") {
  sim::Simulation world;
  std::string failed;
  const auto scenario = [&]() -> Task<> {
    TaskGroup tasks(world.executor(), [&](std::string_view name, std::exception_ptr) { failed = name; });
    const auto wait = [&]() -> Task<> {
      Clock& clock = world.clock();
      co_await with_deadline(clock, clock.now() + std::chrono::hours(1), slow_answer(clock));
    };
    tasks.spawn("wait", wait());
    co_await world.clock().sleep_until(world.clock().now() + std::chrono::seconds(1));
    co_await tasks.stop();
  };
  world.run(scenario());
  CHECK(failed.empty());
}

TEST_CASE("task group: a task that has left a scope can still be cancelled") {
  sim::Simulation world;
  bool unwound = false;
  const auto scenario = [&]() -> Task<> {
    TaskGroup tasks(world.executor(), rethrow);
    const auto nothing = [](TaskGroup&) -> Task<> { co_return; };
    const auto work = [&]() -> Task<> {
      auto scope = task_scope(rethrow, nothing);
      co_await std::move(scope);
      co_await world.clock().sleep_until(world.clock().now() + std::chrono::hours(1));
    };
    tasks.spawn("work", work());
    co_await world.clock().sleep_until(world.clock().now() + std::chrono::seconds(1));
    co_await tasks.stop();
    unwound = true;
  };
  world.run(scenario());
  CHECK(unwound);
  CHECK(world.clock().now().time_since_epoch() == std::chrono::seconds(1));
}

TEST_CASE("task group: a scope that is cancelled while it stops its tasks waits for them all the same") {
  sim::Simulation world;
  std::vector<std::string> log;
  const auto scenario = [&]() -> Task<> {
    TaskGroup tasks(world.executor(), rethrow);
    const auto stubborn = [&]() -> Task<> {
      Tracer tracer(log, "child");
      co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
      co_await world.clock().sleep_until(world.clock().now() + std::chrono::seconds(5));
    };
    const auto body = [&](TaskGroup& children) -> Task<> {
      children.spawn("child", stubborn());
      co_return;
    };
    const auto owner = [&]() -> Task<> {
      Tracer tracer(log, "owner");
      auto scope = task_scope(rethrow, body);
      co_await std::move(scope);
    };
    tasks.spawn("owner", owner());
    co_await world.clock().sleep_until(world.clock().now() + std::chrono::seconds(1));
    co_await tasks.stop();
  };
  world.run(scenario());
  CHECK(log == std::vector<std::string>{"child", "owner"});
}

TEST_CASE("deadline: late work is cancelled and reported as late, in virtual time") {
  sim::Simulation world;
  Result<int> early;
  Result<int> late;
  const auto scenario = [&]() -> Task<> {
    Clock& clock = world.clock();
    early = co_await with_deadline(clock, clock.now() + std::chrono::seconds(6), slow_answer(clock));
    late = co_await with_deadline(clock, clock.now() + std::chrono::seconds(4), slow_answer(clock));
  };
  world.run(scenario());
  CHECK(early.value() == 42);
  CHECK(late.error() == Errc::late);
  CHECK(world.clock().now().time_since_epoch() == std::chrono::seconds(9));
}

TEST_CASE("offload: the work runs elsewhere, the coroutine goes on at home, another thread can wait for it") {
  asio::io_context loop(1);
  asio::thread_pool workers(1);
  std::thread::id home_before;
  std::thread::id away;
  std::thread::id home_after;
  const auto scenario = [&]() -> Task<int> {
    home_before = std::this_thread::get_id();
    const auto work = [&] {
      away = std::this_thread::get_id();
      return 7;
    };
    const int answer = co_await offload(workers.get_executor(), work);
    home_after = std::this_thread::get_id();
    co_return answer;
  };
  auto answer = asio::co_spawn(loop, scenario(), asio::use_future);
  std::thread node([&] { loop.run(); });
  CHECK(answer.get() == 7);
  node.join();
  CHECK(home_before == home_after);
  CHECK(away != home_before);
}

TEST_CASE("offload: who is cancelled meanwhile waits for the work, whichever thread does it") {
  using namespace asio::experimental::awaitable_operators;
  asio::thread_pool workers(2);
  for (int i = 0; i < 20; ++i) {
    asio::io_context loop(1);
    std::binary_semaphore begun{0};
    std::binary_semaphore may_end{0};
    std::atomic<bool> ended = false;
    const auto work = [&] {
      begun.release();
      may_end.acquire();
      ended = true;
      return 1;
    };
    // the loop cancels what runs beside this when it has ended, and lets the work end some turns later
    const auto end_first = [&]() -> Task<> {
      begun.acquire();
      asio::post(loop, [&] { asio::post(loop, [&] { asio::post(loop, [&] { may_end.release(); }); }); });
      co_return;
    };
    const auto scenario = [&]() -> Task<> { (void)co_await (offload(workers.get_executor(), work) || end_first()); };
    auto done = asio::co_spawn(loop, scenario(), asio::use_future);
    loop.run();
    done.get();
    CHECK(ended);
  }
}

TEST_CASE("with_deadline: what the work throws arrives at once, and a cancelled wait is cancelled") {
  sim::Simulation world;
  const auto fail = [&]() -> Task<Result<int>> {
    co_await world.clock().sleep_until(TimePoint(std::chrono::seconds(1)));
    throw std::runtime_error("a bug");
  };
  const auto wait = [&]() -> Task<Result<int>> {
    co_await world.clock().sleep_until(TimePoint(std::chrono::seconds(100)));
    co_return 1;
  };
  bool went_on = false;
  const auto waits = [&]() -> Task<> {
    (void)co_await with_deadline(world.clock(), TimePoint(std::chrono::seconds(60)), wait());
    went_on = true;
  };
  const auto scenario = [&]() -> Task<> {
    std::string what;
    try {
      (void)co_await with_deadline(world.clock(), TimePoint(std::chrono::seconds(60)), fail());
    } catch (const std::runtime_error& error) {
      what = error.what();
    }
    CHECK(what == "a bug");
    CHECK(world.clock().now() == TimePoint(std::chrono::seconds(1)));
    const auto late = co_await with_deadline(world.clock(), TimePoint(std::chrono::seconds(2)), wait());
    CHECK(late.error() == Errc::late);
    TaskGroup tasks(world.executor(), rethrow);
    tasks.spawn("waits", waits());
    co_await world.clock().sleep_until(TimePoint(std::chrono::seconds(3)));
    co_await tasks.stop();
    CHECK_FALSE(went_on);
  };
  world.run(scenario());
}

TEST_CASE("with_deadline: whoever waits outlives the work, cancelled once, twice or before it waits") {
  sim::Simulation world;
  std::optional<TaskGroup> tasks;
  int unwound = 0;
  const auto deaf = [&](bool cancel_all) -> Task<Result<int>> {
    co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
    if (cancel_all) tasks->cancel(0);
    co_await world.clock().sleep_until(TimePoint(std::chrono::seconds(10)));
    ++unwound;
    co_return 1;
  };
  bool went_on = false;
  const auto waits = [&](std::int64_t seconds, bool cancelled) -> Task<> {
    (void)co_await with_deadline(world.clock(), TimePoint(std::chrono::seconds(seconds)), deaf(cancelled));
    co_await world.clock().sleep_until(TimePoint(std::chrono::seconds(11)));
    went_on = true;
  };
  const auto scenario = [&]() -> Task<> {
    tasks.emplace(world.executor(), rethrow);
    tasks->spawn("before it waits", waits(20, true));
    tasks->spawn("once", waits(20, false));
    tasks->spawn("while late work unwinds", waits(2, false));
    co_await world.clock().sleep_until(TimePoint(std::chrono::seconds(3)));
    co_await tasks->stop();
    CHECK(unwound == 3);
    CHECK(world.clock().now() == TimePoint(std::chrono::seconds(10)));
    CHECK_FALSE(went_on);
  };
  world.run(scenario());
}

}  // namespace collab
