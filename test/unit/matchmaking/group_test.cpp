#include "base/frame.hpp"
#include "matchmaking/wire.hpp"
#include "support/message_network.hpp"

#include "support/doctest.hpp"

namespace collab::matchmaking {
namespace {

using test::peer;

constexpr std::size_t kValues = 10 * 4096 - 7;

Group good() {
  Group group;
  group.epoch = 3;
  group.roster.push_back({peer(2), Role::node, 40, {}, 6, 0});
  group.roster.push_back({peer(1), Role::node, 40, {}, 4, 0});
  group.roster.push_back({peer(3), Role::client, 40, {}, 0, 0});
  group.roster.push_back({peer(4), Role::auxiliary, 0, {}, 0, 0});
  return seal(group);
}

/// `change` made by a liar who computes the id honestly.
template <class Change>
bool passes(Change change) {
  Group group = good();
  change(group);
  group.id = compute_id(group);
  return check(group, peer(1), kValues).has_value();
}

}  // namespace

TEST_CASE("group: what was sealed is sorted, ranked and passes its check for every member") {
  const Group group = good();
  for (unsigned i = 1; i <= 4; ++i) {
    CHECK(group.rank_of(peer(i)) == i - 1);
    CHECK(check(group, peer(i), kValues));
  }
  CHECK(!group.rank_of(peer(5)));
  CHECK(check(group, peer(5), kValues).error() == Errc::bad_request);
}

TEST_CASE("group: sums run in the order of the grid digit that was dropped, then of the peer id") {
  Group group = good();
  group = seal(group, {{peer(1), 2}, {peer(2), 0}, {peer(3), 2}, {peer(4), 1}});
  CHECK(group.roster[1].order == 0);
  CHECK(group.roster[3].order == 1);
  CHECK(group.roster[0].order == 2);
  CHECK(group.roster[2].order == 3);
  CHECK(check(group, peer(1), kValues));
}

TEST_CASE("group: every rule of a plan is checked") {
  CHECK(passes([](Group&) {}));
  CHECK(passes([](Group& g) { g.electorate = 5; }));        // three vote
  CHECK(!passes([](Group& g) { g.electorate = 6; }));       // and so could never commit
  CHECK(!passes([](Group& g) { g.roster[0].units = 5; }));  // one more than the vector has
  CHECK(!passes([](Group& g) { g.roster[1].units = 0xFFFFFFFF; }));
  CHECK(!passes([](Group& g) { g.roster[0].units = 3, g.roster[2].units = 1; }));  // a client owns
  CHECK(!passes([](Group& g) { std::swap(g.roster[0].id, g.roster[1].id); }));     // unsorted
  CHECK(!passes([](Group& g) { g.roster[1].id = g.roster[0].id; }));               // twice
  CHECK(!passes([](Group& g) { g.roster[1].order = 0; }));                         // no permutation
  CHECK(!passes([](Group& g) { g.roster[3].order = 200; }));
  CHECK(!passes([](Group& g) { g.chunk_units = 0; }));
  CHECK(!passes([](Group& g) { g.chunk_units = 17; }));
  CHECK(!passes([](Group& g) { g.roster[0].weight_max = 0; }));  // a sender without samples
  CHECK(!passes([](Group& g) { g.roster[3].role = static_cast<Role>(9); }));
  CHECK(!passes([](Group& g) { g.roster.resize(1), g.roster[0].units = 10; }));  // alone
}

TEST_CASE("group: 64 are a group, 65 are not") {
  for (const unsigned size : {64U, 65U}) {
    Group group;
    for (unsigned i = 1; i <= size; ++i) {
      const auto order = static_cast<std::uint8_t>(i - 1);
      group.roster.push_back({peer(i), Role::node, 1, {}, i == 1 ? 10U : 0U, order});
    }
    group.id = compute_id(group);
    CHECK(check(group, peer(1), kValues).has_value() == (size == 64));
  }
}

TEST_CASE("group: its id covers every field") {
  const auto id_after = [](auto change) {
    Group group = good();
    change(group);
    return compute_id(group);
  };
  std::set<GroupId> ids{good().id};
  ids.insert(id_after([](Group& g) { g.topic[0] = 1; }));
  ids.insert(id_after([](Group& g) { g.epoch = 4; }));
  ids.insert(id_after([](Group& g) { g.round = 2; }));
  ids.insert(id_after([](Group& g) { g.attempt = 1; }));
  ids.insert(id_after([](Group& g) { g.chunk_units = 8; }));
  ids.insert(id_after([](Group& g) { g.weight_min = 1; }));
  ids.insert(id_after([](Group& g) { g.electorate = 1; }));
  ids.insert(id_after([](Group& g) { g.codec_map[31] = 1; }));
  ids.insert(id_after([](Group& g) { g.schema[31] = 1; }));
  ids.insert(id_after([](Group& g) { g.roster.pop_back(); }));
  ids.insert(id_after([](Group& g) { g.roster[0].id = peer(0); }));
  ids.insert(id_after([](Group& g) { g.roster[0].role = Role::auxiliary; }));
  ids.insert(id_after([](Group& g) { g.roster[0].weight_max = 41; }));
  ids.insert(id_after([](Group& g) { g.roster[0].previous[0] = 1; }));
  ids.insert(id_after([](Group& g) { g.roster[0].units = 1; }));
  ids.insert(id_after([](Group& g) { std::swap(g.roster[0].order, g.roster[1].order); }));
  ids.insert(id_after([](Group& g) { g.roster[0].incarnation = 1; }));
  CHECK(ids.size() == 18);
}

TEST_CASE("matchmaking wire: a group of 64 survives the trip with its id") {
  Group group;
  for (unsigned i = 1; i <= kGroupSizeMax; ++i) {
    Digest previous;
    previous.fill(static_cast<unsigned char>(i));
    group.roster.push_back({peer(i), Role::node, ~std::uint64_t(0), previous, 0xFFFFFFFF, 0});
  }
  group.electorate = 100;
  group = seal(group);
  const Frame frame = frame::encode(wire::Header(wire::to_wire(group)));
  const auto message = frame::decode<wire::Header>(*frame);
  REQUIRE(message);
  const auto back = wire::from_wire(std::get<wire::Begin>(message->header));
  REQUIRE(back);
  CHECK(back->id == group.id);
  CHECK(back->roster == group.roster);
}

TEST_CASE("matchmaking wire: a Begin whose lists do not fit together is refused") {
  const auto refused = [](auto change) {
    wire::Begin begin = wire::to_wire(good());
    change(begin);
    return wire::from_wire(begin).error() == Errc::bad_request;
  };
  CHECK(refused([](wire::Begin& b) { b.roster.clear(); }));
  CHECK(refused([](wire::Begin& b) { b.roles.pop_back(); }));
  CHECK(refused([](wire::Begin& b) { b.order.push_back(0); }));
  CHECK(refused([](wire::Begin& b) { b.weights.pop_back(); }));
  CHECK(refused([](wire::Begin& b) { b.previous.pop_back(); }));
  CHECK(refused([](wire::Begin& b) { b.units.pop_back(); }));
  CHECK(refused([](wire::Begin& b) { b.roles[0] = 3; }));
}

}  // namespace collab::matchmaking
