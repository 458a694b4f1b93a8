#include "state_speed.hpp"

#include "statistics.hpp"
#include "swarm.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace collab::bench {
namespace {

using nlohmann::json;

/// Bytes a second that a joiner can get at best: 0 on loopback.
double line_of(const StateOrder& order) {
  const auto lines = lines_of(order.workload.shape, order.workload.peers);
  if (lines.empty()) return 0;
  double up = 0;
  double down = lines[0].down_bytes_per_s;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i < order.joiners) down = std::min(down, lines[i].down_bytes_per_s);
    if (i >= order.joiners || order.joiners > 1) up += lines[i].up_bytes_per_s;
  }
  return std::min(down, up / static_cast<double>(order.joiners));
}

struct StateFigures {
  std::vector<double> seconds;         // until the last one had it
  std::vector<double> joiner_seconds;  // of all of them
  double cpu_s = 0;
  double bytes = 0;  // that all received together
  double donors = 0;
  bool whole = true;
};

void add(StateFigures& figures, const std::vector<Fetched>& round) {
  double slowest = 0;
  for (const Fetched& one : round) {
    figures.cpu_s += one.cpu_s;
    if (!one.joined) continue;
    slowest = std::max(slowest, one.seconds);
    figures.joiner_seconds.push_back(one.seconds);
    figures.bytes += static_cast<double>(one.bytes);
    figures.donors += static_cast<double>(one.donors);
    figures.whole = figures.whole && one.whole;
  }
  figures.seconds.push_back(slowest);
}

json to_json(const StateOrder& order, const StateFigures& figures) {
  const double bytes = static_cast<double>(order.workload.values()) * sizeof(float);
  const double rate = bytes / median(figures.seconds);
  const double line = line_of(order);
  return {{"bench", "state"},
          {"peers", order.workload.peers},
          {"joiners", order.joiners},
          {"bytes", order.workload.values() * sizeof(float)},
          {"rounds", order.rounds},
          {"shape", order.workload.shape},
          {"encrypted", true},
          {"seconds_median", median(figures.seconds)},
          {"seconds_max", percentile(figures.seconds, 1)},
          {"one_joiner_seconds_median", median(figures.joiner_seconds)},
          {"bytes_per_s", rate},
          {"line_share", line > 0 ? rate / line : 0},
          {"cpu_ns_per_byte", 1e9 * figures.cpu_s / figures.bytes},
          {"donors_mean", figures.donors / static_cast<double>(figures.joiner_seconds.size())},
          {"whole", figures.whole}};
}

void print_state(const json& figures) {
  const auto real = [&](const char* field) { return figures.at(field).get<double>(); };
  const auto whole = [&](const char* field) { return figures.at(field).get<std::uint64_t>(); };
  const auto shape = figures.at("shape").get<std::string>();
  fmt::print("state: {:.1f} MB to {} at once from {} who hold it, {} rounds on {} with TLS\n", real("bytes") / 1e6,
             whole("joiners"), whole("peers") - whole("joiners"), whole("rounds"),
             shape.empty() ? "loopback" : "lines of " + shape);
  print_row("all have it", fmt::format("{:.3f} s median, {:.3f} most", real("seconds_median"), real("seconds_max")));
  print_row("one has it", fmt::format("{:.3f} s median", real("one_joiner_seconds_median")));
  print_row("a joiner receives",
            fmt::format("{:.1f} MB/s, {:.1f} Mbit/s{}", real("bytes_per_s") / 1e6, 8 * real("bytes_per_s") / 1e6,
                        shape.empty() ? "" : fmt::format(", {:.1f} % of its line", 100 * real("line_share"))));
  print_row("from", fmt::format("{:.1f} peers on average", real("donors_mean")));
  print_row("processor", fmt::format("{:.2f} ns a byte, all together", real("cpu_ns_per_byte")));
  print_row("whole", figures.at("whole").get<bool>() ? "yes" : "NO");
  print_machine(figures);
}

}  // namespace

int measure_state(const StateOrder& order) {
  const Report report;
  Swarm swarm(order.workload, order.output.log_level);
  StateFigures figures;
  swarm.fetch(order.joiners);
  for (std::size_t round = 0; round < order.rounds; ++round) add(figures, swarm.fetch(order.joiners));
  report.show(to_json(order, figures), print_state, order.output, "seconds until a joiner has the state",
              {{"each joiner", figures.joiner_seconds}, {"the last of them", figures.seconds}});
  return static_cast<int>(figures.whole ? ExitCode::done : ExitCode::bug);
}

}  // namespace collab::bench
