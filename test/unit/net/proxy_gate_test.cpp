#include "net/proxy_gate.hpp"

#include "base/task_group.hpp"
#include "net/proxy.hpp"
#include "sim/simulation.hpp"

#include <functional>

#include "support/doctest.hpp"

namespace collab::net {
namespace {

using namespace std::chrono_literals;

/// Dials through a proxy that answers after 100 ms.
struct Dials {
  explicit Dials(bool one_by_one = true) : gate(simulation.executor(), simulation.clock(), one_by_one) {}

  Task<> dial() {
    const auto turn = co_await gate.enter(simulation.clock().now() + 5s);
    if (!turn) {
      barred += turn.error() == answer ? 1 : 0;
      co_return;
    }
    ++asked;
    at_once_most = std::max(at_once_most, ++at_once);
    co_await sleep(100ms);
    --at_once;
    (*turn)->answered(answer);
  }
  Task<> dial_many(int count) {
    const auto body = [&](TaskGroup& tasks) -> Task<> {
      for (int i = 0; i < count; ++i) tasks.spawn("dial", dial());
      co_await tasks.join();
    };
    auto scope = task_scope(rethrow, body);
    co_await std::move(scope);
  }
  Task<> sleep(Duration length) { return simulation.clock().sleep_until(simulation.clock().now() + length); }

  sim::Simulation simulation;
  ProxyGate gate;
  boost::system::error_code answer;
  int asked = 0;
  int barred = 0;
  int at_once = 0;
  int at_once_most = 0;
};

}  // namespace

TEST_CASE("proxy gate: a login that was refused is told again by one dial after 1, 2, 4, 8 and then each 10 min") {
  for (const auto& why : {proxy_status(407), make_error_code(ProxyFault::other_login)}) {
    Dials dials;
    dials.answer = why;
    const auto all = [&]() -> Task<> {
      co_await dials.dial_many(8);
      CHECK(dials.asked == 1);
      CHECK(dials.barred == 7);
      for (const Duration pause : {1min, 2min, 4min, 8min, 10min, 10min}) {
        const int before = dials.asked;
        co_await dials.sleep(pause - 200ms);
        co_await dials.dial_many(3);
        CHECK(dials.asked == before);
        co_await dials.sleep(300ms);
        co_await dials.dial_many(3);
        CHECK(dials.asked == before + 1);
      }
      dials.answer = {};
      co_await dials.sleep(10min);
      co_await dials.dial_many(1);
      co_await dials.dial_many(3);
      CHECK(dials.at_once_most == 3);
      dials.answer = why;
      co_await dials.dial_many(1);
      CHECK(dials.gate.barred() == why);
      co_await dials.sleep(ProxyGate::kPauseMin);
      CHECK_FALSE(dials.gate.barred());  // it begins anew
    };
    dials.simulation.run(all());
  }
}

TEST_CASE("proxy gate: one asks at a time until the proxy has let something through, a dead place included") {
  for (const auto& answer : {boost::system::error_code(), proxy_status(502), make_error_code(ProxyFault::silent)}) {
    Dials dials;
    dials.answer = answer;
    const auto all = [&]() -> Task<> {
      co_await dials.dial_many(1);
      co_await dials.dial_many(4);
      CHECK(dials.at_once_most == 4);
    };
    dials.simulation.run(all());
  }
  Dials forbidden;  // says nothing of the login
  forbidden.answer = proxy_status(403);
  forbidden.simulation.run(forbidden.dial_many(4));
  CHECK(forbidden.asked == 4);
  CHECK(forbidden.at_once_most == 1);
  Dials without_login(false);
  without_login.simulation.run(without_login.dial_many(4));
  CHECK(without_login.at_once_most == 4);
}

TEST_CASE("proxy gate: who waits for a turn waits no longer than it may") {
  Dials dials;
  const auto all = [&]() -> Task<> {
    const auto turn = co_await dials.gate.enter(dials.simulation.clock().now() + 5s);
    REQUIRE(turn);
    const auto other = co_await dials.gate.enter(dials.simulation.clock().now() + 1s);
    REQUIRE_FALSE(other);
    CHECK(other.error() == Errc::late);
  };
  dials.simulation.run(all());
}

}  // namespace collab::net
