#include "sim/network.hpp"

#include <bit>
#include <numeric>

#include "support/doctest.hpp"

namespace collab::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr TimePoint kLong = TimePoint(std::chrono::hours(1));
const net::Address kDoor{"b", 7};

/// Two hosts, 10 ms apart, 1 MB/s each way.
struct Pair {
  Pair() : network(world, 1, links()) {
    network.add_host("a", {1e6, 1e6});
    network.add_host("b", {1e6, 1e6});
  }
  static LinkOptions links() {
    LinkOptions options;
    options.latency_min = options.latency_max = milliseconds(10);
    options.jitter = 0;
    return options;
  }
  Host& a() { return network.host("a"); }
  Host& b() { return network.host("b"); }

  /// `scenario(dialled, accepted)` on a fresh stream from a to b.
  template <class Scenario>
  void run(Scenario scenario) {
    const auto all = [&]() -> Task<> {
      auto listener = b().listen(kDoor).value();
      auto dialled = co_await a().dial(kDoor, kLong);
      REQUIRE(dialled);
      auto accepted = co_await listener->accept();
      REQUIRE(accepted);
      co_await scenario(**dialled, **accepted);
      network.stop();
    };
    world.run(all());
  }

  Simulation world;
  SimNetwork network;
};

Task<std::size_t> read_all(net::ByteStream& stream) {
  Bytes buffer(1000);
  std::size_t total = 0;
  for (;;) {
    const auto size = co_await stream.read(buffer);
    if (!size || *size == 0) co_return total;
    total += *size;
  }
}

}  // namespace

