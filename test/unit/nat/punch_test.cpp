#include "nat/punch.hpp"

#include "base/frame.hpp"
#include "nat/circuit_network.hpp"
#include "nat/relay_server.hpp"
#include "net/peer_endpoint.hpp"
#include "sim/network.hpp"
#include "support/sim_node.hpp"

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/doctest.hpp"

namespace collab::nat {
namespace {

using namespace std::chrono_literals;

constexpr std::uint16_t kPunchPort = 4600;

/// Behind a firewall, or a box, nobody can dial it.
struct Site {
  sim::NatBox* box = nullptr;
  std::optional<sim::NatOptions> firewall = {};
  bool v6 = false;
  bool hidden() const { return box != nullptr || firewall; }
  std::string address(unsigned char number) const {
    return v6 ? "2a10:" + std::to_string(number) + "::7" : "198.51." + std::to_string(number) + ".7";
  }
};

/// A node as far as circuits and holes are concerned. Who is not hidden relays and observes.
class PunchNode {
 public:
  PunchNode(sim::Simulation& world, sim::SimNetwork& network, unsigned char number, Site site = {},
            Puncher::Options options = {}, bool punches = true)
      : host_(network.add_host(site.address(number))),
        identity_(test::identity_of(number)),
        access_(Access::Options()),
        circuits({world.executor(), host_.clock(), Random(number), log_, host_}, {}),
        endpoint({world.executor(), host_.clock(), circuits, Random(number), log_, metrics, identity_, access_},
                 options_of(host_.address())),
        tasks_(world.executor(), rethrow),
        hidden_(site.hidden()) {
    if (site.box != nullptr) network.put_behind(host_, *site.box);
    if (site.firewall) network.add_firewall(host_, *site.firewall);
    circuits.use(endpoint, [](const PeerId&) { return true; });
    const auto host_of = [this](const PeerId& peer) -> std::optional<std::string> {
      if (!says_host.empty()) return says_host;
      const auto remote = endpoint.remote_of(peer);
      return remote ? std::optional(remote->host) : std::nullopt;
    };
    RelayServer::Needs serving{world.executor(), endpoint,          host_.clock(), log_,
                               metrics,          circuits.topics(), host_of,       [this] { return !hidden_; }};
    relay = std::make_unique<RelayServer>(std::move(serving), RelayServer::Options());
    const auto told = [this] { return observers; };
    const auto only_dials = [this] { return hidden_; };
    MappingProbe::Needs measuring{world.executor(), endpoint, host_, host_.clock(),
                                  Random(number),   log_,     told,  only_dials};
    mapping = std::make_unique<MappingProbe>(std::move(measuring), MappingProbe::Options());
    if (punches) make_puncher(world, Random(number), told, only_dials, options);
    for (const auto& [name, traffic] :
         {std::pair("test.echo", net::TrafficClass::latency), std::pair("test.bulk", net::TrafficClass::bulk)}) {
      net::Method echo;
      echo.name = name;
      echo.traffic = traffic;
      endpoint.handle(echo, [](PeerId, Frame request, TimePoint) -> Task<net::Answer> { co_return request; });
    }
  }

  void start() {
    endpoint.listen();
    tasks_.spawn("endpoint", endpoint.run());
    tasks_.spawn("circuits", circuits.run());
    tasks_.spawn("relay", relay->run());
    tasks_.spawn("mapping", mapping->run());
    if (puncher) tasks_.spawn("punch", puncher->run());
  }
  Task<> stop() { return tasks_.stop(); }

