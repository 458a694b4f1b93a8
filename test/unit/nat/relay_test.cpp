#include "nat/reachability.hpp"
#include "relay_town.hpp"

#include <map>

#include "support/doctest.hpp"

namespace collab::nat {

TEST_CASE("relay: two whom nobody can dial call each other through one whom both dial") {
  Town town;
  town.run([&]() -> Task<> {
    REQUIRE(co_await town.b.reserves_at(town.relay));
    town.a.knows_by(town.relay, town.b);
    const TimePoint began = town.a.clock().now();
    const auto answer = co_await town.a.calls(town.b);
    REQUIRE(answer);
    CHECK(**answer == *test::filled_frame(100));
    CHECK(town.a.clock().now() - began < 1s);
    const net::LinkState link = town.a.endpoint.link(town.b.id());
    CHECK(link.connected);
    CHECK(link.circuit);
    CHECK_FALSE(link.dialled);
    CHECK(link.path == "relay");
    CHECK_FALSE(town.a.endpoint.can_reach(town.b.id()));  // nobody plans with it
    CHECK_FALSE(town.b.endpoint.remote_of(town.a.id()));
    CHECK(town.b.endpoint.observed_host() == town.box_b.outside());  // as the relay says, not the circuit
    CHECK(town.relay.relay->circuits() == 1);
    CHECK(co_await town.b.calls(town.a));  // back, over the same one
    CHECK(town.relay.relay->circuits() == 1);
    CHECK(town.relay.metrics.value("collab_relay_circuits") == 1);
  });
}

TEST_CASE("relay: who is met through one is not asked whether he can dial back, he sees nobody's address") {
  Town town;
  std::map<PeerId, int> asked;
  for (RelayNode* judge : {&town.relay, &town.b}) {
    net::Method method;
    method.name = "nat.dial_back";
    const auto count = [&asked, judge](PeerId, Frame, TimePoint) -> Task<net::Answer> {
      ++asked[judge->id()];
      co_return Refusal(Errc::busy);
    };
    judge->endpoint.handle(method, count);
  }
  town.run([&]() -> Task<> {
    REQUIRE(co_await town.b.reserves_at(town.relay));
    town.a.knows_by(town.relay, town.b);
    CHECK(co_await town.a.calls(town.b));
    Log log;
    Reachability::Options options;
    options.port = kPort;
    const auto connected = [&] { return town.a.endpoint.connected(); };
    CHECK(connected().size() == 2);
    Reachability reachability(town.a.endpoint, town.a.clock(), Random(1), log, town.world.executor(), connected,
                              options);
    TaskGroup judging(town.world.executor(), rethrow);
    judging.spawn("reachability", reachability.run());
    co_await town.sleep(5s);
    CHECK(asked[town.relay.id()] > 0);
    CHECK(asked[town.b.id()] == 0);
    co_await judging.stop();
  });
}

TEST_CASE("relay: nobody is dialled for a stranger's word of where a relay is") {
  Town town;
  town.run([&]() -> Task<> {
    REQUIRE(co_await town.b.reserves_at(town.relay));
    town.a.endpoint.introduce_relays(town.b.id(), std::vector<net::Address>(1, town.relay.relay_address()));
    const auto answer = co_await town.a.calls(town.b, 3s);
    REQUIRE_FALSE(answer);
    CHECK(answer.error().code == Errc::gone);
    CHECK_FALSE(town.a.endpoint.can_reach(town.relay.id()));
    CHECK_FALSE(town.a.endpoint.link(town.relay.id()).connected);
    town.a.endpoint.introduce(town.b.id(), std::vector<net::Address>(1, town.relay.relay_address()));
    CHECK_FALSE(town.a.endpoint.can_reach(town.b.id()));  // a relay is no place of its own
  });
}

TEST_CASE("relay: who comes through it and can be dialled is dialled, and nothing is lost when the circuit goes") {
  Town town;
  RelayNode open(town.world, town.network, 5);
  town.run([&]() -> Task<> {
    open.start();
    REQUIRE(co_await town.b.reserves_at(town.relay));
    town.b.knows(open);
    open.knows_by(town.relay, town.b);
    for (int i = 0; i < 20; ++i) CHECK(co_await open.calls(town.b));
    const auto direct = [&] { return town.b.endpoint.link(open.id()).dialled; };
    CHECK(co_await town.until(direct, 5s) < 2s);
    const auto quiet = [&] { return town.relay.relay->circuits() == 0; };
    for (int i = 0; i < 20; ++i) CHECK(co_await open.calls(town.b));
    CHECK(co_await town.until(quiet, 10s) < 8s);
    CHECK_FALSE(open.endpoint.link(town.b.id()).circuit);
    CHECK(town.b.echoes == 40);
    co_await open.stop();
  });
}

TEST_CASE("relay: a circuit that was there first loses to a connection without one, whoever dialled") {
  Town town;
  RelayNode open(town.world, town.network, 5);
  town.run([&]() -> Task<> {
    open.start();
    REQUIRE(co_await town.b.reserves_at(town.relay));
    open.knows_by(town.relay, town.b);
    CHECK(co_await open.calls(town.b));
    CHECK(open.endpoint.link(town.b.id()).circuit);
    CHECK(co_await town.b.endpoint.connect(open.address(), town.b.in(5s)));
    co_await town.sleep(1s);
    for (const auto& [from, to] : {std::pair(&open, &town.b), std::pair(&town.b, &open)}) {
      CHECK(from->endpoint.link(to->id()).connected);
      CHECK_FALSE(from->endpoint.link(to->id()).circuit);
    }
    co_await open.stop();
  });
}

TEST_CASE("relay: nothing of a bulk method or protocol goes through it, and what leads there without it does") {
  Town town;
  RelayNode open(town.world, town.network, 5);
  town.run([&]() -> Task<> {
    open.start();
    REQUIRE(co_await town.b.reserves_at(town.relay));
    const Frame frame = test::filled_frame(100);
    for (const bool joined : {false, true}) {
      CAPTURE(joined);
      town.a.knows_by(town.relay, town.b);
      if (joined) CHECK(co_await town.a.calls(town.b));
      const TimePoint began = town.a.clock().now();
      const auto answer = co_await town.a.endpoint.call(town.b.id(), "test.bulk", frame, town.a.in(5s));
      CHECK(answer.error().code == Errc::gone);
      const std::vector<PeerId> members(1, town.b.id());
      const auto talk = town.a.endpoint.converse("test.bulk_talk", net::Topic(Digest{9}), members);
      for (const auto traffic : {net::TrafficClass::control, net::TrafficClass::bulk}) {
        const auto sent = co_await talk->send(town.b.id(), traffic, frame, town.a.in(5s));
        CHECK(sent.error() == Errc::gone);
      }
      CHECK(town.a.clock().now() - began < 100ms);  // as for somebody without any address
      CHECK(town.relay.relay->circuits() == (joined ? 1 : 0));
    }
    CHECK(co_await town.a.calls(town.b));  // and the circuit still stands
    town.b.knows(open);
    open.knows_by(town.relay, town.b);
    CHECK(co_await open.calls(town.b));
    const auto direct = [&] { return town.b.endpoint.link(open.id()).dialled; };
    CHECK(co_await town.until(direct, 5s) < 2s);
    co_await town.sleep(1s);
    CHECK(co_await open.endpoint.call(town.b.id(), "test.bulk", frame, open.in(5s)));
    co_await open.stop();
  });
}

TEST_CASE("relay: each reason for which there is no circuit has a word") {
  NodeWishes wishes;
  wishes.relay.signal.of_peer_max = 1;
  Town town(wishes);
  RelayNode off(town.world, town.network, 6, [] {
    NodeWishes none;
    none.relay.mode = RelayMode::off;
    return none;
  }());
  town.run([&]() -> Task<> {
    off.start();
    const auto asks = [&](RelayNode& relay, const PeerId& to) -> Task<net::Answer> {
      wire::Connect ask;
      ask.peer = to.key;
      ask.id[0] = static_cast<unsigned char>(town.a.clock().now().time_since_epoch().count() % 251);
      town.a.knows(relay);
      const Frame frame = frame::encode(wire::RelayHeader(ask));
      co_return co_await town.a.endpoint.call(relay.id(), "relay.connect", frame, town.a.in(5s));
    };
    const auto of_off = co_await asks(off, town.b.id());
    CHECK(of_off.error().code == Errc::denied);
    CHECK((co_await town.b.reserves_at(off)).error().reason == "this peer relays nothing");
    const auto unknown = co_await asks(town.relay, town.b.id());
    CHECK(unknown.error().code == Errc::gone);
    CHECK(unknown.error().reason == "that peer has no reservation here");
    CHECK((co_await asks(town.relay, town.a.id())).error().code == Errc::denied);
    CHECK((co_await asks(town.relay, town.relay.id())).error().code == Errc::denied);
    const Frame nonsense = frame::encode(wire::RelayHeader(wire::Joined()));
    for (const char* method : {"relay.connect", "relay.reserve", "relay.release", "relay.incoming"}) {
      const auto refused = co_await town.a.endpoint.call(town.relay.id(), method, nonsense, town.a.in(5s));
      CHECK(refused.error().code == Errc::bad_request);
    }

    REQUIRE(co_await town.b.reserves_at(town.relay));
    town.a.knows_by(town.relay, town.b);
    CHECK(co_await town.a.calls(town.b));
    const auto full = co_await asks(town.relay, town.b.id());
    CHECK(full.error().code == Errc::busy);
    CHECK(full.error().number == 10'000);

    town.relay.can_be_dialled = false;
    CHECK((co_await asks(town.relay, town.b.id())).error().code == Errc::denied);
    co_await town.sleep(3s);
    CHECK(town.relay.relay->reservations() == 0);
    co_await off.stop();
  });
}

TEST_CASE("relay: of one network few circuits are led, however many peers it calls itself") {
  NodeWishes wishes;
  wishes.relay.signal.of_network_max = 2;
  Town town(wishes);
  const auto mates = town.mates_of_a();
  town.run([&]() -> Task<> {
    for (auto& mate : mates) mate->start();
    REQUIRE(co_await town.b.reserves_at(town.relay));
    REQUIRE(co_await town.second.reserves_at(town.relay));
    mates[0]->knows_by(town.relay, town.b);
    CHECK(co_await mates[0]->calls(town.b));
    mates[1]->knows_by(town.relay, town.second);
    CHECK(co_await mates[1]->calls(town.second));
    mates[2]->knows_by(town.relay, town.b);
    CHECK_FALSE(co_await mates[2]->calls(town.b));
    CHECK(town.relay.relay->circuits() == 2);
    town.second.knows_by(town.relay, town.b);
    CHECK(co_await town.second.calls(town.b));
    CHECK(town.relay.relay->circuits() == 3);
    for (auto& mate : mates) co_await mate->stop();
  });
}

TEST_CASE("relay: over a circuit nobody reserves, and nobody asks for another one") {
  Town town;
  town.run([&]() -> Task<> {
    REQUIRE(co_await town.b.reserves_at(town.relay));
    town.a.knows_by(town.relay, town.b);
    CHECK(co_await town.a.calls(town.b));
    const Frame reserve = frame::encode(wire::RelayHeader(wire::Reserve()));
    const auto answer = co_await town.a.endpoint.call(town.b.id(), "relay.reserve", reserve, town.a.in(5s));
    CHECK(answer.error().reason == "no circuit over a circuit");
    // the second relay is only to be had through the first, and the other way round
    RelayNode& a = town.a;
    a.endpoint.introduce(town.second.id(), {});
    a.endpoint.introduce_relays(town.second.id(), {net::Address{"198.51.3.7", kPort, net::Leg::relay, town.b.id()}});
    a.endpoint.introduce_relays(town.b.id(), {net::Address{"198.51.4.9", kPort, net::Leg::relay, town.second.id()}});
    const TimePoint began = a.clock().now();
    CHECK_FALSE(co_await a.calls(town.second));
    CHECK(a.clock().now() - began < 10s);
  });
}

TEST_CASE("relay: reservations are few of one address, few in all, and end with their connection or by wish") {
  NodeWishes wishes;
  wishes.relay.reservations_of_address_max = 2;
  wishes.relay.reservations_max = 3;
  Town town(wishes);
  const auto mates = town.mates_of_a();
  town.run([&]() -> Task<> {
    for (auto& mate : mates) mate->start();
    REQUIRE(co_await mates[0]->reserves_at(town.relay));
    REQUIRE(co_await mates[0]->reserves_at(town.relay));  // renewed
    CHECK(town.relay.relay->reservations() == 1);
    REQUIRE(co_await mates[1]->reserves_at(town.relay));
    const auto third = co_await mates[2]->reserves_at(town.relay);
    CHECK(third.error().code == Errc::busy);
    CHECK(third.error().number == 10'000);
    REQUIRE(co_await town.b.reserves_at(town.relay));
    CHECK((co_await town.second.reserves_at(town.relay)).error().code == Errc::busy);  // of another address
    const Frame release = frame::encode(wire::RelayHeader(wire::Release()));
    for (const bool held : {true, false}) {
      const auto done = co_await town.b.endpoint.call(town.relay.id(), "relay.release", release, town.b.in(5s));
      REQUIRE(done);
      CHECK(std::get<wire::Released>(frame::decode<wire::RelayHeader>(**done)->header).held == held);
    }
    CHECK(co_await town.second.reserves_at(town.relay));
    co_await mates[0]->stop();
    co_await town.sleep(3s);
    CHECK(town.relay.relay->reservations() == 2);
    int busy = 0;
    for (int i = 0; i < 100; ++i) {
      const auto again = co_await mates[1]->reserves_at(town.relay);
      if (!again && again.error().code == Errc::busy) ++busy;
    }
    CHECK(busy > 40);
    for (auto& mate : mates) co_await mate->stop();
  });
}

namespace {

/// The two ends of a circuit as streams, without peers over it.
struct Ends {
  std::unique_ptr<net::Listener> listener;
  std::unique_ptr<net::ByteStream> caller;
  std::unique_ptr<net::ByteStream> taker;
};

NodeWishes hand_taken() {
  NodeWishes wishes;
  wishes.takes_circuits = false;
  return wishes;
}

Task<> join_ends(Town& town, Ends& ends, bool tensors = false) {
  ends.listener = town.b.circuits.listen(circuits_come_in()).value();
  CHECK(co_await town.b.reserves_at(town.relay));
  town.a.knows(town.relay);
  const auto by = tensors ? town.relay.onward_address() : town.relay.relay_address();
  auto dialled = co_await town.a.circuits.dial_peer(by, town.b.id(), town.a.in(5s));
  REQUIRE(dialled);
  ends.caller = std::move(*dialled);
  ends.taker = std::move(*co_await ends.listener->accept());
}

Task<> write_for_ever(net::ByteStream& stream, std::size_t& written) {
  const Bytes piece(50'000, std::byte(5));
  for (;;) {
    const auto done = co_await stream.write(piece);
    if (!done) co_return;
    written += piece.size();
  }
}

Task<> read_for_ever(net::ByteStream& stream, std::size_t& read, bool& ended) {
  Bytes buffer(100'000);
  for (;;) {
    const auto size = co_await stream.read(buffer);
    ended = size && *size == 0;
    if (!size || *size == 0) co_return;
    read += *size;
  }
}

}  // namespace

TEST_CASE("relay: a circuit has its rate, its bytes and its life, tells before it ends, and ends in order") {
  Town town({}, hand_taken());
  town.run([&]() -> Task<> {
    Ends ends;
    co_await join_ends(town, ends);
    std::size_t written = 0;
    std::size_t read = 0;
    bool ended = false;
    const TimePoint began = town.world.clock().now();
    town.a.tasks().spawn("write", write_for_ever(*ends.caller, written));
    town.b.tasks().spawn("read", read_for_ever(*ends.taker, read, ended));
    std::size_t back = 0;
    bool caller_ended = false;
    town.a.tasks().spawn("read", read_for_ever(*ends.caller, back, caller_ended));
    co_await town.sleep(2s);
    CHECK(double(read) == doctest::Approx(2 * 256e3 + 64 * 1024).epsilon(0.05));  // a burst, then the rate
    CHECK_FALSE(ends.caller->ends_soon());
    const auto seen1 = [&] { return ends.caller->ends_soon() && ends.taker->ends_soon(); };
    co_await town.until(seen1, 5s);
    CHECK(read >= 3 * (std::size_t(1) << 18U));
    CHECK(read < std::size_t(1) << 20U);
    const auto seen2 = [&] { return ended; };
    co_await town.until(seen2, 10s);
    CHECK(ended);
    CHECK(caller_ended);
    CHECK(double(read) == doctest::Approx(1 << 20).epsilon(0.05));
    CHECK(to_seconds(town.world.clock().now() - began) == doctest::Approx(double(1 << 20) / 256e3).epsilon(0.1));
    CHECK(town.relay.relay->circuits() == 0);
    CHECK(town.relay.metrics.value("collab_relayed_bytes_total", {{"class", "signal"}}) == double(read));
  });
}

TEST_CASE("relay: a quiet circuit lives for its time, and both ends know when it is about to end") {
  Town town({}, hand_taken());
  town.run([&]() -> Task<> {
    Ends ends;
    co_await join_ends(town, ends);
    std::size_t read = 0;
    bool caller_ended = false;
    bool taker_ended = false;
    town.a.tasks().spawn("read", read_for_ever(*ends.caller, read, caller_ended));
    town.b.tasks().spawn("read", read_for_ever(*ends.taker, read, taker_ended));
    co_await town.sleep(105s);
    CHECK_FALSE(ends.taker->ends_soon());
    co_await town.sleep(6s);
    CHECK(ends.caller->ends_soon());
    CHECK(ends.taker->ends_soon());
    CHECK(town.relay.relay->circuits() == 1);
    co_await town.sleep(10s);
    CHECK(town.relay.relay->circuits() == 0);
    CHECK(caller_ended);
    CHECK(taker_ended);
  });
}

TEST_CASE("relay: who does not read holds back who writes, and nobody else") {
  NodeWishes wishes;
  wishes.relay.mode = RelayMode::bulk;  // of a signal circuit all bytes are on the way before anybody is held back
  Town town(wishes, hand_taken());
  town.run([&]() -> Task<> {
    Ends ends;
    co_await join_ends(town, ends, /*tensors=*/true);
    std::size_t written = 0;
    town.a.tasks().spawn("write", write_for_ever(*ends.caller, written));
    co_await town.sleep(30s);
    CHECK(town.relay.relay->circuits() == 1);
    CHECK(written < std::size_t(10) << 20U);
    const std::size_t before = written;
    co_await town.sleep(5s);
    CHECK(written == before);
    CHECK(co_await town.a.calls(town.relay));  // its own questions pass
    std::size_t back = 0;
    std::size_t heard = 0;
    bool ended = false;
    town.b.tasks().spawn("write", write_for_ever(*ends.taker, back));
    town.a.tasks().spawn("read", read_for_ever(*ends.caller, heard, ended));
    co_await town.sleep(2s);
    CHECK(heard > 1'000'000);
    std::size_t read = 0;
    town.b.tasks().spawn("read", read_for_ever(*ends.taker, read, ended));
    co_await town.sleep(30s);
    CHECK(read > 1'000'000);
    CHECK(written > before);
    CHECK(town.relay.metrics.value("collab_relayed_bytes_total", {{"class", "bulk"}}) >= double(read + heard));
  });
}

TEST_CASE("relay: when one end dies the other hears it at once, and when the relay dies both do") {
  for (const bool relay_dies : {false, true}) {
    CAPTURE(relay_dies);
    Town town({}, hand_taken());
    town.run([&]() -> Task<> {
      Ends ends;
      co_await join_ends(town, ends);
      town.network.kill(relay_dies ? town.relay.host() : town.a.host());
      const TimePoint began = town.world.clock().now();
      Bytes buffer(10);
      const auto read = co_await ends.taker->read(buffer);
      CHECK((!read || *read == 0));
      CHECK(town.world.clock().now() - began < 1s);
      if (relay_dies) CHECK_FALSE(co_await ends.caller->read(buffer));
      CHECK_FALSE(co_await ends.taker->write(buffer));
    });
  }
}

TEST_CASE("relay: closing one end ends the other in order") {
  Town town({}, hand_taken());
  town.run([&]() -> Task<> {
    Ends ends;
    co_await join_ends(town, ends);
    const Bytes last(30'000, std::byte(9));
    CHECK(co_await ends.taker->write(last));
    ends.taker->close();
    std::size_t read = 0;
    bool ended = false;
    co_await read_for_ever(*ends.caller, read, ended);
    CHECK(read == last.size());
    CHECK(ended);
    const std::span<std::byte> nothing;
    CHECK((co_await ends.taker->read(nothing)).error() == Errc::gone);
    co_await town.sleep(1s);
    CHECK(town.relay.relay->circuits() == 0);
    CHECK(town.relay.circuits.topics().empty());
  });
}

TEST_CASE(
    "relay: reservations are kept at two relays of different networks, and replaced when one hangs up or is silent") {
  Town town;
  RelayNode third(town.world, town.network, 7);
  town.run([&]() -> Task<> {
    third.start();
    Log log;
    bool wanted = true;
    RelayClient::Needs needs{
        town.world.executor(), town.b.endpoint, town.b.clock(), Random(1), log, {}, {}, [&](const PeerId& peer) {
          town.b.endpoint.probe(peer);
        }};
    needs.candidates = [&] {
      std::vector<RelayClient::Candidate> all;
      for (RelayNode* node : {&town.relay, &town.second, &third}) {
        town.b.knows(*node);
        all.push_back({node->id(), node->address()});
      }
      return all;
    };
    needs.wanted = [&] { return wanted; };
    RelayClient client(std::move(needs), {});
    TaskGroup tasks(town.world.executor(), rethrow);
    wanted = false;
    tasks.spawn("client", client.run());
    co_await town.sleep(2s);
    CHECK(client.size() == 0);
    wanted = true;
    client.look_again();
    const auto seen3 = [&] { return client.size() == 2; };
    CHECK(co_await town.until(seen3, 10s) < 3s);
    co_await town.sleep(5s);
    const auto relays = client.addresses();
    REQUIRE(relays.size() == 2);
    for (const net::Address& at : relays) CHECK(net::parse_numeric_address(net::to_string(at)).value() == at);
    CHECK(town.relay.relay->reservations() + town.second.relay->reservations() + third.relay->reservations() == 2);
    RelayNode& dies = town.relay.id() == relays[0].relay    ? town.relay
                      : town.second.id() == relays[0].relay ? town.second
                                                            : third;
    town.network.freeze(dies.host());  // as one that was unplugged: its end of the connection is never closed
    const auto seen4 = [&] { return !client.has(dies.id()) && client.size() == 2; };
    CHECK(co_await town.until(seen4, 20s) < 10s);
    RelayNode& next = town.relay.id() == relays[1].relay    ? town.relay
                      : town.second.id() == relays[1].relay ? town.second
                                                            : third;
    town.network.kill(next.host());
    const auto alone = [&] { return !client.has(next.id()) && client.size() == 1; };
    CHECK(co_await town.until(alone, 10s) < 6s);  // it may be asking the silent one
    town.network.thaw(dies.host());
    const auto seen_thawed = [&] { return client.has(dies.id()) && client.size() == 2; };
    CHECK(co_await town.until(seen_thawed, 40s) < 20s);
    co_await town.sleep(31min);  // renewed at half of the hour
    CHECK(client.size() == 2);
    wanted = false;
    const auto seen5 = [&] { return client.size() == 0; };
    CHECK(co_await town.until(seen5, 10s) < 3s);
    co_await tasks.stop();
    co_await third.stop();
  });
}

namespace {

/// What a relay can do to bytes that it cannot read.
enum class Mischief : std::uint8_t { none, flips, drops, replays };

/// A relay that means ill, with everybody.
class EvilRelay {
 public:
  EvilRelay(sim::Simulation& world, sim::SimNetwork& network, unsigned char number)
      : node(world, network, number, no_relay()), tasks_(world.executor(), rethrow) {
    node.endpoint.handle(relay_method("relay.reserve"), [](PeerId, Frame, TimePoint) -> Task<net::Answer> {
      wire::Reserved granted;
      granted.ttl_s = 3600;
      co_return frame::encode(wire::RelayHeader(granted));
    });
    node.endpoint.handle(relay_method("relay.connect"),
                         [this](PeerId from, Frame request, TimePoint) { return join(from, std::move(request)); });
  }
  void start() { node.start(); }
  Task<> stop() {
    co_await tasks_.stop();
    lines_.clear();
    co_await node.stop();
  }

  RelayNode node;
  Mischief mischief = Mischief::none;
  int done = 0;

 private:
  static NodeWishes no_relay() {
    NodeWishes wishes;
    wishes.relays = false;
    return wishes;
  }
  CircuitLine& line(const wire::Connect& ask, const PeerId& asker, const PeerId& with, wire::CircuitEnd end) {
    lines_.push_back(std::make_unique<CircuitLine>(node.endpoint, node.circuits.topics(),
                                                   wire::circuit_topic(ask.id, asker.key, end), with,
                                                   wire::CircuitClass::signal));
    return *lines_.back();
  }
  Task<net::Answer> join(PeerId from, Frame request) {
    const auto ask = std::get<wire::Connect>(frame::decode<wire::RelayHeader>(*request)->header);
    const PeerId to{ask.peer};
    wire::Incoming incoming;
    incoming.from = from.key;
    incoming.id = ask.id;
    CircuitLine& a = line(ask, from, from, wire::CircuitEnd::asker);
    CircuitLine& b = line(ask, from, to, wire::CircuitEnd::asked);
    const Frame question = frame::encode(wire::RelayHeader(incoming));
    const auto yes = co_await node.endpoint.call(to, "relay.incoming", question, node.in(5s));
    if (!yes) co_return yes.error();
    tasks_.spawn("there", pump(a, b, true));
    tasks_.spawn("back", pump(b, a, false));
    wire::Joined joined;
    joined.life_s = 600;
    co_return frame::encode(wire::RelayHeader(joined));
  }
  Task<> pump(CircuitLine& from, CircuitLine& to, bool spoils) {
    for (;;) {
      const auto got = co_await from.receive(TimePoint::max());
      if (!got) co_return;
      Frame frame = *got;
      const Mischief now = spoils ? mischief : Mischief::none;
      if (now != Mischief::none) ++done;
      if (now == Mischief::drops) continue;
      if (now == Mischief::flips) {
        Bytes bytes = frame->copy();
        bytes.back() ^= std::byte(1);
        frame = std::make_shared<const Buffer>(bytes);
      }
      (void)co_await to.send(frame, node.in(5s));
      if (now == Mischief::replays) (void)co_await to.send(frame, node.in(5s));
    }
  }

  std::vector<std::unique_ptr<CircuitLine>> lines_;
  TaskGroup tasks_;
};

}  // namespace

TEST_CASE(
    "relay: tensors go in long pieces where those are soon gone, in short ones where a word would wait for them") {
  for (const Duration each : {Duration(0ms), Duration(20ms)}) {
    CAPTURE(each.count());
    const std::size_t kBytes = each > 0ms ? 1'000'000 : 20'000'000;  // a long way takes a while to be full
    Town town;
    town.run([&]() -> Task<> {
      REQUIRE(co_await town.a.reserves_at(town.relay));
      const auto line = [](RelayNode& of, const RelayNode& with) {
        return std::make_shared<CircuitLine>(of.endpoint, of.circuits.topics(), Digest{}, with.id(),
                                             wire::CircuitClass::bulk);
      };
      const auto there = line(town.relay, town.a);
      std::vector<std::size_t> pieces;
      const auto takes = [&]() -> Task<> {
        for (std::size_t left = kBytes; left > 0;) {
          const auto frame = co_await there->receive(town.relay.in(10s));
          REQUIRE(frame);
          pieces.push_back(frame::decode<wire::CircuitHeader>(**frame)->payload.size());
          left -= pieces.back();
          co_await town.sleep(each);
        }
      };
      TaskGroup taking(town.world.executor(), rethrow);
      taking.spawn("takes", takes());
      TaskGroup* const none = nullptr;
      CircuitStream stream(line(town.a, town.relay), town.a.clock(), none, town.a.in(60s));
      CHECK(co_await stream.write(Bytes(kBytes)));
      co_await taking.join();
      const std::vector<std::size_t> last(pieces.end() - 6, pieces.end() - 1);
      const bool slow = each > 0ms;
      for (const std::size_t bytes : last) CHECK(bytes == (slow ? wire::kCarryBytesMin : wire::kCarryBytesMax));
    });
  }
}

TEST_CASE("relay: one that flips, drops or repeats bytes is noticed, and nothing of it is believed") {
  for (const Mischief mischief : {Mischief::flips, Mischief::drops, Mischief::replays}) {
    CAPTURE(static_cast<int>(mischief));
    Town town;
    EvilRelay evil(town.world, town.network, 8);
    town.run([&]() -> Task<> {
      evil.start();
      REQUIRE(co_await town.b.reserves_at(evil.node));
      town.a.knows_by(evil.node, town.b);
      CHECK(co_await town.a.calls(town.b));
      CHECK(town.b.echoes == 1);
      const PeerId a = town.a.id();
      evil.mischief = mischief;
      CHECK_FALSE(co_await town.a.calls(town.b));
      CHECK(evil.done > 0);
      if (mischief == Mischief::replays) CHECK(town.b.echoes <= 2);  // the first of the two is a question as any other
      if (mischief != Mischief::replays) CHECK(town.b.echoes == 1);
      const auto closed = [&] { return !town.b.endpoint.link(a).connected; };
      CHECK(co_await town.until(closed, 60s) < 50s);
      evil.mischief = Mischief::none;
      co_await town.sleep(2min);
      CHECK(town.a.access().may(town.b.id(), Claim::join));
      co_await evil.stop();
    });
  }
}

}  // namespace collab::nat
