#include "nat/port_mapping.hpp"

#include "base/task_group.hpp"
#include "nat/address_kind.hpp"
#include "nat/route.hpp"
#include "nat/worker_thread.hpp"
#include "sim/simulation.hpp"
#include "support/temp_folder.hpp"

#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <functional>
#include <future>
#include <map>
#include <memory>

#include "support/doctest.hpp"

namespace collab::nat {
namespace {

using namespace std::chrono_literals;
using Phase = MappingStatus::Phase;
using Why = GatewayRefusal::Why;

/// A router as a test wants it, on virtual time: what it keeps, what it says, and when.
struct Router {
  explicit Router(sim::Simulation& world) : simulation(world) {}

  struct Entry {
    std::uint16_t inside_port;
    std::uint32_t lease_s;
    TimePoint end;
  };
  TimePoint now() { return simulation.clock().now(); }
  void restart() {
    table.clear();
    started = now();
  }
  std::size_t live() {
    std::erase_if(table, [&](const auto& entry) { return entry.second.end <= now(); });
    return table.size();
  }

  sim::Simulation& simulation;
  Duration takes = 5ms;                      ///< for an answer
  Duration finds = 5ms;                      ///< for the first
  std::optional<GatewayRefusal> speaks_not;  ///< what it says to everything
  std::string outside = "11.99.0.11";
  std::function<std::optional<GatewayRefusal>(const MapRequest&)> objects;  ///< to a wish
  std::function<void(MapReply&)> distorts;
  TimePoint started{};
  bool has_epoch = true;
  std::map<std::uint16_t, Entry> table;
  std::vector<MapRequest> wishes;
  std::vector<TimePoint> wished_at;
  std::vector<MapRequest> removed;
};

class ScriptedGateway final : public Gateway {
 public:
  ScriptedGateway(Router& router, Protocol protocol) : router_(router), protocol_(protocol) {}

  Protocol protocol() const noexcept override { return protocol_; }
  Task<GatewayResult<Sight>> find(std::string router, TimePoint deadline) override {
    CHECK_FALSE(router.empty());
    const bool in_time = co_await answers(router_.finds, deadline);
    if (!in_time) co_return GatewayRefusal(Why::silent, "is not answered");
    co_return see();
  }
  Task<GatewayResult<Sight>> look(MapRequest mapped, TimePoint deadline) override {
    const bool in_time = co_await answers(router_.takes, deadline);
    if (!in_time) co_return GatewayRefusal(Why::silent, "is not answered");
    (void)router_.live();
    if (!router_.has_epoch && !router_.table.contains(mapped.outside_port)) co_return GatewayRefusal(Why::gone, "");
    co_return see();
  }
  Task<GatewayResult<MapReply>> map(MapRequest wish, TimePoint deadline) override {
    router_.wishes.push_back(wish);
    router_.wished_at.push_back(router_.now());
    const bool in_time = co_await answers(router_.takes, deadline);
    if (!in_time) co_return GatewayRefusal(Why::silent, "is not answered");
    if (router_.speaks_not) co_return *router_.speaks_not;
    if (router_.objects) {
      if (const auto no = router_.objects(wish)) co_return *no;
    }
    MapReply reply{wish.inside_port, wish.outside_port, wish.lease_s};
    if (router_.distorts) router_.distorts(reply);
    const TimePoint end = reply.lease_s == 0 ? TimePoint::max() : router_.now() + std::chrono::seconds(reply.lease_s);
    router_.table[reply.outside_port] = {reply.inside_port, reply.lease_s, end};
    co_return reply;
  }
  Task<bool> unmap(MapRequest mapped, TimePoint deadline) override {
    const bool in_time = co_await answers(router_.takes, deadline);
    if (!in_time) co_return false;
    router_.removed.push_back(mapped);
    router_.table.erase(mapped.outside_port);
    co_return true;
  }

 private:
  Task<bool> answers(Duration takes, TimePoint deadline) {
    const TimePoint when = router_.now() + takes;
    co_await router_.simulation.clock().sleep_until(std::min(when, deadline));
    co_return when <= deadline;
  }
  GatewayResult<Sight> see() {
    if (router_.speaks_not) return *router_.speaks_not;
    Sight sight{router_.outside, std::nullopt};
    if (router_.has_epoch)
      sight.epoch_s = static_cast<std::uint32_t>((router_.now() - router_.started) / std::chrono::seconds(1));
    return sight;
  }

