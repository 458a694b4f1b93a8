#include "epoch/bridge.hpp"

#include "base/task_group.hpp"
#include "epoch/gradient_accumulator.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

#include <functional>
#include <future>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

#include "support/doctest.hpp"

namespace collab::epoch {
namespace {

/// Gathers and gives; has no model.
class Gatherer final : public Trainer {
 public:
  void add(std::uint64_t samples) {
    const std::lock_guard lock(mutex_);
    const std::vector<float> one = {1};
    const FlatPiece piece{0, one};
    gathered_.add({&piece, 1}, {samples, Work()});
  }

  std::size_t values() const override { return 1; }
  std::uint64_t samples() const override {
    const std::lock_guard lock(mutex_);
    return gathered_.samples();
  }
  Gathered hand_over(std::vector<float>& values) override {
    const std::lock_guard lock(mutex_);
    return gathered_.hand_over(values);
  }
  std::uint64_t give_back(std::span<const float> values, const Gathered& behind) override {
    const std::lock_guard lock(mutex_);
    return gathered_.give_back(values, behind);
  }
  Gathered drop() override {
    const std::lock_guard lock(mutex_);
    return gathered_.drop();
  }
  Result<> step(std::span<float>, std::uint64_t) override { return Result<>(); }
  std::uint64_t epoch() const override { return 0; }
  Digest parameter_hash() const override { return {}; }
  double loss() const override { return std::numeric_limits<double>::quiet_NaN(); }

 private:
  state::Snapshot copy_state(std::uint64_t) const override { return {}; }
  Result<> load_state(const state::Snapshot&) override { return Result<>(); }

  mutable std::mutex mutex_;
  GradientAccumulator gathered_{1};
};

/// A loop on this thread and the trainer's on another; both end before the test does.
struct TwoThreads {
  void run(const std::function<Task<>()>& on_loop, const std::function<void()>& on_trainer) {
    TaskGroup tasks(io.get_executor(), rethrow);
    tasks.spawn("loop", on_loop());
    std::thread thread(on_trainer);
    io.run();
    thread.join();
  }
  /// What the trainer had gathered; `beside`: taken without it.
  Task<Result<bool>> take(TimePoint until, std::vector<float>& values, std::uint64_t& samples, std::thread::id& by) {
    const auto work = [&](Trainer& of) {
      samples = of.hand_over(values).samples;
      by = std::this_thread::get_id();
    };
    co_return co_await bridge.on_trainer_until(clock, until, work);
  }

