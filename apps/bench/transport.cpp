#include "transport.hpp"

#include "relay_peer.hpp"
#include "statistics.hpp"
#include "swarm.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace collab::bench {
namespace {

using nlohmann::json;

/// Of whole packets: what the slower of the two ways can carry.
double line_of(const Workload& workload, bool both_ways) {
  const auto lines = lines_of(workload.shape, 2);
  if (lines.empty()) return 0;
  const double there = std::min(lines[0].up_bytes_per_s, lines[1].down_bytes_per_s);
  const double back = std::min(lines[1].up_bytes_per_s, lines[0].down_bytes_per_s);
  return both_ways ? std::min(there, back) : there;
}

std::vector<double> answers_of(const std::vector<Carried>& carried) {
  std::vector<double> answers;
  for (const Carried& one : carried) answers.insert(answers.end(), one.answers.begin(), one.answers.end());
  return answers;
}

json to_json(const TransportOrder& order, const std::vector<Carried>& carried) {
  double rate = 0;
  double cpu = 0;
  double bytes = 0;
  const std::vector<double> answers = answers_of(carried);
  for (std::size_t i = 0; i < 2; ++i) {
    const Carried& one = carried.at(i);
    cpu += one.cpu_s;
    bytes += static_cast<double>(one.bytes_in_all);
    if (one.bytes == 0) continue;
    const double own = static_cast<double>(one.bytes) / one.seconds;
    rate = rate == 0 ? own : std::min(rate, own);
  }
  const double line = line_of(order.workload, order.both_ways);
  const double relay_cpu = order.workload.relayed ? carried.at(kRelay).cpu_s : 0;
  const double quota = order.workload.relay_bits_per_s / 8;
  return {{"bench", order.workload.relayed ? "relay" : "transport"},
          {"both_ways", order.both_ways},
          {"frame_bytes", order.frame_bytes},
          {"seconds", order.seconds},
          {"shape", order.workload.shape},
          {"encrypted", !order.workload.plaintext},
          {"bytes_per_s", rate},
          {"line_share", line > 0 ? rate / line : 0},
          {"ns_per_byte", 1e9 * cpu / bytes},
          {"relay_ns_per_byte", 1e9 * relay_cpu / bytes},
          {"quota_share", quota > 0 ? rate / quota : 0},
          {"questions", answers.size()},
          {"answer_median_s", median(answers)},
          {"answer_p99_s", percentile(answers, .99)},
          {"answer_max_s", percentile(answers, 1)}};
}

void print_carried(const json& figures) {
  const auto real = [&](const char* field) { return figures.at(field).get<double>(); };
  const auto shape = figures.at("shape").get<std::string>();
  fmt::print("{}: frames of {} kB {}, {:.0f} s on {}, {}\n", figures.at("bench").get<std::string>(),
             figures.at("frame_bytes").get<int>() / 1024, figures.at("both_ways").get<bool>() ? "both ways" : "one way",
             real("seconds"), shape.empty() ? "loopback" : "lines of " + shape,
             figures.at("encrypted").get<bool>() ? "encrypted" : "in the clear");
  fmt::print("  carried                 {:.1f} MB/s, {:.1f} Mbit/s{}\n", real("bytes_per_s") / 1e6,
             8 * real("bytes_per_s") / 1e6,
             shape.empty() ? "" : fmt::format(", {:.1f} % of the line", 100 * real("line_share")));
  fmt::print("  processor               {:.2f} ns a byte, both ends together\n", real("ns_per_byte"));
  if (real("relay_ns_per_byte") > 0)
    fmt::print("                          {:.2f} ns a byte, the relay\n", real("relay_ns_per_byte"));
  if (real("quota_share") > 0) fmt::print("  of the relay's quota    {:.1f} %\n", 100 * real("quota_share"));
  fmt::print("  small questions         {:.2f} ms median, {:.2f} p99, {:.2f} most, of {}\n",
             1e3 * real("answer_median_s"), 1e3 * real("answer_p99_s"), 1e3 * real("answer_max_s"),
             figures.at("questions").get<int>());
  print_machine(figures);
}

}  // namespace

int measure_transport(const TransportOrder& order) {
  const Report report;
  Swarm swarm(order.workload, order.output.log_level);
  const auto carried = swarm.carry(1, order.seconds, order.both_ways, order.frame_bytes);
  report.show(to_json(order, carried), print_carried, order.output, "seconds that a small question took",
              {{"beside bulk", answers_of(carried)}});
  return 0;
}

}  // namespace collab::bench
