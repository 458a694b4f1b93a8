#include "doctor/port.hpp"

#include "sim/network.hpp"

#include <vector>

#include "support/doctest.hpp"

namespace collab::doctor {
namespace {

net::Address at(const std::string& host, std::uint16_t port) {
  net::Address address;
  address.host = host;
  address.port = port;
  return address;
}

/// A host on which some ports are taken.
struct World {
  World() : network(world, 1), host(network.add_host("10.0.0.1")) {}
  void take(const std::string& where, std::uint16_t port) {
    auto listener = host.listen(at(where, port));
    REQUIRE(listener);
    taken.push_back(std::move(*listener));
  }
  PortCheck check(std::optional<net::Address> wanted, bool peer_here = false) {
    PortWish wish;
    wish.wanted = std::move(wanted);
    wish.peer_here = peer_here;
    return check_port(host, wish);
  }

  sim::Simulation world;
  sim::SimNetwork network;
  sim::Host& host;
  std::vector<std::unique_ptr<net::Listener>> taken;
};

}  // namespace

TEST_CASE("doctor: the usual port is free, or the next one is") {
  World world;
  CHECK(world.check(std::nullopt).finding.measured == "4600 is free");
  CHECK(world.check(std::nullopt).finding.measured == "4600 is free");  // looking took nothing
  world.take("::", 4600);
  world.take("::", 4601);
  const PortCheck next = world.check(std::nullopt);
  CHECK(next.finding.result == Grade::ok);
  CHECK(next.finding.measured == "4600 is taken, 4602 is free");
  REQUIRE(next.open);
  CHECK(next.open->port == 4602);
}

TEST_CASE("doctor: a port that was asked for and is taken fails, and names one that is free") {
  World world;
  CHECK(world.check(at("10.0.0.1", 5000)).finding.result == Grade::ok);
  world.take("10.0.0.1", 5000);
  const PortCheck taken = world.check(at("10.0.0.1", 5000));
  CHECK(taken.finding.result == Grade::fail);
  CHECK(taken.finding.code == ExitCode::machine);
  CHECK(taken.finding.measured == "10.0.0.1:5000 is taken");
  CHECK(taken.finding.remedy == "--listen 10.0.0.1:4600, which is free");
  CHECK_FALSE(taken.open);
  const PortCheck own = world.check(at("10.0.0.1", 5000), true);
  CHECK(own.finding.result == Grade::warn);
}

TEST_CASE("doctor: while this home's peer runs, the usual port is its own, and no other is looked at from outside") {
  World world;
  CHECK(world.check(std::nullopt, true).finding.measured == "4600 is free");  // that peer listens elsewhere
  world.take("::", 4600);
  const PortCheck own = world.check(std::nullopt, true);
  CHECK(own.finding.result == Grade::ok);
  CHECK(own.finding.measured == "4600 is taken, perhaps by the peer that runs here");
  CHECK_FALSE(own.open);
}

/// Nothing can be listened at here.
struct ClosedNetwork final : net::Network {
  explicit ClosedNetwork(Errc because) : why(because) {}
  Task<Result<std::unique_ptr<net::ByteStream>>> dial(net::Address, TimePoint) override { co_return Errc::gone; }
  Result<std::unique_ptr<net::Listener>> listen(const net::Address&) override { return why; }
  Errc why;
};

TEST_CASE("doctor: what cannot be listened at says why, and a client needs nothing") {
  PortWish wish;
  wish.wanted = at("10.0.0.77", 443);
  ClosedNetwork foreign(Errc::bad_request);
  const PortCheck elsewhere = check_port(foreign, wish);
  CHECK(elsewhere.finding.result == Grade::fail);
  CHECK(elsewhere.finding.measured == "10.0.0.77:443 is no address of this machine");
  CHECK(elsewhere.finding.code == ExitCode::usage);
  CHECK(elsewhere.finding.remedy == "an address that it has, or [::]:PORT for all");
  ClosedNetwork strict(Errc::denied);
  const PortCheck forbidden = check_port(strict, wish);
  CHECK(forbidden.finding.measured == "10.0.0.77:443 is not allowed to this user");
  CHECK(forbidden.finding.code == ExitCode::machine);
  CHECK(forbidden.finding.remedy == "another --listen");
  wish.wanted.reset();
  const PortCheck none = check_port(strict, wish);
  CHECK(none.finding.code == ExitCode::machine);
  CHECK(none.finding.remedy.find("--client") != std::string::npos);
  wish.client = true;
  CHECK(check_port(strict, wish).finding.result == Grade::ok);
}

TEST_CASE("doctor: the port for WebSockets is looked at by itself") {
  World world;
  CHECK(check_wss_port(world.host, "::", 443, false).result == Grade::ok);
  world.take("::", 443);
  const Finding taken = check_wss_port(world.host, "::", 443, false);
  CHECK(taken.result == Grade::fail);
  CHECK(taken.measured == "443 is taken");
  CHECK(taken.code == ExitCode::machine);
  CHECK(check_wss_port(world.host, "::", 443, true).result == Grade::warn);
}

}  // namespace collab::doctor
