#include "matchmaking/group_key.hpp"
#include "sim/gossip_model.hpp"
#include "sim/grid_model.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "support/doctest.hpp"

// Rounds over the grid as arithmetic alone: keys and slots are the production functions, groups always commit. The
// figures are those of Moshpit SGD (arXiv 2103.03239) and of a reference script.

namespace collab::matchmaking {
namespace {

PeerId numbered(std::uint64_t number) {
  PeerId peer{};
  const Digest digest = Hasher("grid test peer").add(number).finish();
  std::copy(digest.begin(), digest.end(), peer.key.begin());
  return peer;
}

/// Rounds until the variance is below `goal`, from 1 at the beginning.
double rounds_to(std::size_t peers, std::uint32_t side, double absent, double goal) {
  constexpr int kSeeds = 60;
  constexpr std::uint32_t kRoundsMax = 100;
  double sum = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    sim::GridModelOptions options;
    options.seed = static_cast<std::uint64_t>(seed);
    options.peers = peers;
    options.radices = {side, side};
    options.absent = absent;
    sim::GridModel model(options);
    std::uint32_t rounds = 0;
    for (; rounds < kRoundsMax && model.variance() >= goal; ++rounds) model.round();
    sum += rounds;
  }
  return sum / kSeeds;
}

}  // namespace

TEST_CASE("grid: text is radices, or as peers come, or refused") {
  using Radices = std::vector<std::uint32_t>;
  CHECK(parse_grid("auto").value() == Radices{});
  CHECK(parse_grid("4x3").value() == Radices{4, 3});
  CHECK(parse_grid("64").value() == Radices{64});
  CHECK(parse_grid("2x2x2x2x2x2x2x2").value().size() == 8);
  for (const char* bad :
       {"", "x", "4x", "x4", "4x1", "65x2", "4,3", "4 x 3", "-4x3", "2x2x2x2x2x2x2x2x2", "auto ", "99999999999"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_grid(bad));
  }
}

TEST_CASE("grid: as few dimensions as the group size allows, every cell filled") {
  CHECK(radices_for(1, 64) == std::vector<std::uint32_t>{1});
  CHECK(radices_for(64, 64) == std::vector<std::uint32_t>{64});
  CHECK(radices_for(3, 2) == std::vector<std::uint32_t>{3});  // too few for a grid
  CHECK(radices_for(64, 8) == std::vector<std::uint32_t>{8, 8});
  CHECK(radices_for(70, 16) == std::vector<std::uint32_t>{8, 8});
  CHECK(radices_for(150, 20) == std::vector<std::uint32_t>{12, 12});
  CHECK(radices_for(600, 14) == std::vector<std::uint32_t>{9, 8, 8});
  CHECK(radices_for(1024, 64) == std::vector<std::uint32_t>{32, 32});
  for (std::uint64_t peers = 65; peers <= 1500; ++peers) {
    const auto radices = radices_for(peers, 64);
    CAPTURE(peers);
    std::uint64_t cells = 1;
    for (const std::uint32_t radix : radices) cells *= radix;
    CHECK(cells <= peers);
    CHECK(check_radices(radices));
  }
}

TEST_CASE("grid: after one pass everybody holds the exact weighted mean in equal bytes, for any number of peers") {
  for (const auto& [peers, size_max] : std::vector<std::pair<std::size_t, std::size_t>>{
           {12, 4}, {16, 4}, {64, 8}, {70, 16}, {97, 16}, {150, 20}, {509, 64}, {600, 14}, {1000, 12}, {1024, 64}}) {
    CAPTURE(peers);
    sim::GridModelOptions options;
    options.seed = peers;
    options.peers = peers;
    options.radices = radices_for(peers, size_max);
    options.weight_max = 199;
    sim::GridModel model(options);
    for (std::uint32_t round = 0; round < model.rounds_per_pass(); ++round) model.round();
    CHECK(model.complete() == peers);
    CHECK(model.equal_bytes());
    CHECK(model.max_relative_error() <= 1e-6);
    CHECK(model.largest_group() <= size_max);
  }
}

TEST_CASE("grid: with absent peers, those who complete a pass hold the same bytes") {
  std::size_t complete = 0;
  std::size_t incomplete = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    sim::GridModelOptions options;
    options.seed = seed;
    options.peers = 1000;
    options.radices = radices_for(1000, 12);
    options.weight_max = 199;
    options.absent = 0.001;
    sim::GridModel model(options);
    for (std::uint32_t round = 0; round < model.rounds_per_pass(); ++round) model.round();
    CHECK(model.equal_bytes());
    complete += model.complete();
    incomplete += 1000 - model.complete();
  }
  CHECK(complete > incomplete);
  CHECK(incomplete > 0);
}