  asio::io_context io;
  RealClock clock{io.get_executor()};
  ThreadBridge bridge{io.get_executor()};
  Gatherer trainer;
};

}  // namespace

TEST_CASE("bridge: what is gathered is taken beside a microbatch when its time is over, and the microbatch stays out") {
  TwoThreads world;
  std::promise<void> computing;
  std::promise<void> taken;
  std::vector<float> values(1);
  std::uint64_t samples = 0;
  std::thread::id by;
  std::uint64_t left = 0;
  const auto on_loop = [&]() -> Task<> {
    computing.get_future().wait();
    world.bridge.hold(Bridge::Reason::epoch);
    const auto at_border = co_await world.take(world.clock.now(), values, samples, by);
    REQUIRE(at_border);
    CHECK(!*at_border);
    CHECK(world.bridge.samples() == 0);
    taken.set_value();
    const auto late = [&left](Trainer& of) { left = of.drop().samples; };
    const auto done = co_await world.bridge.on_trainer(late);  // held, so it comes to the border and stays
    CHECK(done);
    world.bridge.release(Bridge::Reason::epoch);
  };
  const auto on_trainer = [&] {
    world.trainer.add(3);
    world.bridge.border(world.trainer, 1);
    computing.set_value();
    taken.get_future().wait();  // a long microbatch
    world.trainer.add(5);
    world.bridge.border(world.trainer, 1);
    world.bridge.leave();
  };
  const auto loop_thread = std::this_thread::get_id();
  world.run(on_loop, on_trainer);
  CHECK(samples == 3);
  CHECK(values[0] == 1);
  CHECK(by == loop_thread);
  CHECK(left == 5);
}

TEST_CASE("bridge: a trainer at its border does the work itself, however late it is") {
  TwoThreads world;
  std::vector<float> values(1);
  std::uint64_t samples = 0;
  std::thread::id by;
  std::thread::id trainer_thread;
  world.bridge.hold(Bridge::Reason::epoch);
  const auto on_loop = [&]() -> Task<> {
    co_await world.bridge.moved().wait();  // it is at the border, and held there
    const auto at_border = co_await world.take(TimePoint(), values, samples, by);
    REQUIRE(at_border);
    CHECK(*at_border);
    world.bridge.release(Bridge::Reason::epoch);
  };
  const auto on_trainer = [&] {
    trainer_thread = std::this_thread::get_id();
    world.trainer.add(3);
    world.bridge.border(world.trainer, 1);
    world.bridge.leave();
  };
  world.run(on_loop, on_trainer);
  CHECK(samples == 3);
  CHECK(by == trainer_thread);
}

TEST_CASE("bridge: a trainer that waits for two reasons goes on when both are gone") {
  TwoThreads world;
  std::vector<float> values(1);
  std::uint64_t samples = 0;
  std::thread::id by;
  world.bridge.hold(Bridge::Reason::enough);
  world.bridge.hold(Bridge::Reason::epoch);
  const auto on_loop = [&]() -> Task<> {
    co_await world.bridge.moved().wait();
    world.bridge.release(Bridge::Reason::enough);
    const auto at_border = co_await world.take(TimePoint::max(), values, samples, by);
    CHECK(at_border);  // else it has gone on, and left
    world.bridge.release(Bridge::Reason::epoch);
  };
  const auto on_trainer = [&] {
    world.trainer.add(3);
    world.bridge.border(world.trainer, 1);
    world.bridge.leave();
  };
  world.run(on_loop, on_trainer);
  CHECK(samples == 3);
}

TEST_CASE("bridge: a trainer that is held goes on when its user wants to leave, and not before") {
  TwoThreads world;
  world.bridge.hold(Bridge::Reason::enough);
  int asked = 0;
  const auto on_loop = [&]() -> Task<> { co_await world.bridge.moved().wait(); };
  const auto on_trainer = [&] {
    world.bridge.border(world.trainer, 1, [&] { return ++asked < 3; });
    world.bridge.leave();
  };
  world.run(on_loop, on_trainer);
  CHECK(asked == 3);
}

TEST_CASE("bridge: the loop is not woken by borders in quiet times, and by the first after them") {
  TwoThreads world;
  std::uint64_t heard_at = 0;
  world.bridge.quiet_until(TimePoint::max());
  const auto on_loop = [&]() -> Task<> {
    co_await world.bridge.moved().wait();
    heard_at = world.bridge.samples();
  };
  const auto loop_has_run = [&] {
    for (int i = 0; i < 3; ++i) {  // a wake-up may be posted once more on its way
      std::promise<void> passed;
      asio::post(world.io, [&] { passed.set_value(); });
      passed.get_future().wait();
    }
  };
  const auto on_trainer = [&] {
    loop_has_run();  // it waits now
    for (int i = 0; i < 2; ++i) {
      world.trainer.add(1);
      world.bridge.border(world.trainer, 1);
      loop_has_run();
    }
    CHECK(world.bridge.samples() == 2);
    world.bridge.quiet_until(TimePoint::min());
    world.trainer.add(1);
    world.bridge.border(world.trainer, 1);
    world.bridge.leave();
  };
  world.run(on_loop, on_trainer);
  CHECK(heard_at == 3);
}

TEST_CASE("bridge: beside a microbatch work is done by the workers, and at the border what nobody waits for") {
  TwoThreads world;
  asio::thread_pool workers(1);
  std::promise<void> computing;
  std::promise<void> done_beside;
  std::thread::id by;
  std::thread::id trainer_thread;
  std::thread::id border_by;
  const auto on_loop = [&]() -> Task<> {
    computing.get_future().wait();
    const auto look = [&by](Trainer&) { by = std::this_thread::get_id(); };
    const auto done = co_await world.bridge.beside(workers.get_executor(), look);
    CHECK(done);
    world.bridge.at_border([&border_by](Trainer&) { border_by = std::this_thread::get_id(); });
    done_beside.set_value();
  };
  const auto on_trainer = [&] {
    trainer_thread = std::this_thread::get_id();
    world.bridge.border(world.trainer, 1);
    computing.set_value();
    done_beside.get_future().wait();  // a long microbatch
    world.bridge.border(world.trainer, 1);
    world.bridge.leave();
  };
  const auto loop_thread = std::this_thread::get_id();
  world.run(on_loop, on_trainer);
  CHECK(by != loop_thread);
  CHECK(by != trainer_thread);
  CHECK(by != std::thread::id());
  CHECK(border_by == trainer_thread);
}

TEST_CASE("bridge: nothing is taken from a trainer that has left") {
  TwoThreads world;
  std::vector<float> values(1);
  std::uint64_t samples = 7;
  std::thread::id by;
  std::promise<void> gone;
  const auto on_loop = [&]() -> Task<> {
    gone.get_future().wait();
    const auto at_border = co_await world.take(TimePoint(), values, samples, by);
    CHECK(at_border.error() == Errc::gone);
  };
  const auto on_trainer = [&] {
    world.trainer.add(3);
    world.bridge.border(world.trainer, 1);
    world.bridge.leave();
    gone.set_value();
  };
  world.run(on_loop, on_trainer);
  CHECK(samples == 7);
}

TEST_CASE("bridge: however takes and microbatches meet, every sample is taken once") {
  TwoThreads world;
  constexpr std::uint64_t kMicrobatches = 2000;
  std::vector<float> values(1);
  std::uint64_t all = 0;
  const auto on_loop = [&]() -> Task<> {
    co_await world.bridge.moved().wait();
    bool here = true;
    while (here) {
      std::uint64_t samples = 0;
      std::thread::id by;
      const auto at_border = co_await world.take(world.clock.now(), values, samples, by);
      here = at_border.has_value();
      if (samples > 0) CHECK(values[0] == 1);
      all += samples;
    }
  };
  const auto on_trainer = [&] {
    for (std::uint64_t i = 0; i < kMicrobatches; ++i) {
      world.trainer.add(1);
      world.bridge.border(world.trainer, 1);
    }
    world.bridge.leave();
  };
  world.run(on_loop, on_trainer);
  CHECK(all + world.trainer.samples() == kMicrobatches);
}

}  // namespace collab::epoch
