// Tensors over circuits: leading on those who are let out to few places.

#include "relay_town.hpp"

#include "support/doctest.hpp"

namespace collab::nat {
namespace {

/// One whose network lets it out to port 443 only, where a relay listens, and an owner that listens elsewhere.
struct Campus {
  explicit Campus(RelayMode mode)
      : network(world, 1),
        box(network.add_box(lets_out_443())),
        relay(world, network, 1, relay_wishes(mode)),
        owner(world, network, 2, owner_wishes()),
        inside(world, network, 3, inside_wishes(), &box) {}

  static sim::NatOptions lets_out_443() {
    sim::NatOptions options;
    options.only_443 = true;
    return options;
  }
  static NodeWishes relay_wishes(RelayMode mode) {
    NodeWishes wishes;
    wishes.port = 443;
    wishes.relay.mode = mode;
    return wishes;
  }
  static NodeWishes owner_wishes() {
    NodeWishes wishes;
    wishes.second_port = 443;
    return wishes;
  }
  NodeWishes inside_wishes() {
    NodeWishes wishes;
    wishes.onward = [this] {
      ++asked_onward;
      return std::vector<net::Address>(1, relay.onward_address());
    };
    return wishes;
  }
  void run(std::function<Task<>()> scenario) {
    const auto all = [&]() -> Task<> {
      for (RelayNode* node : {&relay, &owner, &inside}) node->start();
      inside.knows(relay);
      relay.knows(owner);
      inside.knows(owner);
      CHECK(co_await inside.calls(relay));
      co_await scenario();
      for (RelayNode* node : {&inside, &owner, &relay}) co_await node->stop();
      network.stop();
    };
    world.run(all());
  }
  Task<net::Answer> calls_for_tensors(RelayNode& from, RelayNode& to, Duration time = 20s) {
    const Frame question = test::filled_frame(50'000);
    return from.endpoint.call(to.id(), "test.bulk", question, from.in(time));
  }
  Task<> sleep(Duration time) { return world.clock().sleep_until(world.clock().now() + time); }

  sim::Simulation world;
  sim::SimNetwork network;
  int asked_onward = 0;
  sim::NatBox& box;
  RelayNode relay;
  RelayNode owner;
  RelayNode inside;
};

}  // namespace

TEST_CASE("relay: one that carries tensors leads on to whom others can dial, those who are let out to few places") {
  Campus campus(RelayMode::bulk);
  campus.run([&]() -> Task<> {
    TimePoint began = campus.world.clock().now();
    CHECK(co_await campus.calls_for_tensors(campus.inside, campus.owner));
    CHECK(campus.world.clock().now() - began < 6s);  // five of them for what is dropped in silence
    for (const auto& [from, to] :
         {std::pair(&campus.inside, &campus.owner), std::pair(&campus.owner, &campus.inside)}) {
      const net::LinkState link = from->endpoint.link(to->id());
      CHECK(link.circuit);
      CHECK(link.tensors);
      CHECK(from->endpoint.can_reach(to->id()));
      CHECK(co_await campus.calls_for_tensors(*from, *to));  // both ways
      CHECK(co_await from->calls(*to));                      // and words as well
    }
    CHECK(campus.relay.relay->circuits() == 1);
    CHECK(campus.relay.relay->reservations() == 0);
    CHECK(campus.relay.metrics.value("collab_relayed_bytes_total", {{"class", "bulk"}}) > 300'000);

    co_await campus.owner.stop();
    co_await campus.sleep(2s);
    CHECK(campus.relay.relay->circuits() == 0);
  });
}

TEST_CASE("relay: a word waits behind little of what a circuit carries") {
  Campus campus(RelayMode::bulk);
  campus.run([&]() -> Task<> {
    CHECK(co_await campus.calls_for_tensors(campus.inside, campus.owner));
    int answered = 0;
    const auto carry = [&]() -> Task<> {
      CHECK(co_await campus.calls_for_tensors(campus.inside, campus.owner, 60s));
      ++answered;
    };
    for (int i = 0; i < 120; ++i) campus.inside.tasks().spawn("carry", carry());  // 6 MB there, and as much back
    for (int i = 0; i < 4; ++i) {
      co_await campus.sleep(200ms);
      const TimePoint asked = campus.world.clock().now();
      CHECK(co_await campus.inside.calls(campus.owner));
      CHECK(campus.world.clock().now() - asked < 700ms);  // at 2.5 MB/s, of both ways together
    }
    CHECK(answered < 120);
    while (answered < 120) co_await campus.sleep(100ms);
  });
}

TEST_CASE("relay: who was led on once has the next circuit at once") {
  Campus campus(RelayMode::bulk);
  campus.run([&]() -> Task<> {
    CHECK(co_await campus.calls_for_tensors(campus.inside, campus.owner));
    co_await campus.sleep(30min);  // its life
    CHECK(campus.relay.relay->circuits() == 0);
    const TimePoint began = campus.world.clock().now();
    CHECK(co_await campus.calls_for_tensors(campus.inside, campus.owner));
    CHECK(campus.world.clock().now() - began < 1s);
  });
}

TEST_CASE("relay: who was led on is dialled as soon as it is known where that leads somewhere") {
  Campus campus(RelayMode::bulk);
  campus.run([&]() -> Task<> {
    CHECK(co_await campus.calls_for_tensors(campus.inside, campus.owner));
    CHECK(campus.inside.endpoint.link(campus.owner.id()).circuit);
    std::vector<net::Address> both(2, campus.owner.address());
    both.back().port = 443;
    campus.inside.endpoint.introduce(campus.owner.id(), both);
    co_await campus.sleep(1s);
    CHECK(campus.inside.endpoint.link(campus.owner.id()).dialled);
    CHECK(co_await campus.calls_for_tensors(campus.inside, campus.owner));
    co_await campus.sleep(6s);
    CHECK(campus.relay.relay->circuits() == 0);
  });
}

TEST_CASE("relay: one that carries words only leads nobody on") {
  Campus campus(RelayMode::signal);
  campus.run([&]() -> Task<> {
    const auto answer = co_await campus.calls_for_tensors(campus.inside, campus.owner);
    CHECK(answer.error().code == Errc::gone);
    CHECK(campus.asked_onward == 1);
    CHECK(campus.relay.relay->circuits() == 0);
  });
}

TEST_CASE("relay: nobody is led on to one who was there himself a moment ago and does not answer") {
  Town town;
  int asked = 0;
  NodeWishes wishes;
  wishes.onward = [&] {
    ++asked;
    return std::vector<net::Address>(1, town.relay.onward_address());
  };
  RelayNode open(town.world, town.network, 5, wishes);
  town.run([&]() -> Task<> {
    open.start();
    open.knows(town.second);
    CHECK(co_await open.calls(town.second));
    co_await town.second.stop();
    for (const bool long_ago : {false, true}) {
      CAPTURE(long_ago);
      if (long_ago) co_await town.sleep(40s);
      CHECK_FALSE(co_await open.calls(town.second));
      CHECK(asked == (long_ago ? 1 : 0));
    }
    co_await open.stop();
  });
}

}  // namespace collab::nat