  const PeerId& id() const { return identity_.id(); }
  Clock& clock() { return host_.clock(); }
  sim::Host& host() { return host_; }
  TimePoint in(Duration time) { return clock().now() + time; }
  net::Address address() const { return net::Address{host_.address(), kPunchPort}; }
  net::LinkState link(const PunchNode& other) const { return endpoint.link(other.id()); }
  void knows(const PunchNode& other) { endpoint.introduce(other.id(), std::vector<net::Address>(1, other.address())); }
  /// Its way to `other` leads through `by`.
  void knows_by(const PunchNode& by, const PunchNode& other) {
    knows(by);
    const net::Address at{by.host_.address(), kPunchPort, net::Leg::relay, by.id()};
    endpoint.introduce_relays(other.id(), std::vector<net::Address>(1, at));
  }
  Task<bool> reserves_at(PunchNode& other) {
    knows(other);
    const Frame ask = frame::encode(wire::RelayHeader(wire::Reserve()));
    const auto answer = co_await endpoint.call(other.id(), "relay.reserve", ask, in(5s));
    co_return answer.has_value();
  }
  Task<bool> calls(const PunchNode& other, std::string_view method = "test.echo") {
    const Frame question = test::filled_frame(100);
    const auto answer = co_await endpoint.call(other.id(), method, question, in(5s));
    co_return answer.has_value();
  }
  /// An Ask that names these addresses.
  Task<net::Answer> asks(const PunchNode& other, std::vector<std::string> addresses,
                         MappingKind kind = MappingKind::independent) {
    wire::Ask ask;
    ask.attempt = ++attempts_;
    ask.addresses = std::move(addresses);
    ask.mapping = static_cast<std::uint8_t>(kind);
    const Frame request = frame::encode(wire::PunchHeader(std::move(ask)));
    co_return co_await endpoint.call(other.id(), "punch.connect", request, in(10s));
  }
  double punches(const std::string& result) const {
    return metrics.value("collab_punches_total", {{"result", result}});
  }

 private:
  static net::EndpointOptions options_of(const std::string& host) {
    net::EndpointOptions options;
    options.run = "test";
    options.listen.push_back(net::Address{host, kPunchPort});
    options.listen.push_back(circuits_come_in());
    return options;
  }
  void make_puncher(sim::Simulation& world, Random random, std::function<std::vector<Observer>()> told,
                    std::function<bool()> only_dials, const Puncher::Options& options) {
    Puncher::Needs needs{world.executor(),
                         endpoint,
                         host_,
                         host_.clock(),
                         random,
                         log_,
                         metrics,
                         told,
                         [this] { return mapping->finding().kind; },
                         std::move(only_dials)};
    puncher = std::make_unique<Puncher>(std::move(needs), options);
  }

  sim::Host& host_;
  Identity identity_;
  Access access_;
  Log log_;
  std::uint64_t attempts_ = 0;

 public:
  std::vector<Observer> observers;
  std::string says_host;  ///< of a relay that lies about where everybody comes from
  Metrics metrics;
  CircuitNetwork circuits;
  net::PeerEndpoint endpoint;
  std::unique_ptr<RelayServer> relay;
  std::unique_ptr<MappingProbe> mapping;
  std::unique_ptr<Puncher> puncher;