  Router& router_;
  Protocol protocol_;
};

/// A node's half: one PortMapping that runs while a scenario looks at it.
struct Home {
  Home() {
    upnp.finds = 2100ms;
    upnp.has_epoch = false;
  }

  void run(std::function<Task<>(PortMapping&)> scenario) {
    Gateways gateways;
    gateways.push_back(std::make_unique<ScriptedGateway>(natpmp, Protocol::natpmp));
    gateways.push_back(std::make_unique<ScriptedGateway>(upnp, Protocol::upnp));
    PortMapping::Needs needs{
        simulation.clock(),       Random(1), log, simulation.executor(), simulation.executor(), std::move(gateways),
        [this] { return router; }};
    PortMapping mapping(std::move(needs), options);
    const auto all = [&]() -> Task<> {
      const auto body = [&](TaskGroup& tasks) -> Task<> {
        tasks.spawn("mapping", mapping.run());
        co_await scenario(mapping);
      };
      auto scope = task_scope(rethrow, body);
      co_await std::move(scope);
    };
    simulation.run(all());
  }
  Task<> sleep(Duration length) { return simulation.clock().sleep_until(simulation.clock().now() + length); }

  sim::Simulation simulation;
  Log log;
  Router natpmp{simulation};
  Router upnp{simulation};
  std::optional<std::string> router = "192.168.1.1";
  PortMapping::Options options = of_port(4600);

