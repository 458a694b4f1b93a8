// Who dies in the middle of a round: at any byte, and in every moment that a round has.

#include "support/fresh_seeds.hpp"
#include "support/rounds.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "support/doctest.hpp"

namespace collab::test {
namespace {

using namespace std::chrono_literals;
using matchmaking::Role;

/// Of those who live: nobody has broken an invariant, and where a quorum lives all have committed in time.
void check_survivors(const Rounds& rounds, Duration limit) {
  CHECK(rounds.broken() == "");
  if (!rounds.live_quorum()) return;
  for (std::size_t rank = 0; rank < rounds.size(); ++rank) {
    if (rounds.dead(rank)) continue;
    CAPTURE(rank);
    CHECK(rounds.committed(rank));
    CHECK(rounds.finished_at(rank) < rounds.died_at() + limit);
  }
}

}  // namespace

TEST_CASE("all-reduce: a peer that dies at any byte leaves a round of all or nothing, and a live quorum commits") {
  std::size_t survived = 0;
  std::size_t changed_plan = 0;
  std::size_t runs = 0;
  for (const std::uint64_t seed : fixed_and_fresh_seeds(32, 8)) {
    CAPTURE(seed);
    Random random(seed);
    const std::size_t size = 2 + random.below(15);
    RoundsOptions options;
    options.streams = true;
    Rounds rounds(seed, draw_players(random, size, true), options);
    const std::size_t victim = random.below(size);
    const std::uint64_t control = 200 * size;  // Holds, Commits and Dones belong to the round, too
    rounds.kill_at_byte(random.below(rounds.bytes_to_send(victim) + control), victim);
    rounds.run();
    REQUIRE(rounds.dead(victim));
    check_survivors(rounds, 5s);
    survived += rounds.live_quorum();
    bool changed = false;
    for (std::size_t rank = 0; rank < size; ++rank)
      changed = changed || (!rounds.dead(rank) && rounds.report(rank).views > 1);
    changed_plan += changed;
    ++runs;
  }
  // else this would be about groups that fail, or about deaths that nobody notices
  CHECK((2 * survived > runs || runs == 1));
  CHECK((4 * changed_plan > runs || runs == 1));
  MESSAGE(runs, " rounds with a death; in ", survived, " a quorum lived, in ", changed_plan, " others took over");
}

namespace {

constexpr auto kMoments = static_cast<std::size_t>(Moment::count);

struct Tally {
  std::size_t runs = 0;
  std::size_t both_struck = 0;
  std::array<std::size_t, kMoments> struck{};
};

void play(std::size_t size, std::size_t a, Moment when_a, std::optional<std::pair<std::size_t, Moment>> b,
          Tally& tally) {
  CAPTURE(size);
  CAPTURE(a);
  CAPTURE(static_cast<int>(when_a));
  CAPTURE((b ? static_cast<int>(b->first) : -1));
  CAPTURE((b ? static_cast<int>(b->second) : -1));
  Random random(size);
  auto players = draw_players(random, size, false);
  std::size_t units = 0;
  for (Player& player : players) units += player.units = 1;
  for (Player& player : players) player.values.resize(units * kUnitValues, 0.25F);
  Rounds rounds(1 + a * kMoments + static_cast<std::size_t>(when_a), std::move(players), {});
  rounds.kill_in(when_a, a);
  if (b) rounds.kill_in(b->second, b->first);
  rounds.run();
  check_survivors(rounds, 1s);
  ++tally.runs;
  tally.struck[static_cast<std::size_t>(when_a)] += rounds.dead(a);
  if (b) tally.both_struck += rounds.dead(a) && rounds.dead(b->first);
}

}  // namespace

TEST_CASE(
    "all-reduce: in groups of up to five anyone may die in any moment of a round, and a second one in any other") {
  Tally tally;
  for (std::size_t size = 2; size <= 5; ++size) {
    for (std::size_t a = 0; a < size; ++a) {
      for (std::size_t moment_a = 0; moment_a < kMoments; ++moment_a) {
        const auto when_a = static_cast<Moment>(moment_a);
        play(size, a, when_a, std::nullopt, tally);
        for (std::size_t b = a + 1; b < size; ++b)
          for (std::size_t moment_b = 0; moment_b < kMoments; ++moment_b)
            play(size, a, when_a, std::pair(b, static_cast<Moment>(moment_b)), tally);
      }
    }
  }
  for (const std::size_t struck : tally.struck) CHECK(struck > 0);
  CHECK(tally.both_struck > tally.runs / 2);
  MESSAGE(tally.runs, " rounds, in ", tally.both_struck, " of them both died");
}

TEST_CASE("all-reduce: who is known to be dead is not served after the commit, whatever was still to be sent to it") {
  for (const bool streams : {false, true}) {
    CAPTURE(streams);
    Random random(3);
    RoundsOptions options;
    options.streams = streams;
    options.serve_to_the_end = true;
    Rounds rounds(3, draw_players(random, 6, false), options);
    if (streams) {
      rounds.kill_at_byte(rounds.bytes_to_send(2) / 2, 2);
    } else {
      rounds.kill_in(Moment::reduce, 2);
    }
    rounds.run();
    REQUIRE(rounds.dead(2));
    check_survivors(rounds, 5s);
    CHECK(rounds.served_at() < rounds.died_at() + 5s);
  }
}

TEST_CASE("all-reduce: a peer that hears nothing, or is not heard, costs the others no more than a dead one") {
  for (const bool deaf : {true, false}) {
    Duration longest{};
    std::size_t opened = 0;
    for (const std::uint64_t seed : seeds(40)) {
      CAPTURE(seed);
      CAPTURE(deaf);
      Random random(seed);
      const std::size_t size = 3 + random.below(6);
      RoundsOptions options;
      options.streams = true;
      Rounds rounds(seed, draw_players(random, size, true), options);
      const std::size_t victim = random.below(size);
      const auto when = Duration(random.below(150'000'000));
      deaf ? rounds.deafen_at(when, victim) : rounds.mute_at(when, victim);
      rounds.run();
      CHECK(rounds.broken() == "");
      const averaging::Ranks others = rounds.members().all & ~averaging::bit(victim);
      if (!rounds.members().is_quorum(others) || (others & rounds.members().reachable) == 0) continue;
      for (std::size_t rank = 0; rank < size; ++rank) {
        if (rank == victim) continue;
        CAPTURE(rank);
        CAPTURE(static_cast<int>(rounds.report(rank).reason));
        CHECK(rounds.committed(rank));
        CHECK(rounds.finished_at(rank) < when + 5s);
        if (rounds.committed(rank)) longest = std::max(longest, rounds.finished_at(rank) - when);
        opened += rounds.report(rank).views > 1;
      }
    }
    CHECK((opened > 0 || seeds(40).size() == 1));
    MESSAGE((deaf ? "deaf" : "mute"), ": at most ", to_seconds(longest), " s");
  }
}

}  // namespace collab::test
