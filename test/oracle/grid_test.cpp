#include "base/random.hpp"
#include "matchmaking/group_key.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <optional>
#include <set>

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

double normal(Random& random) {
  const double u = (static_cast<double>(random.next() >> 11U) + 0.5) * 0x1p-53;
  const double v = static_cast<double>(random.next() >> 11U) * 0x1p-53;
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

struct Walker {
  double value = 0;
  double weight = 1;
  std::size_t previous = 0;  // group of the round before; 0: none
};

class Pass {
 public:
  Pass(std::size_t peers, std::vector<std::uint32_t> radices, std::uint64_t seed) : random_(seed) {
    Grid grid;
    grid.id = Hasher("grid test").add(seed).finish();
    grid.radices = std::move(radices);
    for (std::size_t i = 0; i < peers; ++i) ids_.push_back(numbered(i));
    std::sort(ids_.begin(), ids_.end());
    schedule_.emplace(grid, ids_, seed);
    for (std::size_t i = 0; i < peers; ++i) walkers_.push_back({normal(random_), 1, 0});
  }

  std::vector<Walker>& walkers() { return walkers_; }

  /// One round, plain or with summed weights and one voice per previous group; each peer is absent with `absent`.
  void round(std::uint32_t number, bool weighted, double absent) {
    const std::uint32_t dimension = (number - 1) % schedule_->rounds() + 1;
    std::map<Digits, std::vector<std::size_t>> groups;
    for (std::size_t i = 0; i < ids_.size(); ++i)
      if (!random_.chance(absent)) groups[schedule_->digits(ids_[i], dimension)].push_back(i);
    for (auto& [digits, members] : groups) mix(members, weighted);
  }

  double variance() const {
    double sum = 0;
    double squares = 0;
    for (const Walker& walker : walkers_) sum += walker.value;
    const double mean = sum / static_cast<double>(walkers_.size());
    for (const Walker& walker : walkers_) squares += (walker.value - mean) * (walker.value - mean);
    return squares / static_cast<double>(walkers_.size());
  }

  std::size_t largest = 0;

 private:
  void mix(const std::vector<std::size_t>& members, bool weighted) {
    largest = std::max(largest, members.size());
    ++groups_;
    double sum = 0;
    double weights = 0;
    std::set<std::size_t> heard;
    for (const std::size_t i : members) {
      const Walker& walker = walkers_[i];
      const bool voice = walker.previous == 0 || heard.insert(walker.previous).second;
      if (weighted && !voice) continue;
      sum += walker.weight * walker.value;
      weights += walker.weight;
    }
    for (const std::size_t i : members) {
      walkers_[i].value = sum / weights;
      if (weighted) walkers_[i].weight = weights;
      walkers_[i].previous = groups_;
    }
  }

  Random random_;
  std::vector<PeerId> ids_;
  std::optional<Schedule> schedule_;
  std::vector<Walker> walkers_;
  std::size_t groups_ = 0;
};

/// Rounds until the variance is below `goal`, from 1 at the beginning.
double rounds_to(std::size_t peers, std::uint32_t side, double absent, double goal) {
  constexpr int kSeeds = 60;
  constexpr std::uint32_t kRoundsMax = 100;
  double sum = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    Pass pass(peers, {side, side}, static_cast<std::uint64_t>(seed));
    std::uint32_t rounds = 0;
    while (rounds < kRoundsMax && pass.variance() >= goal) pass.round(++rounds, /*weighted=*/false, absent);
    sum += rounds;
  }
  return sum / kSeeds;
}

}  // namespace

TEST_CASE("grid: as few dimensions as the group size allows, every cell filled") {
  CHECK(radices_for(1, 64) == std::vector<std::uint32_t>{1});
  CHECK(radices_for(64, 64) == std::vector<std::uint32_t>{64});
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

TEST_CASE("grid: after one pass everybody holds the exact weighted mean, for any number of peers") {
  for (const auto& [peers, size_max] : std::vector<std::pair<std::size_t, std::size_t>>{
           {12, 4}, {16, 4}, {64, 8}, {70, 16}, {97, 16}, {150, 20}, {509, 64}, {600, 14}, {1000, 12}, {1024, 64}}) {
    CAPTURE(peers);
    const auto radices = radices_for(peers, size_max);
    Pass pass(peers, radices, peers);
    Random random(peers);
    double sum = 0;
    double weights = 0;
    for (Walker& walker : pass.walkers()) {
      walker.weight = static_cast<double>(1 + random.below(199));
      sum += walker.weight * walker.value;
      weights += walker.weight;
    }
    for (std::uint32_t round = 1; round <= radices.size(); ++round) pass.round(round, /*weighted=*/true, 0);
    for (const Walker& walker : pass.walkers()) {
      CHECK(walker.value == doctest::Approx(sum / weights).epsilon(1e-9));
      CHECK(walker.weight == doctest::Approx(weights));
    }
    CHECK(pass.largest <= size_max);
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
