#include "node/join.hpp"

#include "net/proxy.hpp"
#include "node/manifest_keeper.hpp"
#include "sim/simulation.hpp"
#include "support/message_network.hpp"

#include "support/doctest.hpp"

namespace collab::node {
namespace {

using namespace std::chrono_literals;

/// What comes of one place, where a member answers the question for the manifest with `said`, or the dial ends with it.
Attempt attempt_with(const Refusal& said, bool is_dialled) {
  sim::Simulation simulation;
  test::MessageNetwork network(simulation, 1);
  net::Endpoint& asker = network.add_peer(test::peer(1));
  const auto answer = [&](PeerId, Frame, TimePoint) -> Task<net::Answer> { co_return said; };
  network.add_peer(test::peer(2)).handle(manifest_method(), answer);
  const Connect connect = [&](net::Address, TimePoint) -> Task<boost::system::result<PeerId, Refusal>> {
    if (!is_dialled) co_return said;
    co_return test::peer(2);
  };
  Place place;
  place.at = parse_peer_address("h:1");
  Round round;
  const auto all = [&]() -> Task<> {
    auto searching =
        search(asker, connect, simulation.clock(), std::vector<Place>(1, place), Expected(), SearchOptions(), {});
    round = co_await std::move(searching);
  };
  simulation.run(all());
  return round.attempts.at(0);
}

}  // namespace

TEST_CASE("join: that the proxy wants a login is believed of the dial, and of nobody who was dialled") {
  for (const auto& error : {net::proxy_status(407), net::make_error_code(net::ProxyFault::other_login)}) {
    const Refusal why = net::proxy_refusal(error).value();
    const Attempt dial = attempt_with(why, false);
    CHECK(dial.finding == Finding::proxy_login);
    CHECK(is_final(dial));
    const Attempt forged = attempt_with(why, true);
    CHECK(forged.finding == Finding::refused);
    CHECK(forged.proxy_trouble == 0);
    CHECK_FALSE(is_final(forged));
  }
}

}  // namespace collab::node