 private:
  TaskGroup tasks_;
  bool hidden_;
};

sim::NatOptions masquerade(sim::NatClosed closed = sim::NatClosed::drops) {
  sim::NatOptions options;
  options.closed = closed;
  return options;
}

sim::NatOptions random_ports() {
  sim::NatOptions options;
  options.mapping = sim::NatMapping::symmetric;
  return options;
}

enum class Who : std::uint8_t { both, low, high };

/// Two in public, and two behind boxes whom the first of those leads to each other.
struct Holes {
  explicit Holes(sim::NatOptions of_low = masquerade(), sim::NatOptions of_high = masquerade(), std::uint64_t seed = 1,
                 Who punches = Who::both, sim::LinkOptions links = {})
      : network(world, seed, links), relay(world, network, 1), second(world, network, 4) {
    add_pair({&network.add_box(of_low)}, {&network.add_box(of_high)}, punches);
  }
  /// The same in IPv6, where firewalls translate nothing.
  struct V6 {
    sim::NatClosed low = sim::NatClosed::drops;
    sim::NatClosed high = sim::NatClosed::drops;
  };
  Holes(V6 closed, std::uint64_t seed)
      : network(world, seed, {}), relay(world, network, 1, open_v6()), second(world, network, 4, open_v6()) {
    const auto behind = [](sim::NatClosed how) { return Site{nullptr, masquerade(how), true}; };
    add_pair(behind(closed.low), behind(closed.high), Who::both);
  }
  void run(std::function<Task<>()> scenario) {
    const auto all = [&]() -> Task<> {
      for (PunchNode* node : {&relay, &second, low.get(), high.get()}) node->start();
      co_await scenario();
      for (PunchNode* node : {low.get(), high.get(), &second, &relay}) co_await node->stop();
      network.stop();
    };
    world.run(all());
  }
  /// A circuit from one to the other, both knowing how they are seen in IPv4.
  Task<> meet() {
    REQUIRE(co_await high->reserves_at(relay));
    const auto measured = [&] {
      return low->mapping->finding().kind != MappingKind::unknown &&
             high->mapping->finding().kind != MappingKind::unknown;
    };
    co_await until(measured, 20s);
    REQUIRE(measured());
    co_await call();
  }
  Task<> call() {
    for (PunchNode* node : {low.get(), high.get()})
      if (node->puncher) node->puncher->look_again();
    low->knows_by(relay, *high);
    REQUIRE(co_await low->calls(*high));
  }
  Task<> sleep(Duration time) { return world.clock().sleep_until(world.clock().now() + time); }
  Task<Duration> until(std::function<bool()> condition, Duration time) {
    const TimePoint began = world.clock().now();
    while (!condition() && world.clock().now() < began + time) co_await sleep(10ms);
    co_return world.clock().now() - began;
  }
  Task<Duration> until_direct(Duration time) {
    return until([this] { return direct(); }, time);
  }
  bool direct() const {
    const net::LinkState there = low->link(*high);
    const net::LinkState back = high->link(*low);
    return there.connected && !there.circuit && back.connected && !back.circuit;
  }

  static Site open_v6() { return Site{nullptr, {}, true}; }
  void add_pair(Site of_low, Site of_high, Who punches) {
    const bool ordered = test::identity_of(2).id() < test::identity_of(3).id();
    const auto number = [&](bool lower) { return static_cast<unsigned char>(lower == ordered ? 2 : 3); };
    low = std::make_unique<PunchNode>(world, network, number(true), std::move(of_low), Puncher::Options(),
                                      punches != Who::high);
    high = std::make_unique<PunchNode>(world, network, number(false), std::move(of_high), Puncher::Options(),
                                       punches != Who::low);
    for (PunchNode* node : {low.get(), high.get()})
      for (PunchNode* open : {&relay, &second}) node->observers.push_back(Observer{open->id(), open->address()});
  }

