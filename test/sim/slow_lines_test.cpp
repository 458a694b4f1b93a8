// Lines on which a round takes half a minute: nobody is suspected, or given up, for being on one.

#include "small_swarm.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "support/doctest.hpp"

namespace collab::sim {
namespace {

constexpr double kSlow = 40e3;  // bytes/s up: a frame takes longer than anybody may be silent
constexpr double kFast = 4 * kSlow;

LineOptions line(double up_bytes_per_s) {
  return {up_bytes_per_s, 5 * up_bytes_per_s};
}

struct Seen {
  Outcome outcome;
  std::size_t failed = 0;     ///< of rounds, as each peer saw them
  std::size_t suspected = 0;  ///< as frozen or slow
  std::size_t coarse = 0;     ///< peers that told of an epoch by coarse codecs after one that was not
  std::size_t fine = 0;       ///< and the other way round
  std::size_t states = 0;     ///< fetched whole
};

Seen run_and_see(const SwarmOptions& options) {
  Seen seen;
  Swarm swarm(options);
  const auto has = [](const TraceLine& line, std::string_view text) {
    return line.text.find(text) != std::string::npos;
  };
  std::vector<Duration> failed_at;
  const auto see = [&](const TraceLine& line) {
    if (line.event == "averaging.round" && has(line, "outcome=0")) failed_at.push_back(line.at);
    seen.coarse += line.event == "epoch.codec" && has(line, "coarse=true") ? 1 : 0;
    seen.fine += line.event == "epoch.codec" && has(line, "coarse=false") ? 1 : 0;
    seen.states += line.event == "state.downloaded" ? 1 : 0;
    seen.suspected += line.event == "averaging.suspected" && (has(line, "why=3") || has(line, "why=4")) ? 1 : 0;
  };
  swarm.trace(see);
  seen.outcome = swarm.run();
  // a round that the end of the run cuts short has not failed
  const auto in_time = [&](Duration at) { return at < seen.outcome.length; };
  seen.failed = static_cast<std::size_t>(std::count_if(failed_at.begin(), failed_at.end(), in_time));
  check_held(seen.outcome);
  return seen;
}

}  // namespace

TEST_CASE("slow lines: where a round takes half a minute, nobody fails, and the first one neither") {
  SwarmOptions options = small(1, 5, 2);
  options.values = 640 * 1024;
  options.lines.assign(6, line(2 * kSlow));
  const Seen seen = run_and_see(options);
  CHECK(seen.outcome.epochs == 2);
  CHECK(seen.failed == 0);
  CHECK(seen.suspected == 0);
}

TEST_CASE("slow lines: on a grid groups wait for those whose round before is on slower lines") {
  // in these a peer waited for one stream of a slow line that it shares, or was done ten seconds before the others, or
  // seats were written anew while a round still ran on slower lines
  for (const std::uint64_t seed : {1, 4, 5}) {
    CAPTURE(seed);
    SwarmOptions options = small(seed, 12, 3);
    options.values = 320 * 1024;
    options.group_size_max = 6;
    options.target_batch = 2400;
    for (std::size_t i = 0; i <= 12; ++i) options.lines.push_back(line(i % 4 == 1 ? kSlow : kFast));
    const Seen seen = run_and_see(options);
    CHECK(seen.outcome.epochs == 3);
    CHECK(seen.failed == 0);
    CHECK(seen.suspected == 0);
  }
}

TEST_CASE("slow lines: with the codec auto a round that holds the swarm up takes 8 bits a value, and no other") {
  SwarmOptions options = small(1, 5, 12);
  options.values = 160 * 1024;
  options.codec_by_lines = true;
  CHECK(run_and_see(options).coarse == 0);
  options.lines.assign(6, line(kFast));
  const Seen seen = run_and_see(options);
  CHECK(seen.outcome.epochs == 12);
  CHECK(seen.coarse == 5);
  CHECK(seen.fine == 0);
  options.codec_by_lines = false;
  const Outcome always_fine = run_and_see(options).outcome;
  CHECK(seen.outcome.length < .7 * always_fine.length);
}

TEST_CASE("slow lines: who was away for rounds of 8 bits catches up with them") {
  for (const std::uint64_t seed : {1, 2, 3}) {
    CAPTURE(seed);
    SwarmOptions options = small(seed, 5, 20);
    options.values = 160 * 1024;
    options.codec_by_lines = true;
    options.lines.assign(6, line(kFast));
    options.faults.events.push_back(timed(20s, FaultKind::freeze, 1, 6s));
    options.faults.events.push_back(timed(35s, FaultKind::partition, 2, 8s));
    options.faults.events.push_back(timed(60s, FaultKind::kill, 3, 5s));
    const Seen seen = run_and_see(options);
    check_struck(seen.outcome);
    CHECK(seen.outcome.epochs == 20);
    CHECK(seen.coarse >= 5);
  }
}

TEST_CASE("slow lines: a state that comes more slowly than donors let go of rounds is fetched once") {
  for (const std::uint64_t seed : {1, 2}) {
    CAPTURE(seed);
    SwarmOptions options = small(seed, 4, 12);
    options.values = 512 * 1024;
    options.result_bytes_max = 1;  // two epochs, as of a model of more than 8 MiB
    options.rates.assign(5, 16);
    options.target_batch = 384;  // six seconds
    options.lines.assign(4, line(100 * kFast));
    options.codec = CodecId::linear8;
    options.lines.push_back({1e6, 260e3});  // of a model and its momentum that takes 16 s, of a result two
    Fault comes;
    comes.at = 16s;
    comes.kind = FaultKind::join;
    options.faults.events.push_back(comes);
    const Seen seen = run_and_see(options);
    check_struck(seen.outcome);
    CHECK(seen.outcome.epochs == 12);
    CHECK(seen.states == 1);
  }
}

TEST_CASE("slow lines: groups of a grid all use the same codec, whatever their lines") {
  SwarmOptions options = small(1, 12, 6);
  options.values = 80 * 1024;
  options.group_size_max = 6;
  options.codec_by_lines = true;
  for (std::size_t i = 0; i <= 12; ++i) options.lines.push_back(line(i % 4 == 1 ? kSlow : 100 * kFast));
  const Seen seen = run_and_see(options);
  CHECK(seen.outcome.epochs == 6);
  CHECK(seen.coarse == seen.fine);  // before all are seated there may be one group
}

}  // namespace collab::sim
