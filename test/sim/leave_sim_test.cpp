// A peer leaves as planned in the middle of an epoch: what it has gathered counts in the step of another, or is told.

#include "small_swarm.hpp"

#include <algorithm>
#include <map>
#include <string>

#include "support/doctest.hpp"

namespace collab::sim {
namespace {

constexpr std::size_t kLeaver = 1;
constexpr Duration kLeaves = 35s;

/// Epochs of some 25 seconds; the leaver goes in the second or third.
SwarmOptions long_epochs(std::uint64_t seed, std::size_t peers) {
  SwarmOptions options = small(seed, peers, 0);
  options.target_batch = 400 * peers;
  options.spread = 0.3;
  options.length = 80s;
  options.faults.events.push_back(timed(kLeaves, FaultKind::leave, kLeaver, 0s));
  return options;
}

struct Left {
  std::map<std::string, std::size_t> by_event;  // who handed on, took on, lost
  std::map<std::string, std::size_t> events;
  Outcome outcome;
  std::uint64_t counted = 0;  // of the leaver's samples, in what others sent
  std::uint64_t handed_on = 0;
};

Left run_and_look(const SwarmOptions& options) {
  Left left;
  Swarm swarm(options);
  swarm.trace([&](const TraceLine& line) {
    ++left.events[line.event];
    left.by_event[line.event] = line.peer;
    const std::size_t at = line.text.find("samples=");
    if (line.event == "samples.handed_on") left.handed_on = std::stoull(line.text.substr(at + 8));
  });
  left.outcome = swarm.run();
  check_held(left.outcome);
  for (const auto& epoch : swarm.samples()) {
    for (const auto& [sender, sent] : epoch) {
      for (const SampleRun& run : sent.samples)
        if (sender != kLeaver && run.first >> 40U == kLeaver) left.counted += run.count;
    }
  }
  return left;
}

}  // namespace

TEST_CASE("leave sim: what a leaver has gathered counts in the step of one that stays, and nothing is lost") {
  for (const std::uint64_t seed : test::seeds(6)) {
    CAPTURE(seed);
    const Left left = run_and_look(long_epochs(seed, 4));
    CHECK(left.events.at("samples.handed_on") == 1);
    CHECK(left.events.at("samples.taken_on") == 1);
    CHECK(!left.events.contains("samples.lost"));
    CHECK(left.handed_on > 0);
    CHECK(left.counted == left.handed_on);
    CHECK(!left.events.contains("epoch.weight_cut"));
  }
}

TEST_CASE("leave sim: the others believe the heir what was left to it") {
  std::size_t doubted = 0;
  for (const std::uint64_t seed : test::seeds(6)) {
    SwarmOptions options = long_epochs(seed, 4);
    std::string heir;
    Swarm swarm(options);
    swarm.trace([&](const TraceLine& line) {
      const bool soon = line.at >= kLeaves && line.at < kLeaves + 8s;
      if (line.event == "samples.handed_on") heir = line.text.substr(line.text.find("peer="));
      doubted +=
          soon && !heir.empty() && line.event == "progress.not_believed" && line.text.find(heir) != std::string::npos;
    });
    check_held(swarm.run());
    CHECK(!heir.empty());
  }
  CHECK(doubted == 0);
}

TEST_CASE("leave sim: units go with their samples, and none is computed twice or left out") {
  for (const std::uint64_t seed : test::seeds(4)) {
    CAPTURE(seed);
    SwarmOptions options = long_epochs(seed, 4);
    options.units_per_pass = 3000;
    const Left left = run_and_look(options);
    CHECK(left.events.at("samples.taken_on") == 1);
    CHECK(!left.events.contains("samples.lost"));
    CHECK(left.outcome.ledger.duplicates() == 0);
  }
}

TEST_CASE("leave sim: on a grid the heir has a seat") {
  for (const std::uint64_t seed : test::seeds(3)) {
    CAPTURE(seed);
    SwarmOptions options = long_epochs(seed, 10);
    options.group_size_max = 4;
    const Left left = run_and_look(options);
    CHECK(left.events.at("samples.taken_on") == 1);
    CHECK(left.events.at("samples.handed_on") == 1);
  }
}

TEST_CASE("leave sim: an heir that dies or is cut off while it takes on, or an answer that is lost, doubles nothing") {
  SwarmOptions options = long_epochs(1, 6);
  options.values = 32 * 4096;
  options.line.up_bytes_per_s = 125e3;  // an estate takes two seconds
  const Left whole = run_and_look(options);
  REQUIRE(whole.events.contains("samples.taken_on"));
  const std::size_t heir = whole.by_event.at("samples.taken_on");
  std::size_t taken = 0;
  std::size_t lost = 0;
  for (const FaultKind kind : {FaultKind::kill, FaultKind::partition}) {
    for (const Duration after : {Duration(40ms), Duration(1s), Duration(2s), Duration(2200ms), Duration(2400ms)}) {
      CAPTURE(to_seconds(after));
      SwarmOptions hurt = options;
      hurt.faults.events.push_back(timed(kLeaves + after, kind, heir, 6s));
      const Left left = run_and_look(hurt);
      taken += left.events.contains("samples.handed_on");
      lost += !left.events.contains("samples.handed_on");
      CHECK(left.counted <= std::max(left.handed_on, whole.handed_on));
    }
  }
  CHECK(lost > 0);
}

TEST_CASE("leave sim: at whatever moment of an epoch's end a peer leaves, its samples count once or are told") {
  SwarmOptions options = long_epochs(2, 4);
  options.faults.events.clear();
  options.length = 60s;
  Swarm undisturbed(options);
  const Outcome before = undisturbed.run();
  REQUIRE(before.epoch_facts.size() > 1);
  const Duration ends = before.epoch_facts[1].begun;
  for (int step = -6; step <= 6; ++step) {
    CAPTURE(step);
    SwarmOptions leaving = options;
    leaving.faults.events.push_back(timed(ends + step * 50ms, FaultKind::leave, kLeaver, 0s));
    const Left left = run_and_look(leaving);
    CHECK(left.counted == left.handed_on);
  }
}

TEST_CASE("leave sim: of a liar's estate nothing counts, and its heir goes on") {
  for (const Lie lie : {Lie::not_finite, Lie::short_part, Lie::heavy}) {
    CAPTURE(name(lie));
    SwarmOptions options = long_epochs(3, 6);
    Fault fault = timed(kLeaves - 1s, FaultKind::lie, kLeaver, 30s);
    fault.lie = lie;
    options.faults.events.push_back(fault);
    const Left left = run_and_look(options);
    CHECK(!left.events.contains("samples.taken_on"));
    CHECK(left.events.contains("samples.lost"));
    CHECK(left.counted == 0);
    CHECK(left.outcome.epochs >= 2);
  }
}

/// Who is alone has no rounds to show, and serves the state of its last border while it stands in the next epoch.
TEST_CASE("leave sim: who comes back to one that trains alone fetches no state twice") {
  for (const std::uint64_t seed : {2, 5, 6, 7}) {
    CAPTURE(seed);
    SwarmOptions options = small(seed, 2, 0);
    options.target_batch = 4;  // epochs of a quarter of a second
    options.values = 2048;
    options.samples_per_s = 10;
    options.length = 48s;
    options.faults.events.push_back(timed(20s, FaultKind::leave, kLeaver, 15s));
    std::map<std::string, int> downloaded;  // by epoch
    bool is_back = false;
    Swarm swarm(options);
    swarm.trace([&](const TraceLine& line) {
      if (line.peer != kLeaver || line.at < 35s) return;
      const std::size_t epoch = line.text.find("epoch=");
      if (line.event == "state.downloaded") ++downloaded[line.text.substr(epoch, line.text.find(' ', epoch) - epoch)];
      is_back = is_back || (line.event == "epoch.committed" && line.text.find("peers=2") != std::string::npos);
    });
    check_held(swarm.run());
    CHECK(is_back);
    CHECK_FALSE(downloaded.empty());
    for (const auto& [epoch, times] : downloaded) CHECK(times == 1);
  }
}

}  // namespace collab::sim