  sim::Simulation world;
  sim::SimNetwork network;
  PunchNode relay;
  PunchNode second;
  std::unique_ptr<PunchNode> low;
  std::unique_ptr<PunchNode> high;
};

}  // namespace

TEST_CASE("punch: of the addresses that a peer names only its own and public ones are dialled") {
  const std::vector<std::string> named = {"198.51.0.9:2000", "198.51.0.8:2000",
                                          "198.51.0.9:22",   "198.51.0.9:443",
                                          "nonsense",        "wss://198.51.0.9:2000/collab/v1",
                                          "198.51.0.9:1",    ""};
  const auto may = punchable_addresses(named, "198.51.0.9");
  REQUIRE(may.size() == 2);
  CHECK(may[0].port == 2000);
  CHECK(may[1].port == 443);
  CHECK(punchable_addresses({"10.1.2.3:2000"}, "10.1.2.3").empty());
  CHECK(punchable_addresses({"127.0.0.1:2000"}, "127.0.0.1").empty());
  CHECK(punchable_addresses({"100.64.0.1:2000"}, "100.64.0.1").empty());
  CHECK(punchable_addresses({"[2a10::1]:2000", "[2a10::2]:2000"}, "2a10::1").size() == 1);
  CHECK(punchable_addresses({"[fd00::1]:2000"}, "fd00::1").empty());
  CHECK(punchable_addresses({"[fe80::1]:2000"}, "fe80::1").empty());
  CHECK(punchable_addresses({"[::ffff:10.1.2.3]:2000"}, "::ffff:10.1.2.3").empty());
  CHECK(punchable_addresses(std::vector<std::string>(9, "198.51.0.9:2000"), "198.51.0.9").size() == 1);
  std::vector<std::string> many;
  for (int port = 2000; port < 2009; ++port) many.push_back("198.51.0.9:" + std::to_string(port));
  CHECK(punchable_addresses(many, "198.51.0.9").size() == 4);
  CHECK(punchable_addresses(many, "198.51.0.9", 2).size() == 2);
}

TEST_CASE("mapping: two observers tell whether the outside port depends on whom one dials") {
  sim::NatOptions by_address;
  by_address.mapping = sim::NatMapping::address_dependent;
  const std::pair<sim::NatOptions, MappingKind> kinds[] = {{masquerade(), MappingKind::independent},
                                                           {by_address, MappingKind::dependent},
                                                           {random_ports(), MappingKind::dependent}};
  for (const auto& [options, kind] : kinds) {
    CAPTURE(name(kind));
    Holes holes(options);
    holes.run([&, kind = kind]() -> Task<> {
      co_await holes.sleep(2s);
      CHECK(holes.low->mapping->finding().kind == kind);
      CHECK_FALSE(holes.low->mapping->finding().weak);
      CHECK(holes.relay.mapping->finding().kind == MappingKind::unknown);  // who can be dialled does not ask
      holes.low->observers.resize(1);
      holes.low->mapping->doubt();
      co_await holes.sleep(2s);
      CHECK(holes.low->mapping->finding().kind == MappingKind::unknown);
    });
  }
}

TEST_CASE("mapping: who is seen as he is has no translator, and one observer is not two") {
  Holes holes;
  PunchNode third(holes.world, holes.network, 5);
  holes.run([&]() -> Task<> {
    third.start();
    third.observers.push_back(Observer{holes.second.id(), holes.second.address()});
    CHECK((co_await third.mapping->measure()).kind == MappingKind::unknown);
    third.observers.push_back(Observer{holes.relay.id(), holes.relay.address()});
    CHECK((co_await third.mapping->measure()).kind == MappingKind::none);
    third.observers.back().peer = holes.low->id();  // somebody else is there
    CHECK((co_await third.mapping->measure()).kind == MappingKind::unknown);
    co_await third.stop();
  });
}

TEST_CASE("punch: behind routers that keep one outside port two get through, whatever the routers say to strangers") {
  constexpr int kTries = 50;
  using Closed = sim::NatClosed;
  for (const auto& [of_low, of_high] :
       {std::pair(Closed::drops, Closed::drops), std::pair(Closed::resets, Closed::resets),
        std::pair(Closed::drops, Closed::resets)}) {
    int punched = 0;
    Duration longest{};
    for (int seed = 1; seed <= kTries; ++seed) {
      Holes holes(masquerade(of_low), masquerade(of_high), static_cast<std::uint64_t>(seed));
      holes.run([&]() -> Task<> {
        co_await holes.meet();
        const Duration took = co_await holes.until_direct(12s);
        if (holes.direct()) ++punched;
        longest = std::max(longest, took);
      });
    }
    CAPTURE(to_seconds(longest));
    CHECK(punched == kTries);
    CHECK(longest < 10s);
  }
}

TEST_CASE("punch: behind firewalls of IPv6 two get through, with nothing measured before") {
  using Closed = sim::NatClosed;
  for (const Holes::V6 closed : {Holes::V6{Closed::drops, Closed::drops}, Holes::V6{Closed::resets, Closed::resets},
                                 Holes::V6{Closed::drops, Closed::resets}}) {
    int punched = 0;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      Holes holes(closed, seed);
      holes.run([&]() -> Task<> {
        REQUIRE(co_await holes.high->reserves_at(holes.relay));
        co_await holes.call();
        co_await holes.until_direct(12s);
        if (holes.direct()) ++punched;
        CHECK(holes.low->mapping->finding().kind == MappingKind::unknown);
      });
    }
    CHECK(punched == 20);
  }
}

