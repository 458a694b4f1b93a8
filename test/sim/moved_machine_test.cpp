#include "support/sim_node.hpp"

#include <functional>

#include "support/doctest.hpp"

namespace collab::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::filled_frame;
using test::SimNode;

/// Two who know each other and answer `test.echo`; the first has dialled the second.
struct Moved {
  Moved() {
    for (SimNode* node : {&dialler, &mover}) {
      Method echo;
      echo.name = "test.echo";
      node->endpoint().handle(echo, [](PeerId, Frame request, TimePoint) -> Task<Answer> { co_return request; });
    }
    dialler.knows(mover);
    mover.knows(dialler);
  }

  void run(const std::function<Task<>()>& scenario) {
    const auto all = [&]() -> Task<> {
      dialler.start();
      mover.start();
      const Duration met = co_await asked(dialler, mover);
      CHECK(met < milliseconds(500));
      co_await scenario();
      co_await dialler.stop();
      co_await mover.stop();
      network.stop();
    };
    world.run(all());
  }

  /// Until `of` has answered; a minute: never.
  Task<Duration> asked(SimNode& who, SimNode& of) {
    const TimePoint began = world.clock().now();
    const TimePoint end = began + seconds(60);
    for (;;) {  // a connection that breaks fails what waits on it
      const auto answer = co_await who.endpoint().call(of.id(), "test.echo", filled_frame(10), who.in(seconds(20)));
      const TimePoint now = world.clock().now();
      if (answer || now >= end) co_return now - began;
      co_await world.clock().sleep_until(now + milliseconds(50));
    }
  }

  Task<> pause(Duration time) { return world.clock().sleep_until(world.clock().now() + time); }

  sim::Simulation world;
  sim::SimNetwork network{world, 1};
  SimNode dialler{world, network, 1};
  SimNode mover{world, network, 2};
};

}  // namespace

TEST_CASE("moved machine: it lets go of what began at its old address, and dials anew") {
  Moved in;
  const auto scenario = [&]() -> Task<> {
    in.network.renumber(in.mover.host());
    const Duration took = co_await in.asked(in.mover, in.dialler);
    CHECK(took < seconds(3));
    CHECK(in.mover.events("net.readdressed") == 1);
    const Duration back = co_await in.asked(in.dialler, in.mover);  // over the same connection
    CHECK(back < seconds(1));
  };
  in.run(scenario);
  CHECK(in.dialler.events("net.readdressed") == 0);
}

TEST_CASE("moved machine: who says that it is elsewhere, and is silent where it was, is dialled there at once") {
  Moved in;
  const auto scenario = [&]() -> Task<> {
    in.network.renumber(in.mover.host());
    in.dialler.knows(in.mover);
    const Duration took = co_await in.asked(in.dialler, in.mover);
    CHECK(took < seconds(2));
  };
  in.run(scenario);
}

TEST_CASE("moved machine: that it has let go of a connection is nothing that the other end could hear") {
  Moved in;
  const auto scenario = [&]() -> Task<> {
    in.network.renumber(in.mover.host());
    co_await in.pause(milliseconds(2500));
    CHECK(in.mover.events("net.disconnected") == 1);
    const auto answer =
        co_await in.dialler.endpoint().call(in.mover.id(), "test.echo", filled_frame(10), in.dialler.in(seconds(1)));
    REQUIRE_FALSE(answer);
    CHECK(answer.error().code == Errc::late);
    CHECK(in.dialler.events("net.disconnected") == 0);
  };
  in.run(scenario);
}

TEST_CASE("moved machine: who says that it is elsewhere, and still answers where it was, stays connected") {
  Moved in;
  const auto scenario = [&]() -> Task<> {
    Address another = in.mover.address();
    another.host = "10.0.0.77";
    in.dialler.endpoint().introduce(in.mover.id(), std::vector<Address>(1, another));
    for (int i = 0; i < 30; ++i) {
      const Duration took = co_await in.asked(in.dialler, in.mover);
      CHECK(took < milliseconds(500));
      co_await in.pause(seconds(1));
    }
    CHECK(in.dialler.events("net.disconnected") == 0);
  };
  in.run(scenario);
}

}  // namespace collab::net
