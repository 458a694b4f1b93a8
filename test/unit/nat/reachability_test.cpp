#include "nat/reachability.hpp"

#include "base/frame.hpp"
#include "base/task_group.hpp"
#include "nat/dial_back.hpp"
#include "nat/wire.hpp"
#include "net/secure_channel.hpp"
#include "sim/network.hpp"
#include "support/message_network.hpp"

#include <functional>
#include <memory>

#include "support/doctest.hpp"

namespace collab::nat {
namespace {

using namespace std::chrono_literals;

/// Calls over a network of frames, with servers whose verdicts a test decides.
struct Swarm {
  Swarm() : network(simulation, 1), asker(network.add_peer(test::peer(1))) {}

  /// A dial-back server that answers `verdict`.
  void add_server(unsigned number, wire::Verdict verdict) {
    net::Endpoint& server = network.add_peer(test::peer(number));
    verdicts[number] = verdict;
    net::Method method;
    method.name = "nat.dial_back";
    const auto answer = [this, number](PeerId, Frame asking, TimePoint) -> Task<net::Answer> {
      ++asked;
      if (no_word) co_return Refusal(*no_word);
      if (at_once[number] >= DialBackServer::Options().of_peer_max) co_return Refusal(Errc::busy);
      const Knocking knocking(at_once[number]);
      const auto message = frame::decode<wire::Header>(*asking);
      const std::uint16_t port = std::get<wire::DialBack>(message->header).port;
      wire::DialledBack done;
      CHECK(std::get<wire::DialBack>(message->header).wss == (port == wss_port || port == mapped_web_port));
      done.verdict = static_cast<std::uint8_t>(port == mapped_port ? mapped_verdict : verdicts.at(number));
      const wire::Verdict at_web = mapped_web_port == 0 ? wire::Verdict::ok : wire::Verdict::refused;
      if (port == wss_port) done.verdict = static_cast<std::uint8_t>(at_web);
      if (port == mapped_web_port) done.verdict = static_cast<std::uint8_t>(wire::Verdict::ok);
      if (port == wss_port) co_await sleep(wss_silence);
      if (port != mapped_port && silence > Duration()) co_await sleep(silence);
      if (number == slow_server) co_await sleep(1s);
      done.host = "192.0.2." + std::to_string(lie ? 10 * number + hosts++ % 10 : 7);
      co_return frame::encode(wire::Header(done));
    };
    server.handle(method, answer);
    connected.push_back(test::peer(number));
  }
  void run(std::function<Task<>(Reachability&)> scenario) {
    Reachability::Options options;
    options.port = 4600;
    options.wss_port = wss_port;
    options.addresses_max = addresses_max;
    const auto who = [this] { return connected; };
    Reachability reachability(asker, simulation.clock(), Random(1), log, simulation.executor(), who, options);
    const auto all = [&]() -> Task<> {
      const auto body = [&](TaskGroup& tasks) -> Task<> {
        tasks.spawn("reachability", reachability.run());
        co_await scenario(reachability);
      };
      auto scope = task_scope(rethrow, body);
      co_await std::move(scope);
    };
    simulation.run(all());
  }
  Task<> sleep(Duration length) { return simulation.clock().sleep_until(simulation.clock().now() + length); }