TEST_CASE("punch: in one town, where a refusal comes back in a fifth of a millisecond, two get through as well") {
  sim::LinkOptions near;
  near.latency_min = near.latency_max = std::chrono::microseconds(100);
  int punched = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Holes holes(masquerade(sim::NatClosed::resets), masquerade(sim::NatClosed::resets), seed, Who::both, near);
    holes.run([&]() -> Task<> {
      co_await holes.meet();
      co_await holes.until_direct(12s);
      if (holes.direct()) ++punched;
    });
  }
  CHECK(punched == 20);
}

TEST_CASE("punch: what wins is a connection as any other, but for what it says of who can be dialled") {
  Holes holes;
  holes.run([&]() -> Task<> {
    co_await holes.meet();
    CHECK_FALSE(co_await holes.low->calls(*holes.high, "test.bulk"));
    CHECK(co_await holes.until_direct(10s) < 5s);
    for (const auto& [from, to] :
         {std::pair(holes.low.get(), holes.high.get()), std::pair(holes.high.get(), holes.low.get())}) {
      const net::LinkState link = from->link(*to);
      CHECK(link.path == "tcp, punched");
      CHECK_FALSE(link.dialled);  // nobody else can dial it
      CHECK(from->endpoint.can_reach(to->id()));
      CHECK_FALSE(from->endpoint.remote_of(to->id()));
      CHECK(co_await from->calls(*to, "test.bulk"));
      CHECK(from->puncher->going_on() == 0);
      CHECK(from->endpoint.way_out() == "tcp");
    }
    const auto drained = [&] { return holes.relay.relay->circuits() == 0; };
    CHECK(co_await holes.until(drained, 10s) < 8s);
    CHECK(holes.direct());
    CHECK(holes.low->punches("punched") == 1);
    CHECK(holes.high->punches("punched") == 1);
    holes.network.cut(holes.low->host(), holes.high->host());
    co_await holes.sleep(1s);
    CHECK_FALSE(holes.low->endpoint.can_reach(holes.high->id()));  // a hole is no address
    CHECK(co_await holes.low->calls(*holes.high));                 // by the relay, as before
    CHECK(co_await holes.until_direct(10s) < 5s);
  });
}

TEST_CASE("punch: where one router gives each destination another port none is tried, and the circuit stays") {
  for (const bool low_is_random : {false, true}) {
    CAPTURE(low_is_random);
    Holes holes(low_is_random ? random_ports() : masquerade(), low_is_random ? masquerade() : random_ports());
    holes.run([&]() -> Task<> {
      co_await holes.meet();
      co_await holes.sleep(30s);
      CHECK(holes.low->link(*holes.high).circuit);
      CHECK(co_await holes.low->calls(*holes.high));
      for (const PunchNode* node : {holes.low.get(), holes.high.get()}) {
        CHECK(node->punches("punched") == 0);
        CHECK(node->punches("failed") == 0);
      }
      CHECK(holes.low->punches("refused") == (low_is_random ? 0 : 1));
    });
  }
}

TEST_CASE("punch: a peer that does not know of it stays on its circuit, and is asked once in ten minutes") {
  Holes holes(masquerade(), masquerade(), 1, Who::low);
  holes.run([&]() -> Task<> {
    co_await holes.meet();
    for (int i = 0; i < 30; ++i) {
      CHECK(co_await holes.low->calls(*holes.high));
      co_await holes.sleep(1s);
    }
    CHECK(holes.low->link(*holes.high).circuit);
    CHECK(holes.low->punches("refused") == 1);
  });
}

namespace {

Task<net::Answer> say_nothing(wire::Ask) {
  co_return Refusal(Errc::gone);
}

/// Says what a test says in place of a puncher; `say_nothing`: it only asks.
void answer_with(PunchNode& node, std::function<Task<net::Answer>(wire::Ask)> answer) {
  const auto handler = [answer = std::move(answer)](PeerId, Frame request, TimePoint) -> Task<net::Answer> {
    const auto message = frame::decode<wire::PunchHeader>(*request);
    auto answering = answer(std::get<wire::Ask>(message->header));
    co_return co_await std::move(answering);
  };
  node.endpoint.handle(punch_method("punch.connect"), handler);
}

}  // namespace

