#include "epoch/round_donors.hpp"

#include <algorithm>
#include <vector>

#include "support/doctest.hpp"

namespace collab::epoch {
namespace {

std::vector<PeerId> peers(unsigned char first, unsigned char count) {
  std::vector<PeerId> all;
  for (unsigned char i = 0; i < count; ++i) all.emplace_back().key[0] = static_cast<unsigned char>(first + i);
  return all;
}

std::vector<PeerId> both(std::vector<PeerId> a, const std::vector<PeerId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

auto one_of(const std::vector<PeerId>& these) {
  return [these](const PeerId& peer) { return std::find(these.begin(), these.end(), peer) != these.end(); };
}

}  // namespace

TEST_CASE("round donors: those that have it first, then others that may have it by now") {
  Random random(1);
  const auto ahead = peers(1, 3);
  const auto behind = peers(11, 20);
  const auto all = both(ahead, behind);
  const auto chosen = choose_donors({ahead, all, 4}, one_of(all), true, random);
  REQUIRE(chosen.size() == 7);
  CHECK(std::vector<PeerId>(chosen.begin(), chosen.begin() + 3) == ahead);
  for (std::size_t i = 3; i < 7; ++i) CHECK(one_of(behind)(chosen[i]));
}

TEST_CASE("round donors: of those that have it only some can be reached: relays need not ask the rest") {
  Random random(1);
  const auto near = peers(1, 1);
  const auto ahead = both(near, peers(2, 3));
  CHECK(choose_donors({ahead, both(ahead, peers(11, 5)), 4}, one_of(near), true, random) == near);
}

TEST_CASE("round donors: the only one that can be reached is behind as well, so relays ask those that have it") {
  Random random(1);
  const auto near = peers(1, 1);
  const auto ahead = peers(2, 3);
  const auto chosen = choose_donors({ahead, both(near, ahead), 4}, one_of(near), true, random);
  CHECK(chosen == both(ahead, near));
  CHECK(choose_donors({ahead, both(near, ahead), 4}, one_of(near), false, random) == near);  // there is no such relay
}

TEST_CASE("round donors: nobody is ahead by his record and nobody can be reached, so relays ask some") {
  Random random(1);
  const auto all = peers(1, 9);
  CHECK(choose_donors({{}, all, 4}, one_of({}), true, random).size() == 4);
  CHECK(choose_donors({{}, all, 4}, one_of({}), false, random).empty());
}

}  // namespace collab::epoch