TEST_CASE("grid: random groups shrink the variance by the paper's factor") {
  for (const auto& [peers, size, factor] : std::vector<std::tuple<std::size_t, std::uint32_t, double>>{
           {1024, 32, 0.030303}, {64, 8, 0.11111}, {16, 4, 0.2}, {8, 2, 0.42857}}) {
    CAPTURE(peers);
    double before = 0;
    double after = 0;
    const std::uint64_t seeds = peers > 100 ? 200 : 5000;
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
      sim::GridModelOptions options;
      options.seed = seed;
      options.peers = peers;
      options.radices = {size, static_cast<std::uint32_t>(peers) / size};
      options.random_groups = true;
      sim::GridModel model(options);
      before += model.variance();
      model.round();
      after += model.variance();
    }
    CHECK(after / before == doctest::Approx(factor).epsilon(0.02));
  }
}

TEST_CASE("grid: rounds to consensus are those of the paper's grid, or fewer") {
  CHECK(rounds_to(1024, 32, 0, 1e-9) == 2.0);
  CHECK(rounds_to(1024, 32, 0.001, 1e-9) <= 3.9);  // 4.27 with slots drawn at random
  CHECK(rounds_to(1024, 32, 0.01, 1e-9) <= 6.2);
  CHECK(rounds_to(1024, 32, 0.01, 1e-4) <= 3.2);
  // random slots leave cells of a grid that is too large empty in other rows each time, and need 6 rounds; slots in
  // order leave the same columns empty in all rows, so nothing is missing anywhere
  CHECK(rounds_to(768, 32, 0, 1e-9) == 2.0);
  CHECK(rounds_to(768, 32, 0.01, 1e-9) <= 6.4);
}

TEST_CASE("grid: what it is measured against needs more rounds, or a round in which nobody is absent") {
  const auto rounds = [](sim::Gossip how, double absent) {
    double sum = 0;
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      sim::GossipOptions options;
      options.seed = seed;
      options.how = how;
      options.absent = absent;
      sim::GossipModel model(options);
      std::uint32_t count = 0;
      for (; count < 100 && model.variance() >= 1e-9; ++count) model.round();
      sum += count;
    }
    return sum / 10;
  };
  CHECK(rounds(sim::Gossip::ring, 0) == 100);  // far from it
  CHECK(rounds(sim::Gossip::push_sum, 0) == doctest::Approx(32).epsilon(0.05));
  CHECK(rounds(sim::Gossip::restart, 0) == 1);
  CHECK(rounds(sim::Gossip::restart, 0.001) > 1.5);  // exp(1.024) = 2.8 on average
  CHECK(rounds(sim::Gossip::restart, 0.01) > 50);
  for (const sim::Gossip how : {sim::Gossip::ring, sim::Gossip::push_sum, sim::Gossip::restart})
    CHECK(sim::gossip_named(sim::name(how)) == how);
}

TEST_CASE("grid: everybody foresees the same pass, and no two groupmates meet twice") {
  Grid grid;
  grid.radices = {3, 2, 4};
  std::vector<PeerId> peers;
  for (std::size_t i = 0; i < 24; ++i) peers.push_back(numbered(i));
  const Schedule schedule(grid, peers, 5);
  std::reverse(peers.begin(), peers.end());
  const Schedule same(grid, peers, 5);
  std::map<PeerId, std::set<PeerId>> met;
  for (const PeerId& peer : peers) {
    for (std::uint32_t round = 1; round <= 3; ++round) {
      CHECK(schedule.digits(peer, round) == same.digits(peer, round));
      CHECK(schedule.digits(peer, round).size() == 2);
      const auto group = schedule.group(peer, round);
      CHECK(group.size() == grid.radices[round - 1]);
      for (const PeerId& other : group) {
        if (other != peer) CHECK(met[peer].insert(other).second);
      }
    }
    CHECK(schedule.dropped(peer, 2) == schedule.digits(peer, 1).front());
  }
  CHECK(!schedule.contains(numbered(99)));
  PeerId seat_only = peers[0];
  seat_only.key[31] ^= 1U;
  CHECK(schedule.digits(seat_only, 2) == schedule.digits(peers[0], 2));
  CHECK(key_text("run/gradients", grid, schedule.digits(peers[0], 1)).starts_with("run/gradients/00000000/"));
}

}  // namespace collab::matchmaking