TEST_CASE("punch: nobody is dialled for a liar's word, whether he asks or answers") {
  Holes holes(masquerade(), masquerade(), 1, Who::low);
  PunchNode victim(holes.world, holes.network, 9);
  const std::string there = net::to_string(victim.address());
  const auto lie = [&](wire::Ask) -> Task<net::Answer> {
    wire::Ready ready;
    ready.addresses.push_back(there);
    ready.mapping = static_cast<std::uint8_t>(MappingKind::independent);
    co_return frame::encode(wire::PunchHeader(ready));
  };
  answer_with(*holes.high, lie);
  holes.run([&]() -> Task<> {
    victim.start();
    co_await holes.meet();
    co_await holes.sleep(10s);
    CHECK(holes.low->link(*holes.high).circuit);
    CHECK(holes.low->punches("refused") == 1);
    CHECK(holes.low->punches("failed") == 0);
    CHECK(victim.metrics.value("collab_refused_total", {{"reason", "handshake"}}) == 0);
    CHECK(victim.endpoint.connected().empty());
    co_await victim.stop();
  });
}

TEST_CASE("punch: who asks for somebody else to be dialled is refused, and so is who may not begin") {
  Holes holes(masquerade(), masquerade(), 1, Who::high);
  PunchNode victim(holes.world, holes.network, 9);
  answer_with(*holes.low, say_nothing);
  holes.run([&]() -> Task<> {
    victim.start();
    co_await holes.meet();
    const std::string own = holes.low->host().box()->outside();
    PunchNode& low = *holes.low;
    const auto refused = [&](std::vector<std::string> named,
                             MappingKind kind = MappingKind::independent) -> Task<Refusal> {
      const auto answer = co_await low.asks(*holes.high, std::move(named), kind);
      co_return answer ? Refusal(Errc::stale, "granted") : answer.error();
    };
    const std::vector<std::string> fine(1, own + ":2000");
    const std::vector<std::string> none;
    CHECK((co_await refused(none)).code == Errc::bad_request);
    const std::vector<std::string> many(5, own + ":2000");
    CHECK((co_await refused(many)).code == Errc::bad_request);
    const std::vector<std::string> over_long(1, std::string(65, '1'));
    CHECK((co_await refused(over_long)).code == Errc::bad_request);
    for (const MappingKind kind : {MappingKind::dependent, MappingKind::unknown, static_cast<MappingKind>(99)})
      CHECK((co_await refused(fine, kind)).code == Errc::denied);
    co_await holes.sleep(10s);  // the method's own rate
    for (const std::string& foreign : {net::to_string(victim.address()), own + ":22", std::string("10.1.2.3:2000")}) {
      const std::vector<std::string> named(1, foreign);
      CHECK((co_await refused(named)).reason == "none of these addresses is yours");
    }
    CHECK((co_await refused(fine)).reason == "that was tried in vain");
    CHECK((co_await holes.high->asks(low, fine)).error().code == Errc::gone);
    CHECK((co_await victim.asks(holes.relay, fine)).error().code == Errc::gone);
    co_await holes.sleep(5s);
    CHECK(victim.endpoint.connected().empty());
    CHECK(holes.high->puncher->going_on() == 0);
    co_await victim.stop();
  });
}

TEST_CASE("punch: who does not know yet how it is seen is asked again") {
  Holes holes;
  holes.run([&]() -> Task<> {
    const auto known = holes.high->observers;
    holes.high->observers.clear();
    holes.high->mapping->doubt();
    co_await holes.sleep(2s);
    REQUIRE(co_await holes.high->reserves_at(holes.relay));
    holes.low->puncher->look_again();
    holes.high->puncher->look_again();
    holes.low->knows_by(holes.relay, *holes.high);
    REQUIRE(co_await holes.low->calls(*holes.high));
    co_await holes.sleep(20s);
    CHECK_FALSE(holes.direct());
    holes.high->observers = known;
    holes.high->mapping->doubt();
    CHECK(co_await holes.until_direct(60s) < 20s);
    CHECK(holes.low->punches("failed") + holes.low->punches("refused") == 0);
  });
}