  static PortMapping::Options of_port(std::uint16_t port) {
    PortMapping::Options options;
    options.port = port;
    return options;
  }
};

const GatewayRefusal kAbsent(Why::absent, "is not spoken by the router");

/// What comes of one distorted answer.
std::optional<Mapping> after(std::function<void(MapReply&)> distorts) {
  Home home;
  home.upnp.speaks_not = kAbsent;
  home.natpmp.distorts = std::move(distorts);
  std::optional<Mapping> found;
  home.run([&](PortMapping& mapping) -> Task<> {
    co_await home.sleep(10s);
    found = mapping.status().mapping;
    if (!found) CHECK(mapping.status().phase == Phase::refused);
  });
  return found;
}

}  // namespace

TEST_CASE("port mapping: both protocols start together, the first that answers maps, and leaving removes it") {
  Home home;
  home.run([&](PortMapping& mapping) -> Task<> {
    CHECK(mapping.status().phase == Phase::asking);
    co_await home.sleep(50ms);
    REQUIRE(mapping.status().mapping.has_value());
    CHECK(*mapping.status().mapping == Mapping{Protocol::natpmp, "192.168.1.1", 4600, 4600, "11.99.0.11", 3600});
    CHECK(home.natpmp.live() == 1);
    co_await home.sleep(10s);
    CHECK(home.upnp.wishes.empty());
    const TimePoint start = home.simulation.clock().now();
    co_await mapping.remove();
    CHECK(home.simulation.clock().now() - start <= 1s);
    CHECK(home.natpmp.live() == 0);
    CHECK(mapping.status().phase == Phase::off);
    co_await home.sleep(2h);
    CHECK(home.natpmp.wishes.size() == 1);
  });
}

TEST_CASE("port mapping: UPnP maps when NAT-PMP is silent, within its 8 s, and both are renewed at half the lease") {
  Home home;
  home.natpmp.takes = home.natpmp.finds = 1h;
  home.run([&](PortMapping& mapping) -> Task<> {
    co_await home.sleep(2500ms);
    REQUIRE(mapping.status().phase == Phase::mapped);
    CHECK(mapping.status().mapping->by == Protocol::upnp);
    REQUIRE(mapping.status().trials.size() == 1);
    CHECK(describe(mapping.status().trials) == "NAT-PMP is not answered");
    co_await home.sleep(5h);
    CHECK(home.upnp.live() == 1);
    for (std::size_t i = 1; i < home.upnp.wished_at.size(); ++i)
      CHECK(home.upnp.wished_at[i] - home.upnp.wished_at[i - 1] < 1801s);
    CHECK(home.upnp.wishes.size() == 11);
  });
}

TEST_CASE("port mapping: a silent router is given up after 2 s by NAT-PMP and 8 s by UPnP, and asked again later") {
  Home home;
  home.natpmp.takes = home.natpmp.finds = home.upnp.takes = home.upnp.finds = 1h;
  home.run([&](PortMapping& mapping) -> Task<> {
    co_await home.sleep(7900ms);
    CHECK(mapping.status().phase == Phase::asking);
    co_await home.sleep(200ms);
    CHECK(mapping.status().phase == Phase::refused);
    CHECK(mapping.status().trials.size() == 2);
    const TimePoint start = home.simulation.clock().now();
    co_await mapping.remove();  // nothing was mapped, so nothing is waited for
    CHECK(home.simulation.clock().now() == start);
  });
  Home later;
  later.natpmp.speaks_not = later.upnp.speaks_not = kAbsent;
  later.run([&](PortMapping& mapping) -> Task<> {
    co_await later.sleep(10s);
    CHECK(mapping.status().phase == Phase::refused);
    later.natpmp.speaks_not.reset();
    co_await later.sleep(19min);
    CHECK(mapping.status().phase == Phase::mapped);
  });
}

TEST_CASE("port mapping: a router that stops answering holds nobody up, and what was asked for is taken back") {
  Home home;
  home.natpmp.takes = 1500ms;
  home.upnp.speaks_not = kAbsent;
  home.run([&](PortMapping& mapping) -> Task<> {
    co_await home.sleep(500ms);
    REQUIRE(home.natpmp.wishes.size() == 1);  // on its way
    const TimePoint start = home.simulation.clock().now();
    home.natpmp.takes = 100ms;
    co_await mapping.remove();
    CHECK(home.simulation.clock().now() - start == 100ms);
    REQUIRE(home.natpmp.removed.size() == 1);
    CHECK(home.natpmp.removed.front().outside_port == 4600);
  });
  Home deaf;
  deaf.run([&](PortMapping& mapping) -> Task<> {
    co_await deaf.sleep(1s);
    REQUIRE(mapping.status().mapping.has_value());
    deaf.natpmp.takes = 1h;
    const TimePoint start = deaf.simulation.clock().now();
    co_await mapping.remove();
    CHECK(deaf.simulation.clock().now() - start == 1s);
  });
}

TEST_CASE("port mapping: when the port is taken others are tried, four at most, none below 1024") {
  Home home;
  home.natpmp.speaks_not = kAbsent;
  std::size_t taken = 3;
  home.upnp.objects = [&](const MapRequest&) -> std::optional<GatewayRefusal> {
    if (taken == 0) return std::nullopt;
    --taken;
    return GatewayRefusal(Why::taken, "is taken");
  };
  home.run([&](PortMapping& mapping) -> Task<> {
    co_await home.sleep(5s);
    REQUIRE(mapping.status().mapping.has_value());
    CHECK(home.upnp.wishes.size() == 4);
    CHECK(mapping.status().mapping->outside_port == home.upnp.wishes.back().outside_port);
    CHECK(mapping.status().mapping->inside_port == 4600);
    for (const MapRequest& wish : home.upnp.wishes) CHECK(wish.outside_port >= 1024);
    taken = 1000;
    home.upnp.restart();
    co_await home.sleep(3min);
    CHECK(mapping.status().phase == Phase::refused);
    CHECK(home.upnp.wishes.size() == 4 + 5);
  });
}

TEST_CASE("port mapping: a mapping for good is noted on disk before it is made, and removed at the end or next start") {
  const test::TempFolder folder;
  const auto only_for_good = [](const MapRequest& wish) -> std::optional<GatewayRefusal> {
    if (wish.lease_s == 0) return std::nullopt;
    return GatewayRefusal(Why::only_permanent, "knows no leases");
  };
  Home first;
  first.natpmp.speaks_not = kAbsent;
  first.options.note = folder / "port_mapping";
  first.upnp.objects = [&](const MapRequest& wish) {
    if (wish.lease_s == 0) CHECK(std::filesystem::exists(first.options.note));
    return only_for_good(wish);
  };
  first.run([&](PortMapping& mapping) -> Task<> {
    co_await first.sleep(1h);
    REQUIRE(mapping.status().mapping.has_value());
    CHECK(mapping.status().mapping->lease_s == 0);
    CHECK(first.upnp.wishes.size() == 2);
  });
  CHECK(test::content(first.options.note) == "collab-port-mapping-v1 4600 4600\n");  // it was killed

  Home second;  // with another port, at a router that NAT-PMP would have mapped at once
  second.options.port = 4601;
  second.options.note = first.options.note;
  second.upnp.table = first.upnp.table;
  second.run([&](PortMapping& mapping) -> Task<> {
    co_await second.sleep(3s);
    CHECK(second.upnp.table.empty());
    CHECK_FALSE(std::filesystem::exists(second.options.note));
    CHECK(mapping.status().mapping->by == Protocol::natpmp);
  });

  Home third;
  third.natpmp.speaks_not = kAbsent;
  third.options.note = folder / "port_mapping";
  third.upnp.objects = only_for_good;
  third.run([&](PortMapping& mapping) -> Task<> {
    co_await third.sleep(3s);
    CHECK(std::filesystem::exists(third.options.note));
    co_await mapping.remove();
    CHECK(third.upnp.table.empty());
    CHECK_FALSE(std::filesystem::exists(third.options.note));
  });

  Home deaf;  // it may have been made, though nobody says so
  deaf.natpmp.speaks_not = kAbsent;
  deaf.options.note = folder / "port_mapping";
  deaf.upnp.objects = [&](const MapRequest& wish) {
    if (wish.lease_s != 0) deaf.upnp.takes = 1h;  // from now on
    return only_for_good(wish);
  };
  deaf.run([&](PortMapping& mapping) -> Task<> {
    co_await deaf.sleep(9s);
    CHECK(mapping.status().phase == Phase::refused);
    CHECK(std::filesystem::exists(deaf.options.note));
  });

  Home homeless;
  homeless.natpmp.speaks_not = kAbsent;
  homeless.upnp.objects = only_for_good;
  homeless.run([&](PortMapping& mapping) -> Task<> {
    co_await homeless.sleep(5s);
    CHECK(mapping.status().phase == Phase::refused);
    CHECK(homeless.upnp.table.empty());
  });
}

TEST_CASE("port mapping: a damaged note promises nothing and stops nobody") {
  const test::TempFolder folder;
  for (const std::string& text : {std::string("nonsense"), std::string("collab-port-mapping-v1 0 4600\n"),
                                  std::string("collab-port-mapping-v1 99999 1\n"), std::string(5000, 'x')}) {
    CAPTURE(text.substr(0, 40));
    Home home;
    home.options.note = folder / "port_mapping";
    test::write(home.options.note, text);
    home.run([&](PortMapping& mapping) -> Task<> {
      co_await home.sleep(5s);
      CHECK(mapping.status().phase == Phase::mapped);
      CHECK(home.upnp.removed.empty());
    });
  }
}

TEST_CASE("port mapping: a router that restarts or is exchanged is asked again at once") {
  Home home;
  int changes = 0;
  home.run([&](PortMapping& mapping) -> Task<> {
    co_await home.sleep(30min - 1s);
    home.natpmp.restart();
    CHECK(home.natpmp.live() == 0);
    co_await home.sleep(2min + 2s);
    CHECK(home.natpmp.live() == 1);
    home.natpmp.restart();  // as another one, at another address
    home.router = "10.0.0.138";
    co_await home.sleep(6s);
    CHECK(home.natpmp.live() == 1);
    CHECK(mapping.status().mapping->router == "10.0.0.138");
    home.router.reset();
    co_await home.sleep(6s);
    CHECK(mapping.status().phase == Phase::no_router);
    CHECK_FALSE(mapping.status().mapping.has_value());
    home.router = "10.0.0.138";
    co_await home.sleep(6s);
    CHECK(mapping.status().phase == Phase::mapped);
    ++changes;
  });
  CHECK(changes == 1);
  Home without_epoch;
  without_epoch.natpmp.speaks_not = kAbsent;
  without_epoch.run([&](PortMapping& mapping) -> Task<> {
    co_await without_epoch.sleep(10min);
    without_epoch.upnp.restart();
    co_await without_epoch.sleep(125s);
    CHECK(mapping.status().phase == Phase::mapped);
    CHECK(without_epoch.upnp.live() == 1);
  });
}

TEST_CASE("port mapping: a renewal that fails is tried again while the lease lasts, then the mapping is lost") {
  Home home;
  home.upnp.speaks_not = kAbsent;
  home.run([&](PortMapping& mapping) -> Task<> {
    co_await home.sleep(10s);
    home.natpmp.takes = home.natpmp.finds = 1h;
    co_await home.sleep(50min);
    CHECK(mapping.status().phase == Phase::mapped);
    home.natpmp.takes = home.natpmp.finds = 5ms;
    co_await home.sleep(9min);
    CHECK(home.natpmp.live() == 1);
    home.natpmp.takes = home.natpmp.finds = 1h;
    co_await home.sleep(65min);
    CHECK(mapping.status().phase == Phase::refused);
    CHECK_FALSE(mapping.status().mapping.has_value());
  });
}

TEST_CASE("port mapping: without a private router, or a port, nobody is asked") {
  Home home;
  home.router.reset();
  home.run([&](PortMapping& mapping) -> Task<> {
    co_await home.sleep(1min);
    CHECK(mapping.status().phase == Phase::no_router);
  });
  Home deaf;
  deaf.options.port = 0;
  deaf.run([&](PortMapping& mapping) -> Task<> {
    co_await deaf.sleep(1min);
    CHECK(mapping.status().phase == Phase::off);
  });
  CHECK(home.natpmp.wishes.empty());
  CHECK(deaf.natpmp.wishes.empty());
}

TEST_CASE(
    "port mapping: answers that no correct router gives are refused, and a lease is never longer than asked for") {
  CHECK_FALSE(after([](MapReply& reply) { reply.inside_port = 4601; }));
  CHECK_FALSE(after([](MapReply& reply) { reply.outside_port = 0; }));
  CHECK_FALSE(after([](MapReply& reply) { reply.outside_port = 22; }));
  CHECK_FALSE(after([](MapReply& reply) { reply.lease_s = 0; }));
  CHECK(after([](MapReply& reply) { reply.lease_s = 0xffffffff; })->lease_s == 3600);
  CHECK(after([](MapReply& reply) { reply.outside_port = 18739; })->outside_port == 18739);
  Home brief;  // a lease of one second is renewed every second, not in a busy loop
  brief.natpmp.distorts = [](MapReply& reply) { reply.lease_s = 1; };
  brief.run([&](PortMapping&) -> Task<> { co_await brief.sleep(1min); });
  CHECK(brief.natpmp.wishes.size() > 30);
  CHECK(brief.natpmp.wishes.size() < 70);
  for (const char* host : {"", "0.0.0.0", "255.255.255.255", "no address", "1.2.3.4.5", "::1"}) {
    CAPTURE(host);
    Home home;
    home.natpmp.outside = host;
    home.run([&](PortMapping& mapping) -> Task<> {
      co_await home.sleep(1s);
      REQUIRE(mapping.status().mapping.has_value());  // a dial-back judges whether it leads anywhere
      CHECK(mapping.status().mapping->outside_host.empty());
    });
  }
}

TEST_CASE("port mapping: a second NAT shows by an outside address that is private, or not what others see") {
  Mapping mapping;
  mapping.outside_host = "11.99.0.11";
  CHECK_FALSE(second_nat(mapping, "11.99.0.11"));
  CHECK_FALSE(second_nat(mapping, ""));
  CHECK_FALSE(second_nat(mapping, "2a10:99::7"));
  CHECK_FALSE(second_nat(mapping, "192.168.1.7"));  // as somebody of the same network sees us
  CHECK(second_nat(mapping, "11.99.0.12").value().find("others see 11.99.0.12") != std::string::npos);
  for (const char* inside : {"10.1.2.3", "100.64.0.7", "192.168.0.2", "172.31.0.1"}) {
    mapping.outside_host = inside;
    CHECK(second_nat(mapping, "11.99.0.11").value().find("second NAT") != std::string::npos);
  }
  mapping.outside_host.clear();
  CHECK_FALSE(second_nat(mapping, "11.99.0.11"));
}

TEST_CASE("port mapping: a router has restarted when it has lived less than seven eighths of what it should") {
  CHECK_FALSE(has_restarted(1000, 100s, 1100));
  CHECK_FALSE(has_restarted(1000, 800s, 1700));  // its clock is slow
  CHECK(has_restarted(1000, 800s, 1690));
  CHECK(has_restarted(1000, 1s, 0));
  CHECK_FALSE(has_restarted(0, 1s, 0));
  CHECK_FALSE(has_restarted(0xfffffff0U, 1s, 0xffffffffU));
}

TEST_CASE("addresses: what is public, what is private, and what is neither") {
  for (const char* host : {"11.99.0.1", "8.8.8.8", "172.32.0.1", "100.128.0.1", "2a10:99::1", "::ffff:8.8.8.8"})
    CHECK_MESSAGE(is_public(host), host);
  for (const char* host : {"10.0.0.1", "100.64.0.1", "172.16.0.1", "192.168.255.1", "169.254.1.1"}) {
    CHECK_MESSAGE(is_private_v4(host), host);
    CHECK_MESSAGE(!is_public(host), host);
  }
  for (const char* host :
       {"", "nonsense", "0.1.2.3", "127.0.0.1", "192.0.0.9", "192.0.2.1", "198.19.0.1", "198.51.100.1", "203.0.113.1",
        "224.0.0.1", "255.255.255.255", "::1", "fe80::1", "fd00::1", "2001:db8::1"}) {
    CHECK_MESSAGE(!is_public(host), host);
    CHECK_MESSAGE(!is_private_v4(host), host);
  }
  CHECK(is_private_v4("::ffff:10.0.0.1"));
}

TEST_CASE("route: the router of the best default route, from what the kernel prints") {
  const std::string heading = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";
  const std::string wired = "eth0\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n";
  const std::string radio = "wlan0\t00000000\t8A00000A\t0003\t0\t0\t600\t00000000\t0\t0\t0\n";
  const std::string own = "eth0\t0001A8C0\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n";
  CHECK(parse_default_router(heading + own + radio + wired) == "192.168.1.1");
  CHECK(parse_default_router(heading + radio) == "10.0.0.138");
  CHECK_FALSE(parse_default_router(heading + own));
  CHECK_FALSE(parse_default_router("eth0\t00000000\t00000000\t0001\t0\t0\t0\t00000000\n"));
  CHECK_FALSE(parse_default_router(""));
  CHECK_FALSE(parse_default_router(heading + "eth0\tzz\n\n\x01\xff garbage"));
}

TEST_CASE("worker thread: who waits goes on at the deadline, and one that hangs is let go") {
  asio::io_context loop;
  RealClock clock(loop.get_executor());
  struct Hung {
    std::promise<void> let_on, over;
  };
  const auto hung = std::make_shared<Hung>();
  auto over = hung->over.get_future();
  {
    auto thread = std::make_unique<WorkerThread>(loop.get_executor());
    const auto scenario = [&]() -> Task<> {
      const std::function<int()> quick = [] { return 7; };
      CHECK((co_await thread->ask(clock, clock.now() + 5s, quick)) == 7);
      const std::function<int()> hangs = [hung] {
        hung->let_on.get_future().wait();
        hung->over.set_value();
        return 8;
      };
      CHECK_FALSE((co_await thread->ask(clock, clock.now() + 5ms, hangs)).has_value());
      CHECK_FALSE((co_await thread->ask(clock, clock.now() + 5ms, quick)).has_value());  // behind the other
      thread.reset();
    };
    TaskGroup tasks(loop.get_executor(), rethrow);
    tasks.spawn("scenario", scenario());
    loop.run();  // ends, although it still hangs
  }
  hung->let_on.set_value();
  over.wait();  // it has not touched what is gone
}

}  // namespace collab::nat
