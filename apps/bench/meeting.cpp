#include "meeting.hpp"

#include "base/random.hpp"
#include "statistics.hpp"
#include "swarm.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <vector>

namespace collab::bench {
namespace {

using nlohmann::json;

constexpr double kDeclareWithin = 1;  // seconds

void print_meeting(const json& figures) {
  const auto real = [&](const char* field) { return figures.at(field).get<double>(); };
  const auto whole = [&](const char* field) { return figures.at(field).get<std::uint64_t>(); };
  fmt::print("matchmaking: {} peers, {} rounds, {} in one full group\n", whole("peers"), whole("rounds"),
             whole("full_groups"));
  print_row("all declared -> begin", fmt::format("{:.4f} s median, {:.4f} p99, {:.4f} most", real("seconds_median"),
                                                 real("seconds_p99"), real("seconds_max")));
  print_machine(figures);
}

}  // namespace

int measure_meeting(const MeetingOrder& order) {
  const Report report;
  Swarm swarm(order.workload, order.output.log_level);
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
  const json figures = {{"bench", "matchmaking"},
                        {"peers", order.workload.peers},
                        {"rounds", order.rounds},
                        {"seed", order.workload.seed},
                        {"full_groups", full},
                        {"seconds_median", median(seconds)},
                        {"seconds_p99", percentile(seconds, .99)},
                        {"seconds_max", percentile(seconds, 1)}};
  report.show(figures, print_meeting, order.output, "seconds from the last declaration to the begin",
              {{"each peer", seconds}});
  return static_cast<int>(full == order.rounds ? ExitCode::done : ExitCode::bug);
}

}  // namespace collab::bench