TEST_CASE("punch: a flood of questions is bounded, at once and in a minute") {
  Holes holes(masquerade(), masquerade(), 1, Who::high);
  std::vector<std::unique_ptr<PunchNode>> crowd;
  for (unsigned char number = 20; crowd.size() < 12; ++number)
    if (test::identity_of(number).id() < holes.high->id())
      crowd.push_back(std::make_unique<PunchNode>(
          holes.world, holes.network, number, Site{&holes.network.add_box(masquerade())}, Puncher::Options(), false));
  for (const auto& node : crowd) answer_with(*node, say_nothing);
  holes.run([&]() -> Task<> {
    co_await holes.meet();
    for (const auto& node : crowd) {
      node->start();
      node->knows_by(holes.relay, *holes.high);
      CHECK(co_await node->calls(*holes.high));
    }
    std::size_t granted = 0;
    std::size_t busy = 0;
    std::size_t most = 0;
    TaskGroup tasks(holes.world.executor(), rethrow);
    const auto ask = [&](PunchNode& node) -> Task<> {
      const std::vector<std::string> own(1, node.host().box()->outside() + ":2000");
      const auto answer = co_await node.asks(*holes.high, own);
      if (answer) ++granted;
      if (!answer && answer.error().code == Errc::busy) ++busy;
      most = std::max(most, holes.high->puncher->going_on());
    };
    for (const auto& node : crowd) tasks.spawn("ask", ask(*node));
    co_await tasks.join();
    CHECK(granted == 2);  // the other two places are for whom this node asks itself
    CHECK(busy == crowd.size() - 2);
    CHECK(most == 2);
    const auto given_up = [&] { return holes.high->puncher->going_on() == 0; };
    CHECK(co_await holes.until(given_up, 20s) < 10s);  // nobody said go
    for (int round = 0; round < 4; ++round) {
      for (const auto& node : crowd) co_await ask(*node);
      co_await holes.sleep(9s);
    }
    CHECK(granted <= 30);
    for (const auto& node : crowd) co_await node->stop();
  });
}

TEST_CASE("punch: a peer that never answers is given up after three tries, and its circuit goes on") {
  Holes holes(masquerade(), masquerade(), 1, Who::low);
  int asked = 0;
  answer_with(*holes.high, [&](wire::Ask) -> Task<net::Answer> {
    ++asked;
    co_await holes.sleep(60s);
    co_return Refusal(Errc::gone);
  });
  holes.run([&]() -> Task<> {
    co_await holes.meet();
    for (int i = 0; i < 60; ++i) {
      CHECK(co_await holes.low->calls(*holes.high));
      co_await holes.sleep(1s);
    }
    CHECK(holes.low->link(*holes.high).circuit);
    CHECK(asked == 3);
    CHECK(holes.low->punches("failed") == 3);
    CHECK(holes.low->puncher->going_on() == 0);
  });
}

TEST_CASE("punch: one that names its own address and never dials costs three times three seconds") {
  Holes holes(masquerade(), masquerade(), 1, Who::low);
  answer_with(*holes.high, [&](wire::Ask) -> Task<net::Answer> {
    wire::Ready ready;
    ready.addresses.push_back(holes.high->host().box()->outside() + ":2000");
    ready.mapping = static_cast<std::uint8_t>(MappingKind::independent);
    co_return frame::encode(wire::PunchHeader(ready));
  });
  holes.run([&]() -> Task<> {
    co_await holes.meet();
    const auto given_up = [&] { return holes.low->punches("failed") == 3; };
    CHECK(co_await holes.until(given_up, 60s) < 15s);
    CHECK(holes.low->link(*holes.high).circuit);
  });
}

