#include "meeting.hpp"

#include "base/random.hpp"
#include "statistics.hpp"
#include "swarm.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <thread>
#include <vector>

namespace collab::bench {
namespace {

using nlohmann::json;

constexpr double kDeclareWithin = 1;  // seconds

}  // namespace

int measure_meeting(const MeetingOrder& order) {
  const double load_before = load();
  Swarm swarm(order.workload, order.log_level);
  std::vector<double> seconds;
  std::size_t full = 0;
  for (std::size_t round = 0; round <= order.rounds; ++round) {
    Random random = Random(order.workload.seed).derive(fmt::format("declare {}", round));
    std::vector<double> after(order.workload.peers);
    for (double& one : after) one = kDeclareWithin * static_cast<double>(random.below(1'000'000)) * 1e-6;
    const Meeting meeting = swarm.seek(1 + round, after);
    if (round == 0) continue;  // warms up
    full += meeting.full;
    seconds.insert(seconds.end(), meeting.seconds.begin(), meeting.seconds.end());
  }
  const json out = {{"bench", "matchmaking"},
                    {"peers", order.workload.peers},
                    {"rounds", order.rounds},
                    {"seed", order.workload.seed},
                    {"full_groups", full},
                    {"seconds_median", median(seconds)},
                    {"seconds_p99", percentile(seconds, .99)},
                    {"seconds_max", percentile(seconds, 1)},
                    {"processors", std::thread::hardware_concurrency()},
                    {"load_before", load_before},
                    {"load_after", load()}};
  if (order.json) {
    fmt::print("{}\n", out.dump());
  } else {
    fmt::print("matchmaking: {} peers, {} rounds, {} in one full group\n", order.workload.peers, order.rounds, full);
    fmt::print("  all declared -> begin   {:.4f} s median, {:.4f} p99, {:.4f} most\n", median(seconds),
               percentile(seconds, .99), percentile(seconds, 1));
    fmt::print("  machine                 {} processors, load {:.2f} before, {:.2f} after\n",
               std::thread::hardware_concurrency(), load_before, load());
  }
  return static_cast<int>(full == order.rounds ? ExitCode::done : ExitCode::bug);
}

}  // namespace collab::bench
