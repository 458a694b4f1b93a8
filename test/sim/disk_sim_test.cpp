// Peers that die go back to what their disk holds, and their disks fail.
#include "sim/disk.hpp"
#include "small_swarm.hpp"

#include <set>

#include "support/doctest.hpp"

namespace collab::sim {
namespace {

SavedState state_of(std::uint64_t epoch) {
  SavedState state;
  state.epoch = epoch;
  return state;
}

std::uint64_t newest(Disk& disk) {
  const auto state = disk.load();
  return state ? state->epoch : 0;
}

/// Five peers that save every third epoch.
SwarmOptions saving(std::uint64_t seed) {
  SwarmOptions options = small(seed, 5, 25);
  options.checkpoint_every = 3;
  return options;
}

/// Epochs that the peer caught up with, in any of its lives.
std::set<std::uint64_t> caught_up(const SwarmOptions& options, std::size_t peer, Outcome& outcome) {
  std::set<std::uint64_t> downloads;
  Swarm swarm(options);
  swarm.trace([&](const TraceLine& line) {
    const bool behind = line.event == "epoch.caught_up" || line.event == "state.downloaded";
    if (line.peer == peer && behind) downloads.insert(static_cast<std::uint64_t>(line.at.count()));
  });
  outcome = swarm.run();
  check_held(outcome);
  check_struck(outcome);
  return downloads;
}

}  // namespace

TEST_CASE("disk: who dies while it saves comes back to the checkpoint before") {
  Disk disk;
  disk.save(state_of(1), TimePoint(1s));
  disk.save(state_of(2), TimePoint(2s));
  disk.slow(5s);
  CHECK(disk.save(state_of(3), TimePoint(3s)) == TimePoint(8s));
  disk.died(TimePoint(7s));
  CHECK(newest(disk) == 2);
  disk.save(state_of(4), TimePoint(9s));
  disk.died(TimePoint(14s));
  CHECK(newest(disk) == 4);
}

TEST_CASE("disk: a torn checkpoint is put aside, a full disk takes none, an empty one has none") {
  Disk disk;
  CHECK_FALSE(disk.load());
  disk.save(state_of(1), TimePoint(1s));
  disk.save(state_of(2), TimePoint(2s));
  disk.tear();
  CHECK(newest(disk) == 1);
  CHECK(disk.damaged() == 1);
  disk.fill(true);
  disk.save(state_of(3), TimePoint(3s));
  CHECK(newest(disk) == 1);
  CHECK(disk.refused() == 1);
  disk.tear();
  CHECK_FALSE(disk.load());
  disk.fill(false);
  disk.save(state_of(4), TimePoint(4s));
  disk.wipe();
  CHECK_FALSE(disk.load());
}

TEST_CASE("disk sim: a peer that dies goes back to its last whole checkpoint, and is current again") {
  for (const std::uint64_t seed : test::seeds(3)) {
    for (const bool torn : {false, true}) {
      CAPTURE(seed);
      CAPTURE(torn);
      SwarmOptions options = saving(seed);
      Fault dies = timed(35s, FaultKind::kill, 1, 4s);
      dies.torn = torn;
      options.faults.events.push_back(dies);
      Outcome outcome;
      CHECK_FALSE(caught_up(options, 1, outcome).empty());
      CHECK(outcome.checkpoints_damaged == (torn ? 1 : 0));
    }
  }
}

TEST_CASE("disk sim: a peer trains on while its disk is full or slow") {
  for (const std::uint64_t seed : test::seeds(3)) {
    CAPTURE(seed);
    SwarmOptions options = saving(seed);
    options.faults.events.push_back(timed(15s, FaultKind::disk_full, 1, 30s));
    Fault slow = timed(15s, FaultKind::slow_disk, 2, 30s);
    slow.amount = 60;
    options.faults.events.push_back(slow);
    options.faults.events.push_back(timed(50s, FaultKind::kill, 2, 4s));  // while it saves
    Outcome outcome;
    CHECK_FALSE(caught_up(options, 2, outcome).empty());
    CHECK(outcome.checkpoints_refused > 0);
  }
}

}  // namespace collab::sim