TEST_CASE("punch: a relay tells where a peer comes from to the other end of a circuit, and to nobody else") {
  Holes holes(masquerade(), masquerade(), 1, Who::low);
  PunchNode stranger(holes.world, holes.network, 9);
  answer_with(*holes.high, say_nothing);
  holes.run([&]() -> Task<> {
    stranger.start();
    const auto whence = [&](PunchNode& asker, const PeerId& peer) -> Task<std::string> {
      wire::Whence question;
      question.peer = peer.key;
      const Frame request = frame::encode(wire::RelayHeader(question));
      const auto answer = co_await asker.endpoint.call(holes.relay.id(), "relay.whence", request, asker.in(5s));
      if (!answer) co_return std::string(net::name(answer.error().code));
      const auto message = frame::decode<wire::RelayHeader>(**answer);
      co_return std::get<wire::Comes>(message->header).host;
    };
    for (PunchNode* node : {&stranger, holes.low.get()}) node->knows(holes.relay);
    REQUIRE(co_await holes.high->reserves_at(holes.relay));
    CHECK((co_await whence(*holes.low, holes.high->id())) == "denied");
    co_await holes.meet();
    CHECK((co_await whence(*holes.low, holes.high->id())) == holes.high->host().box()->outside());
    CHECK((co_await whence(*holes.high, holes.low->id())) == holes.low->host().box()->outside());
    CHECK((co_await whence(stranger, holes.high->id())) == "denied");
    CHECK((co_await whence(*holes.high, holes.high->id())) == "denied");
    co_await stranger.stop();
  });
}

TEST_CASE("punch: a relay in league with a liar has few connections begun to a third one, and fewer greeted") {
  Holes holes(masquerade(), masquerade(), 1, Who::low);
  PunchNode victim(holes.world, holes.network, 9);
  answer_with(*holes.high, [&](wire::Ask) -> Task<net::Answer> {
    wire::Ready ready;
    ready.addresses = std::vector<std::string>(4, net::to_string(victim.address()));
    ready.mapping = static_cast<std::uint8_t>(MappingKind::independent);
    ready.prepared_ms = std::numeric_limits<std::uint32_t>::max();  // as if the way took no time
    co_return frame::encode(wire::PunchHeader(ready));
  });
  holes.relay.says_host = victim.address().host;
  holes.run([&]() -> Task<> {
    victim.start();
    co_await holes.meet();
    co_await holes.sleep(60s);
    CHECK(holes.low->punches("failed") == 3);
    CHECK(victim.metrics.value("collab_refused_total", {{"reason", "handshake"}}) == 3 * 2);
    CHECK(victim.endpoint.connected().empty());
    CHECK(holes.low->link(*holes.high).circuit);
    co_await victim.stop();
  });
}

TEST_CASE("punch: who is busy again and again is left alone as one that fails, and keeps nobody from his turn") {
  Holes holes(masquerade(), masquerade(), 1, Who::low);
  int asked = 0;
  answer_with(*holes.high, [&](wire::Ask) -> Task<net::Answer> {
    ++asked;
    co_return Refusal(Errc::busy, "always");
  });
  holes.run([&]() -> Task<> {
    co_await holes.meet();
    for (int i = 0; i < 590; ++i) {
      CHECK(co_await holes.low->calls(*holes.high));
      co_await holes.sleep(1s);
    }
    CHECK(asked == 9);
    CHECK(holes.low->punches("failed") + holes.low->punches("refused") == 0);
  });
}

TEST_CASE("punch: a node that stops in the middle leaves nothing behind, at any moment") {
  for (int ms = 0; ms <= 1500; ms += 50) {
    CAPTURE(ms);
    Holes holes(masquerade(), masquerade(sim::NatClosed::resets));
    holes.run([&]() -> Task<> {
      co_await holes.meet();
      co_await holes.sleep(std::chrono::milliseconds(ms));
      co_await holes.low->stop();
      CHECK(holes.low->puncher->going_on() == 0);
      co_await holes.sleep(30s);
      CHECK(holes.high->puncher->going_on() == 0);
      CHECK_FALSE(holes.high->link(*holes.low).connected);
    });
    CHECK(holes.network.streams() == 0);
  }
}

}  // namespace collab::nat
