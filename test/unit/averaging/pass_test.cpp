#include "averaging/pass.hpp"

#include "matchmaking/wire.hpp"
#include "support/peers.hpp"

#include <algorithm>
#include <vector>

#include "support/doctest.hpp"

namespace collab::averaging {
namespace {

/// Six peers on a grid of three by two, in its epoch 7.
Pass pass_of_six() {
  Pass pass;
  pass.grid.radices = {3, 2};
  pass.epoch = 7;
  std::vector<PeerId> peers;
  for (unsigned number = 1; number <= 6; ++number) peers.push_back(test::peer(number));
  pass.schedule = std::make_shared<const matchmaking::Schedule>(pass.grid, peers, pass.epoch);
  return pass;
}

/// As its leader would have it begin.
matchmaking::Group group_of(const std::vector<PeerId>& peers, const Digest& topic, std::size_t electorate) {
  matchmaking::Group group;
  group.topic = topic;
  group.epoch = 7;
  group.round = 1;
  group.electorate = static_cast<std::uint32_t>(electorate);
  for (const PeerId& peer : peers) group.roster.emplace_back().id = peer;
  return matchmaking::seal(std::move(group));
}

}  // namespace

TEST_CASE("pass: of what is handed on only a group of the own cell is believed, which needs more than half of it") {
  const Pass pass = pass_of_six();
  const PeerId self = test::peer(1);
  const WantedFirst wanted = first_of(pass, bundle_of("run"), self);
  const std::vector<PeerId> cell = pass.schedule->group(self, 1);
  REQUIRE(cell.size() == 3);
  CHECK(wanted.epoch == 7);
  CHECK(wanted.cell() == cell);
  CHECK(wanted.is_it(group_of(cell, wanted.topic, 3)));
  const std::vector<PeerId> without_self = [&] {
    std::vector<PeerId> others = cell;
    std::erase(others, self);
    return others;
  }();
  CHECK(wanted.is_it(group_of(without_self, wanted.topic, 3)));

  SUBCASE("not one whose leader counted fewer than the cell has") {
    CHECK_FALSE(wanted.is_it(group_of(without_self, wanted.topic, 2)));
  }
  SUBCASE("not one with strangers, who could sign whatever they like") {
    CHECK_FALSE(wanted.is_it(group_of({test::peer(7), test::peer(8), test::peer(9)}, wanted.topic, 3)));
    CHECK_FALSE(wanted.is_it(group_of({cell[0], cell[1], test::peer(9)}, wanted.topic, 3)));
  }
  SUBCASE("not one in which somebody sits twice, by a key that was made for it") {
    PeerId twin = cell[0];
    twin.key[30] = 1;
    CHECK_FALSE(wanted.is_it(group_of({cell[0], twin, cell[1]}, wanted.topic, 3)));
  }
  SUBCASE("not that of another cell, epoch or round") {
    const std::vector<std::vector<PeerId>> cells = pass.schedule->groups(1);
    const auto other = std::find_if(cells.begin(), cells.end(), [&](const auto& one) { return one != cell; });
    const WantedFirst theirs = first_of(pass, bundle_of("run"), other->front());
    CHECK(theirs.topic != wanted.topic);
    CHECK_FALSE(wanted.is_it(group_of(*other, theirs.topic, 3)));
    CHECK_FALSE(wanted.is_it(group_of(*other, wanted.topic, 3)));
    matchmaking::Group later = group_of(cell, wanted.topic, 3);
    later.epoch = 8;
    CHECK_FALSE(wanted.is_it(matchmaking::seal(later)));
    matchmaking::Group second = group_of(cell, wanted.topic, 3);
    second.round = 2;
    CHECK_FALSE(wanted.is_it(matchmaking::seal(second)));
  }
  SUBCASE("an auxiliary may be among them") {
    matchmaking::Group group = group_of(cell, wanted.topic, 3);
    group.roster.emplace_back().id = test::peer(9);
    group.roster.back().role = matchmaking::Role::auxiliary;
    CHECK(wanted.is_it(matchmaking::seal(group)));
  }
}

}  // namespace collab::averaging