  sim::Simulation simulation;
  test::MessageNetwork network;
  Log log;
  net::Endpoint& asker;
  std::vector<PeerId> connected;
  std::map<unsigned, wire::Verdict> verdicts;
  std::uint16_t mapped_port = 0;  ///< the outside one
  std::uint16_t wss_port = 0;
  std::uint16_t mapped_web_port = 0;  ///< only this one leads to it
  std::size_t addresses_max = 8;
  Duration wss_silence{};
  wire::Verdict mapped_verdict = wire::Verdict::ok;
  std::optional<Errc> no_word;  ///< instead of an answer
  unsigned slow_server = 0;
  Duration silence{};  ///< before a verdict about another port
  struct Knocking {
    explicit Knocking(std::size_t& number) : count(number) { ++count; }
    ~Knocking() { --count; }
    Knocking(const Knocking&) = delete;
    Knocking& operator=(const Knocking&) = delete;
    std::size_t& count;
  };
  std::map<unsigned, std::size_t> at_once;  ///< questions to a server, which takes no more than a real one
  bool lie = false;                         ///< another host in each answer
  unsigned hosts = 0;
  int asked = 0;
};

Judgement judged(std::size_t ok, std::size_t failed, std::size_t servers, Judgement before = {}) {
  Verdicts verdicts;
  verdicts.ok = ok;
  verdicts.failed = failed;
  verdicts.servers = servers;
  return judge(before, verdicts);
}

}  // namespace

TEST_CASE("reachability: three of three decide, fewer only weakly, and disagreement changes nothing") {
  const Judgement open{State::open, false};
  CHECK(judged(3, 0, 3) == open);
  CHECK(judged(0, 3, 3, open) == Judgement{State::outbound_only, false});
  CHECK(judged(1, 0, 1) == Judgement{State::open, true});
  Verdicts by_router;
  by_router.ok = by_router.servers = 3;
  by_router.mapped = true;
  CHECK(judge(Judgement(), by_router) == Judgement{State::mapped, false});
  CHECK(judged(0, 2, 2) == Judgement{State::outbound_only, true});
  CHECK(judged(1, 1, 2) == Judgement{State::open, true});
  CHECK(judged(0, 0, 2) == Judgement{State::unknown, true});
  CHECK(judged(1, 2, 3, open) == open);
  CHECK(judged(0, 2, 3, open) == open);
  CHECK(judged(2, 1, 3) == Judgement{State::open, true});
}

TEST_CASE("reachability: is known right after the first connection, and asked again when more can judge") {
  Swarm swarm;
  swarm.run([&](Reachability& reachability) -> Task<> {
    co_await swarm.sleep(3s);
    CHECK(reachability.state() == State::unknown);
    swarm.add_server(2, wire::Verdict::ok);
    co_await swarm.sleep(500ms);
    CHECK(reachability.state() == State::open);
    CHECK(reachability.weak());
    REQUIRE(reachability.addresses().size() == 1);
    CHECK(net::to_string(reachability.addresses().front()) == "192.0.2.7:4600");
    CHECK(reachability.confirmed_by() == swarm.connected);
    swarm.add_server(3, wire::Verdict::ok);
    swarm.add_server(4, wire::Verdict::ok);
    co_await swarm.sleep(3s);
    CHECK_FALSE(reachability.weak());
    CHECK(reachability.confirmed_by().size() == 3);
  });
}

TEST_CASE(
    "reachability: until the first verdict it counts as one that only dials, and so it does for its first second") {
  Swarm swarm;
  swarm.run([&](Reachability& reachability) -> Task<> {
    CHECK(reachability.counts_as_client());
    co_await swarm.sleep(500ms);
    CHECK(reachability.counts_as_client());  // somebody who judges may come
    co_await swarm.sleep(1s);
    CHECK_FALSE(reachability.counts_as_client());  // nobody does
    CHECK(reachability.state() == State::unknown);
  });
  Swarm behind;
  behind.silence = 5s;  // so long a router that drops all keeps a server waiting
  behind.add_server(2, wire::Verdict::timeout);
  behind.run([&](Reachability& reachability) -> Task<> {
    co_await behind.sleep(4s);
    CHECK(reachability.state() == State::unknown);
    CHECK(reachability.counts_as_client());
    co_await behind.sleep(2s);
    CHECK(reachability.state() == State::outbound_only);
    CHECK(reachability.counts_as_client());
  });
}

TEST_CASE(
    "reachability: a first question that is lost with its line, or one too many, is no verdict, and is asked again") {
  for (const Errc why : {Errc::gone, Errc::late, Errc::busy}) {
    Swarm swarm;
    swarm.no_word = why;
    swarm.add_server(2, wire::Verdict::timeout);
    swarm.run([&](Reachability& reachability) -> Task<> {
      co_await swarm.sleep(500ms);
      CHECK(reachability.counts_as_client());
      swarm.no_word.reset();
      co_await swarm.sleep(1500ms);
      CHECK(reachability.state() == State::outbound_only);
    });
  }
  Swarm cut_off;
  cut_off.no_word = Errc::gone;
  cut_off.add_server(2, wire::Verdict::ok);
  cut_off.run([&](Reachability& reachability) -> Task<> {
    co_await cut_off.sleep(3s);
    CHECK_FALSE(reachability.counts_as_client());  // who never answers judges nobody
  });
}

TEST_CASE("reachability: one that gets through is enough to count as dialled, however long another one takes") {
  Swarm swarm;
  swarm.mapped_port = 4610;
  swarm.silence = 5s;
  swarm.add_server(2, wire::Verdict::timeout);
  swarm.run([&](Reachability& reachability) -> Task<> {
    reachability.offer(4610);
    co_await swarm.sleep(1s);
    CHECK_FALSE(reachability.counts_as_client());
  });
}

TEST_CASE("reachability: falls when three servers fail to dial, at once when it is doubted, else within minutes") {
  Swarm swarm;
  for (unsigned i = 2; i < 5; ++i) swarm.add_server(i, wire::Verdict::ok);
  swarm.run([&](Reachability& reachability) -> Task<> {
    co_await swarm.sleep(1s);
    CHECK(reachability.state() == State::open);
    const int asked = swarm.asked;
    for (auto& [number, verdict] : swarm.verdicts) verdict = wire::Verdict::timeout;
    co_await swarm.sleep(7min);
    CHECK(swarm.asked == asked);  // nothing suggests a change
    reachability.doubt();
    co_await swarm.sleep(1s);
    CHECK(reachability.state() == State::outbound_only);
    CHECK(reachability.addresses().empty());
    co_await swarm.sleep(10s);
    CHECK(reachability.state() == State::outbound_only);
    for (auto& [number, verdict] : swarm.verdicts) verdict = wire::Verdict::ok;
    co_await swarm.sleep(13min);
    CHECK(reachability.state() == State::open);
  });
}

TEST_CASE("reachability: who fell is asked about once more in a moment: it may have slept while others tried") {
  Swarm swarm;
  for (unsigned i = 2; i < 5; ++i) swarm.add_server(i, wire::Verdict::ok);
  swarm.run([&](Reachability& reachability) -> Task<> {
    co_await swarm.sleep(1s);
    for (auto& [number, verdict] : swarm.verdicts) verdict = wire::Verdict::timeout;
    reachability.doubt();
    co_await swarm.sleep(1s);
    CHECK(reachability.state() == State::outbound_only);
    for (auto& [number, verdict] : swarm.verdicts) verdict = wire::Verdict::ok;
    co_await swarm.sleep(6s);
    CHECK(reachability.state() == State::open);
    const int asked = swarm.asked;
    co_await swarm.sleep(1min);
    CHECK(swarm.asked == asked);
  });
}

TEST_CASE("reachability: a mapped port is believed when others got through, and is then the address that counts") {
  Swarm swarm;
  for (unsigned i = 2; i < 5; ++i) swarm.add_server(i, wire::Verdict::refused);
  swarm.mapped_port = 18739;
  swarm.run([&](Reachability& reachability) -> Task<> {
    co_await swarm.sleep(1s);
    CHECK(reachability.state() == State::outbound_only);
    swarm.mapped_verdict = wire::Verdict::timeout;
    reachability.offer(18739);
    co_await swarm.sleep(1s);
    CHECK(reachability.state() == State::outbound_only);  // a promise is nothing
    CHECK(reachability.addresses().empty());
    swarm.mapped_verdict = wire::Verdict::ok;
    reachability.doubt();
    co_await swarm.sleep(1s);
    CHECK(reachability.state() == State::mapped);
    CHECK_FALSE(reachability.weak());
    REQUIRE(reachability.addresses().size() == 1);
    CHECK(net::to_string(reachability.addresses().front()) == "192.0.2.7:18739");
    CHECK(can_be_dialled(reachability.state()));
    reachability.offer(std::nullopt);  // the router has forgotten it
    co_await swarm.sleep(1s);
    CHECK(reachability.state() == State::outbound_only);
    CHECK(reachability.addresses().empty());
  });
}

TEST_CASE("reachability: a mapping that is promised while a firewall keeps silent is not waited for") {
  Swarm swarm;
  swarm.silence = 5s;
  for (unsigned i = 2; i < 5; ++i) swarm.add_server(i, wire::Verdict::timeout);
  swarm.mapped_port = 4601;
  swarm.run([&](Reachability& reachability) -> Task<> {
    co_await swarm.sleep(1s);
    CHECK(reachability.state() == State::unknown);
    reachability.offer(4601);
    co_await swarm.sleep(1s);
    CHECK(reachability.state() == State::mapped);
    const int asked = swarm.asked;
    co_await swarm.sleep(1min);
    CHECK(swarm.asked == asked);
  });
}

TEST_CASE("reachability: a router that lets a knock through before it has said that it maps has mapped all the same") {
  Swarm swarm;
  for (unsigned i = 2; i < 5; ++i) swarm.add_server(i, wire::Verdict::ok);
  swarm.slow_server = 4;
  swarm.run([&](Reachability& reachability) -> Task<> {
    co_await swarm.sleep(500ms);
    reachability.offer(4600);  // two have got through, the third has not answered
    co_await swarm.sleep(1s);
    CHECK(reachability.state() == State::mapped);
  });
}

TEST_CASE("reachability: who is dialled at its own port is open, and one port that is both is mapped") {
  for (const std::uint16_t outside : {std::uint16_t(4600), std::uint16_t(4601)}) {
    Swarm swarm;
    for (unsigned i = 2; i < 5; ++i) swarm.add_server(i, wire::Verdict::ok);
    swarm.run([&](Reachability& reachability) -> Task<> {
      reachability.offer(outside);
      co_await swarm.sleep(1s);
      CHECK(reachability.state() == (outside == 4600 ? State::mapped : State::open));
    });
  }
}

TEST_CASE(
    "reachability: a WebSocket's port is asked about by itself, and published behind the others when it is dialled") {
  for (const bool only_web : {false, true}) {
    Swarm swarm;
    swarm.wss_port = 443;
    swarm.wss_silence = 3s;
    for (unsigned i = 2; i < 5; ++i) swarm.add_server(i, only_web ? wire::Verdict::refused : wire::Verdict::ok);
    swarm.run([&](Reachability& reachability) -> Task<> {
      co_await swarm.sleep(1s);
      CHECK((reachability.state() == State::open) == !only_web);  // one port does not wait for the other
      co_await swarm.sleep(3s);
      CHECK(reachability.state() == State::open);
      const net::Address web{"192.0.2.7", 443, net::Leg::wss};
      std::vector<net::Address> all{{"192.0.2.7", 4600}, web};
      if (only_web) all.erase(all.begin());
      CHECK(reachability.addresses() == all);
    });
  }
}

TEST_CASE(
    "reachability: a WebSocket's port that a router maps is published once others got through, and alone will do") {
  for (const bool bare : {true, false}) {
    Swarm swarm;
    swarm.wss_port = 443;
    swarm.mapped_web_port = 9443;
    for (unsigned i = 2; i < 5; ++i) swarm.add_server(i, bare ? wire::Verdict::ok : wire::Verdict::refused);
    swarm.run([&](Reachability& reachability) -> Task<> {
      co_await swarm.sleep(1s);
      CHECK(reachability.state() == (bare ? State::open : State::outbound_only));
      CHECK(reachability.addresses().size() == (bare ? 1 : 0));
      reachability.offer_web(9443);
      co_await swarm.sleep(1s);
      CHECK(reachability.state() == (bare ? State::open : State::mapped));
      CHECK(reachability.addresses().back() == net::Address{"192.0.2.7", 9443, net::Leg::wss});
      reachability.offer_web(std::nullopt);
      co_await swarm.sleep(1s);
      CHECK(reachability.state() == (bare ? State::open : State::outbound_only));
      CHECK(reachability.addresses().size() == (bare ? 1 : 0));
    });
  }
}

TEST_CASE("reachability: servers that lie about hosts have few addresses published, a WebSocket's among them") {
  Swarm swarm;
  swarm.wss_port = 443;
  swarm.mapped_port = 4601;
  swarm.lie = true;
  for (unsigned i = 2; i < 5; ++i) swarm.add_server(i, wire::Verdict::ok);
  swarm.run([&](Reachability& reachability) -> Task<> {
    reachability.offer(4601);
    co_await swarm.sleep(1s);
    CHECK(swarm.hosts == 9);
    CHECK(reachability.addresses().size() == 8);
    CHECK(reachability.addresses().front().leg == net::Leg::tcp);
    CHECK(reachability.addresses().back().leg == net::Leg::wss);
  });
  Swarm few;
  few.wss_port = 443;
  few.lie = true;
  few.addresses_max = 3;
  for (unsigned i = 2; i < 5; ++i) few.add_server(i, wire::Verdict::ok);
  few.run([&](Reachability& reachability) -> Task<> {
    co_await few.sleep(1s);
    REQUIRE(reachability.addresses().size() == 3);
    CHECK(reachability.addresses()[1].leg == net::Leg::tcp);
    CHECK(reachability.addresses()[2].leg == net::Leg::wss);  // though three bare ones would do
  });
}

TEST_CASE("reachability: a WebSocket's port does not take the turn of a mapped one behind a silent router") {
  for (const Duration promised_after : {Duration(), Duration(2s)}) {
    Swarm swarm;
    swarm.wss_port = 443;
    swarm.silence = swarm.wss_silence = 5s;
    swarm.mapped_port = 4601;
    for (unsigned i = 2; i < 5; ++i) swarm.add_server(i, wire::Verdict::timeout);
    swarm.run([&](Reachability& reachability) -> Task<> {
      co_await swarm.sleep(500ms + promised_after);
      reachability.offer(4601);
      co_await swarm.sleep(1s);
      CHECK(reachability.state() == State::mapped);
      co_await swarm.sleep(20s);
      CHECK(reachability.state() == State::mapped);
      CHECK(swarm.asked == 9);  // about WebSockets too, and nobody twice
    });
  }
}

TEST_CASE("dial-back: knocks at the door of who asks and at no other, not too often, and believes only the right key") {
  sim::Simulation simulation;
  sim::SimNetwork lines(simulation, 1);
  test::MessageNetwork calls(simulation, 1);
  sim::Host& home = lines.add_host("asker");
  sim::Host& away = lines.add_host("server");
  lines.add_host("victim");
  Identity::Seed seed{};
  seed[0] = 1;
  const Identity asker_key = Identity::generate(seed);
  seed[0] = 2;
  const Identity server_key = Identity::generate(seed);
  const net::TlsContext asker_tls(asker_key);
  const net::TlsContext server_tls(server_key);
  net::Endpoint& asker = calls.add_peer(asker_key.id());
  net::Endpoint& server = calls.add_peer(server_key.id());
  Log log;
  const auto host_of = [](const PeerId&) { return std::optional<std::string>("asker"); };
  DialBackServer::Options options;
  options.of_peer_per_min = 6;
  DialBackServer service(server, away, away.clock(), log, server_tls, host_of, options);

  std::size_t knocks = 0;
  bool answer_door = true;
  const auto door = [&](net::Listener& listener) -> Task<> {
    for (;;) {
      auto stream = co_await listener.accept();
      if (!stream) co_return;
      ++knocks;
      net::SecureChannel channel(asker_tls, net::Side::accepted);
      Bytes buffer(4096);
      while (answer_door && !channel.established()) {
        const auto size = co_await (*stream)->read(buffer);
        if (!size || *size == 0) break;
        if (!channel.receive(std::span(buffer).first(*size))) break;
        const Bytes output(channel.output().begin(), channel.output().end());
        channel.sent(output.size());
        (void)co_await (*stream)->write(output);
      }
    }
  };
  const auto ask = [&](const std::string& host, std::uint16_t port) -> Task<int> {
    wire::DialBack question;
    question.host = host;
    question.port = port;
    const Frame request = frame::encode(wire::Header(question));
    const TimePoint deadline = simulation.clock().now() + 8s;
    const auto answer = co_await asker.call(server_key.id(), "nat.dial_back", request, deadline);
    if (!answer) co_return 100 + static_cast<int>(answer.error().code);
    const auto message = frame::decode<wire::Header>(**answer);
    co_return std::get<wire::DialledBack>(message->header).verdict;
  };
  const auto scenario = [&]() -> Task<> {
    const net::Address at{"asker", 4600};
    auto listener = home.listen(at).value();
    const auto body = [&](TaskGroup& tasks) -> Task<> {
      tasks.spawn("door", door(*listener));
      CHECK((co_await ask("", 4600)) == static_cast<int>(wire::Verdict::ok));
      CHECK((co_await ask("asker", 4600)) == static_cast<int>(wire::Verdict::ok));
      CHECK((co_await ask("victim", 4600)) == static_cast<int>(wire::Verdict::not_yours));
      CHECK((co_await ask("", 22)) == static_cast<int>(wire::Verdict::not_yours));
      CHECK(knocks == 2);
      CHECK((co_await ask("", 4601)) == static_cast<int>(wire::Verdict::refused));
      answer_door = false;
      CHECK((co_await ask("", 4600)) == static_cast<int>(wire::Verdict::refused));
      int busy = 0;
      for (int i = 0; i < 10; ++i) {
        const int verdict = co_await ask("", 4601);
        busy += verdict == 100 + static_cast<int>(Errc::busy) ? 1 : 0;
      }
      CHECK(busy >= 7);
    };
    auto scope = task_scope(rethrow, body);
    co_await std::move(scope);
    lines.stop();
  };
  simulation.run(scenario());
}

}  // namespace collab::nat