TEST_CASE(
    "sim network: a clock that runs fast shows more time, and who waits on it wakes when it says so, never before") {
  for (const std::int64_t ppb :
       {std::int64_t(0), std::int64_t(200'000), std::int64_t(-200'000), std::int64_t(99'999'999)}) {
    CAPTURE(ppb);
    Pair pair;
    pair.network.set_clock(pair.a(), {seconds(50), ppb});
    const auto scenario = [&]() -> Task<> {
      Clock& world = pair.world.clock();
      Clock& own = pair.a().clock();
      co_await world.sleep_until(TimePoint(std::chrono::hours(24)));
      const auto gained = own.now() - world.now();
      CHECK(gained.count() == 86'400 * ppb);
      const auto ahead_ms = std::chrono::duration_cast<milliseconds>(seconds(50) + gained).count();
      CHECK(own.unix_ms() - world.unix_ms() == ahead_ms);
      for (const auto step : {std::chrono::nanoseconds(1), std::chrono::nanoseconds(123'456'789)}) {
        const TimePoint when = own.now() + step;
        co_await own.sleep_until(when);
        CHECK(own.now() >= when);
        CHECK(own.now() - when <= std::chrono::nanoseconds(1));
      }
    };
    pair.world.run(scenario());
  }
}

TEST_CASE("sim network: a stream carries bytes in order at the rate of the line") {
  Pair pair;
  pair.run([&](net::ByteStream& from, net::ByteStream& to) -> Task<> {
    Bytes sent(500'000);
    for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 31);
    const TimePoint start = pair.world.clock().now();
    CHECK((co_await from.write(sent)));
    Bytes got(sent.size());
    for (std::size_t have = 0; have < got.size();) {
      const auto size = co_await to.read(std::span(got).subspan(have));
      REQUIRE(size);
      have += *size;
    }
    CHECK(got == sent);
    CHECK(to_seconds(pair.world.clock().now() - start) == doctest::Approx(0.5 + 0.01).epsilon(0.2));
  });
}

TEST_CASE("sim network: what comes in over a slow line holds up nobody else on the way to the same host") {
  Pair pair;
  Host& slow = pair.network.add_host("slow", {1e4, 1e4});
  const auto scenario = [&](net::ByteStream& from_fast, net::ByteStream& at_b) -> Task<> {
    const net::Address second_door{"b", 8};
    auto listener = pair.b().listen(second_door).value();
    auto from_slow = co_await slow.dial(second_door, kLong);
    REQUIRE(from_slow);
    const auto at_b_too = co_await listener->accept();
    REQUIRE(at_b_too);
    const Bytes bytes(50'000);
    (void)co_await (*from_slow)->write(bytes);  // for the next five seconds
    const TimePoint start = pair.world.clock().now();
    (void)co_await from_fast.write(bytes);
    from_fast.close();
    const std::size_t size = co_await read_all(at_b);
    CHECK(size == bytes.size());
    CHECK(pair.world.clock().now() - start < milliseconds(120));  // 50 ms out, 10 on the way, 50 in
  };
  pair.run(scenario);
}

TEST_CASE("sim network: who closes in order is read to the end, who is killed only to a prefix") {
  std::size_t shorter = 0;
  for (const bool killed : {false, true}) {
    Pair pair;
    pair.run([&](net::ByteStream& from, net::ByteStream& to) -> Task<> {
      const Bytes sent(300'000);
      CHECK((co_await from.write(sent)));
      if (killed) {
        pair.network.kill(pair.a());
      } else {
        from.close();
      }
      const std::size_t got = co_await read_all(to);
      CHECK(got <= sent.size());
      if (!killed) CHECK(got == sent.size());
      shorter += got < sent.size() ? 1 : 0;
      CHECK_FALSE((co_await from.write(sent)));
    });
  }
  CHECK(shorter == 1);
}

TEST_CASE("sim network: a frozen host takes bytes until its queue is full, and goes on when thawed") {
  Pair pair;
  pair.run([&](net::ByteStream& from, net::ByteStream& to) -> Task<> {
    pair.network.freeze(pair.b());
    const Bytes half(600'000);
    CHECK((co_await from.write(half)));
    TaskGroup tasks(pair.world.executor(), rethrow);
    bool written = false;
    const auto more = [&]() -> Task<> {
      CHECK((co_await from.write(half)));
      written = true;
    };
    std::size_t got = 0;
    const auto reader = [&]() -> Task<> { got = co_await read_all(to); };
    tasks.spawn("write", more());
    tasks.spawn("read", reader());
    co_await pair.world.clock().sleep_until(TimePoint(seconds(10)));
    CHECK_FALSE(written);
    CHECK(got == 0);
    pair.network.thaw(pair.b());
    co_await pair.world.clock().sleep_until(TimePoint(seconds(20)));
    CHECK(written);
    from.close();
    co_await tasks.join();
    CHECK(got == 2 * half.size());
  });
}

TEST_CASE("sim network: nobody listens, nobody there, port taken") {
  Pair pair;
  pair.run([&](net::ByteStream&, net::ByteStream&) -> Task<> {
    const net::Address shut{"b", 8};
    const net::Address unknown{"c", 8};
    const auto refused = co_await pair.a().dial(shut, kLong);
    CHECK(refused.error() == Errc::gone);
    const auto nowhere = co_await pair.a().dial(unknown, kLong);
    CHECK(nowhere.error() == Errc::gone);
    CHECK(pair.b().listen(kDoor).error() == Errc::busy);
  });
}

TEST_CASE("sim network: a partition holds bytes back and heals") {
  Pair pair;
  pair.run([&](net::ByteStream& from, net::ByteStream& to) -> Task<> {
    pair.network.partition({"a"});
    const Bytes sent(100);
    CHECK((co_await from.write(sent)));
    const auto late = co_await pair.a().dial(kDoor, pair.world.clock().now() + seconds(3));
    CHECK(late.error() == Errc::late);
    pair.network.heal();
    Bytes got(100);
    CHECK((co_await to.read(got)).value() == 100);
  });
}

TEST_CASE("sim network: what a mute host sends waits, what a deaf one is sent too; the other way is open") {
  Pair pair;
  pair.run([&](net::ByteStream& from, net::ByteStream& to) -> Task<> {
    const Bytes sent(100);
    Bytes got(100);
    const auto arrives = [&](net::ByteStream& out, net::ByteStream& in) -> Task<Result<std::size_t>> {
      CHECK((co_await out.write(sent)));
      const TimePoint soon = pair.world.clock().now() + seconds(1);
      auto read = in.read(got);
      co_return co_await with_deadline(pair.world.clock(), soon, std::move(read));
    };
    pair.network.block(pair.a(), true, false);
    CHECK((co_await arrives(to, from)).value() == 100);
    CHECK((co_await arrives(from, to)).error() == Errc::late);
    pair.network.block(pair.a(), false, false);
    CHECK((co_await to.read(got)).value() == 100);
    pair.network.block(pair.b(), false, true);
    CHECK((co_await arrives(to, from)).value() == 100);
    CHECK((co_await arrives(from, to)).error() == Errc::late);
    pair.network.block(pair.b(), false, false);
    CHECK((co_await to.read(got)).value() == 100);
    pair.network.clog(pair.a(), pair.b(), true);
    CHECK((co_await arrives(to, from)).value() == 100);
    CHECK((co_await arrives(from, to)).error() == Errc::late);
    pair.network.clog(pair.a(), pair.b(), false);
    CHECK((co_await to.read(got)).value() == 100);
  });
}

TEST_CASE("sim network: a slow host's line carries less, and one corrupted bit arrives") {
  Pair pair;
  pair.run([&](net::ByteStream& from, net::ByteStream& to) -> Task<> {
    const Bytes sent(10'000);
    Bytes got(10'000);
    const auto takes = [&]() -> Task<Duration> {
      const TimePoint begun = pair.world.clock().now();
      CHECK((co_await from.write(sent)));
      CHECK((co_await to.read(got)).value() == sent.size());
      co_return pair.world.clock().now() - begun;
    };
    CHECK(to_seconds(co_await takes()) == doctest::Approx(0.030));
    CHECK(got == sent);
    pair.network.slow(pair.a(), 5);
    CHECK(to_seconds(co_await takes()) == doctest::Approx(0.070));
    pair.network.slow(pair.a(), 1);
    pair.network.corrupt(pair.a());
    (void)co_await takes();
    int bits = 0;
    for (const std::byte one : got) bits += std::popcount(std::to_integer<unsigned>(one));
    CHECK(bits == 1);
    (void)co_await takes();
    CHECK(got == sent);
  });
}

TEST_CASE("sim network: the steady clock of a suspended host stands still, and its calendar goes on") {
  Pair pair;
  pair.run([&](net::ByteStream&, net::ByteStream&) -> Task<> {
    Clock& world = pair.world.clock();
    Clock& clock = pair.b().clock();
    const TimePoint start = world.now();
    TimePoint rang{};
    TaskGroup tasks(pair.world.executor(), rethrow);
    const auto alarm = [&]() -> Task<> {
      co_await clock.sleep_until(start + seconds(5));
      rang = world.now();
    };
    tasks.spawn("alarm", alarm());
    co_await world.sleep_until(start + seconds(3));
    pair.network.suspend(pair.b());
    co_await world.sleep_until(start + seconds(63));
    CHECK(clock.now() == start + seconds(3));
    pair.network.resume(pair.b());
    CHECK(clock.unix_ms() == world.unix_ms());
    co_await tasks.join();
    CHECK(rang == start + seconds(65));
    CHECK(clock.now() == start + seconds(5));
  });
}

TEST_CASE("sim network: a calendar that is shifted tells another date, and no other time") {
  Pair pair;
  pair.run([&](net::ByteStream&, net::ByteStream&) -> Task<> {
    const std::int64_t before = pair.a().clock().unix_ms();
    pair.network.shift_calendar(pair.a(), -seconds(90));
    CHECK(pair.a().clock().unix_ms() == before - 90'000);
    CHECK(pair.b().clock().unix_ms() == before);
    CHECK(pair.a().clock().now() == pair.b().clock().now());
    co_return;
  });
}

TEST_CASE("sim network: behind a box one dials out and is seen as the box, and nobody else comes in") {
  Simulation world;
  SimNetwork network(world, 1);
  Host& home = network.add_host("home");
  Host& server = network.add_host("server");
  Host& stranger = network.add_host("stranger");
  NatBox& box = network.add_box({});
  network.put_behind(home, box);
  const auto scenario = [&]() -> Task<> {
    auto listener = server.listen({"server", 443}).value();
    auto inside = home.listen({"home", 443}).value();
    const net::Address to_server{server.address(), 443};
    auto dialled = co_await home.dial(to_server, kLong);
    REQUIRE(dialled);
    auto accepted = co_await listener->accept();
    REQUIRE(accepted);
    const net::Address seen = (*accepted)->remote();
    CHECK(seen.host == box.outside());
    const Bytes hello(10);
    Bytes got(10);
    CHECK((co_await (*accepted)->write(hello)));
    CHECK((co_await (*dialled)->read(got)).value() == 10);
    const TimePoint soon = world.clock().now() + seconds(3);
    const net::Address private_address{home.address(), 443};
    CHECK((co_await stranger.dial(private_address, soon)).error() == Errc::late);
    CHECK((co_await stranger.dial(seen, soon + seconds(3))).error() == Errc::late);
    const net::Address unknown{box.outside(), 443};
    CHECK((co_await server.dial(unknown, soon + seconds(6))).error() == Errc::late);
    const TimePoint quiet = world.clock().now() + seconds(100);
    co_await world.clock().sleep_until(quiet);
    CHECK((co_await (*accepted)->write(hello)));
    CHECK((co_await (*dialled)->read(got)).value() == 10);
    network.reboot(box);
    CHECK((co_await (*accepted)->write(hello)));  // nobody tells the server
    std::size_t arrived = 0;
    const auto read = [&]() -> Task<> {
      const auto size = co_await (*dialled)->read(got);
      arrived = size ? *size : 0;
    };
    auto reading = read();
    const bool ended = co_await ends_by(world.clock(), world.clock().now() + seconds(60), std::move(reading));
    CHECK_FALSE(ended);
    CHECK(arrived == 0);
    network.stop();
  };
  world.run(scenario());
}

TEST_CASE("sim network: whoever dials from behind one box to behind another is told of, and does not get there") {
  Simulation world;
  SimNetwork network(world, 1);
  Host& one = network.add_host("one");
  Host& other = network.add_host("other");
  Host& neighbour = network.add_host("neighbour");
  NatBox& box = network.add_box({});
  network.put_behind(one, box);
  network.put_behind(neighbour, box);
  network.put_behind(other, network.add_box({}));
  std::vector<std::string> seen;
  network.on_hidden_dial([&](const Host& from, const Host& to) { seen.push_back(from.name() + " " + to.name()); });
  const auto scenario = [&]() -> Task<> {
    auto listener = neighbour.listen({"neighbour", 443}).value();
    const net::Address to_other{other.address(), 443};
    const net::Address to_neighbour{neighbour.address(), 443};
    CHECK((co_await one.dial(to_other, TimePoint(seconds(5)))).error() == Errc::late);
    CHECK((co_await one.dial(to_neighbour, kLong)).has_value());
    network.stop();
  };
  world.run(scenario());
  CHECK(seen == std::vector<std::string>{"one other"});
}

TEST_CASE("sim network: behind a firewall one is seen as one is, and nobody comes in whom one has not dialled") {
  Simulation world;
  SimNetwork network(world, 1);
  Host& home = network.add_host("198.52.0.1");
  Host& server = network.add_host("server");
  network.add_firewall(home, {});
  const auto scenario = [&]() -> Task<> {
    auto listener = server.listen({"server", 443}).value();
    auto inside = home.listen({home.address(), 443}).value();
    const net::Address by_name{"server", 443};
    auto dialled = co_await home.dial(by_name, kLong);
    REQUIRE(dialled);
    CHECK((*dialled)->remote() == net::Address{server.address(), 443});  // whatever it was called
    auto accepted = co_await listener->accept();
    REQUIRE(accepted);
    CHECK((*accepted)->remote().host == home.address());
    const Bytes hello(10);
    Bytes got(10);
    CHECK((co_await (*accepted)->write(hello)));
    CHECK((co_await (*dialled)->read(got)).value() == 10);
    const TimePoint soon = world.clock().now() + seconds(3);
    const net::Address there{home.address(), 443};
    CHECK((co_await server.dial(there, soon)).error() == Errc::late);
    network.stop();
  };
  world.run(scenario());
}

}  // namespace collab::sim
