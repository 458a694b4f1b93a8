#include "averaging/first_groups.hpp"

#include "averaging/wire.hpp"
#include "base/frame.hpp"
#include "sim/simulation.hpp"
#include "support/message_network.hpp"

#include <map>
#include <optional>

#include "support/doctest.hpp"

namespace collab::averaging {
namespace {

using namespace std::chrono_literals;

/// A group of 1 to 4, in whose result are all parts but those of 3.
RoundReport round_of_four(unsigned char id) {
  RoundReport round;
  round.group[0] = id;
  round.round = 1;
  for (unsigned number = 1; number <= 4; ++number) {
    PeerReport peer;
    peer.id = test::peer(number);
    peer.counted = number == 3 ? 0 : 0.5;
    round.peers.push_back(peer);
  }
  return round;
}

Frame ask(const matchmaking::GroupId& group) {
  wire::WasCounted ask;
  ask.group = group;
  return frame::encode(wire::Inquiry(ask));
}

std::optional<bool> said(const net::Answer& answer) {
  if (!answer) return std::nullopt;
  return std::get<wire::Counted>(frame::decode<wire::Inquiry>(**answer)->header).counted;
}

/// Peer 1, whose round failed, asks the others.
struct Asking {
  Asking() : network(world, 1) {
    for (unsigned number = 1; number <= 4; ++number) {
      endpoints[number] = &network.add_peer(test::peer(number));
      endpoints[number]->handle(counted_method(),
                                [this, number](PeerId from, Frame request, TimePoint) -> Task<net::Answer> {
                                  co_return groups[number].answer(from, request);
                                });
    }
  }
  bool ask() {
    const auto asking = [this]() -> Task<> {
      counted = co_await was_counted(*endpoints[1], round_of_four(7), world.clock().now() + 2s);
      took = world.clock().now() - TimePoint();
    };
    world.run(asking());
    return counted;
  }
  sim::Simulation world;
  test::MessageNetwork network;
  std::map<unsigned, net::Endpoint*> endpoints;
  std::map<unsigned, FirstGroups> groups;
  bool counted = false;
  Duration took{};
};

}  // namespace

TEST_CASE("first groups: a member hears whether its parts are in, as long as the group is known here") {
  FirstGroups groups;
  CHECK(groups.answer(test::peer(1), ask(round_of_four(0).group)).error().code == Errc::stale);
  for (unsigned char id = 0; id < 8; ++id) groups.committed(round_of_four(id));
  CHECK(said(groups.answer(test::peer(1), ask(round_of_four(0).group))) == true);
  CHECK(said(groups.answer(test::peer(3), ask(round_of_four(0).group))) == false);
  CHECK(said(groups.answer(test::peer(9), ask(round_of_four(0).group))) == false);  // a stranger
  groups.committed(round_of_four(100));
  CHECK(groups.answer(test::peer(1), ask(round_of_four(0).group)).error().code == Errc::stale);
  CHECK(said(groups.answer(test::peer(1), ask(round_of_four(100).group))) == true);
  const Frame nonsense = std::make_shared<const Buffer>(Bytes(16, std::byte(1)));
  CHECK(groups.answer(test::peer(1), nonsense).error().code == Errc::bad_request);
  const Frame no_question = frame::encode(wire::Inquiry(wire::Counted()));
  CHECK(groups.answer(test::peer(1), no_question).error().code == Errc::bad_request);
}

TEST_CASE("first groups: one groupmate that knows is enough, and nobody waits for a frozen one then") {
  Asking asking;
  asking.groups[3].committed(round_of_four(7));  // 4 has failed too, and answers so
  asking.network.freeze(test::peer(2));
  CHECK(asking.ask());
  CHECK(asking.took < 200ms);
}

TEST_CASE("first groups: where nobody knows the parts count as lost, after the deadline at the latest") {
  Asking asking;
  asking.network.freeze(test::peer(2));
  CHECK(!asking.ask());
  CHECK(asking.took <= 2s);
  Asking all_have_failed;
  CHECK(!all_have_failed.ask());
  CHECK(all_have_failed.took < 200ms);
}

}  // namespace collab::averaging
