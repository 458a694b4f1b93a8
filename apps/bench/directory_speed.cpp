#include "directory_speed.hpp"

#include "statistics.hpp"
#include "swarm.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace collab::bench {
namespace {

using nlohmann::json;

struct Times {
  std::vector<double> stored, found, seen;
};

Times times_of(const std::vector<Written>& written) {
  Times times;
  for (std::size_t owner = 0; owner < written.size(); ++owner) {
    const Written& one = written[owner];
    times.stored.insert(times.stored.end(), one.stored_s.begin(), one.stored_s.end());
    times.found.insert(times.found.end(), one.found_s.begin(), one.found_s.end());
    for (const Written& other : written) {
      const auto seen = other.seen_at.find(owner);
      if (seen == other.seen_at.end()) continue;
      for (const auto& [version, at] : seen->second) times.seen.push_back(at - one.written_at.at(version));
    }
  }
  return times;
}

void add_times(json& figures, const std::string& name, const std::vector<double>& seconds) {
  figures[name + "_seconds_median"] = median(seconds);
  figures[name + "_seconds_p99"] = percentile(seconds, .99);
  figures[name + "_seconds_max"] = percentile(seconds, 1);
}

json to_json(const DirectoryOrder& order, const std::vector<Written>& written, const Times& times) {
  std::size_t missing = 0;
  double of_peers = 0;
  for (std::size_t i = 0; i < written.size(); ++i) {
    missing += written[i].missing;
    if (i > 0) of_peers += written[i].cpu_s / written[i].seconds / static_cast<double>(written.size() - 1);
  }
  json figures = {{"bench", "directory"},
                  {"peers", order.workload.peers},
                  {"rounds", order.rounds},
                  {"shape", order.workload.shape},
                  {"every_s", order.every_s},
                  {"missing", missing},
                  {"server_cpu_s", written[0].cpu_s / written[0].seconds},
                  {"peer_cpu_s", of_peers}};
  add_times(figures, "stored", times.stored);
  add_times(figures, "found", times.found);
  add_times(figures, "seen", times.seen);
  return figures;
}

void print_directory(const json& figures) {
  const auto real = [&](const std::string& field) { return figures.at(field).get<double>(); };
  const auto spread = [&](const std::string& name) {
    return fmt::format("{:.2f} ms median, {:.2f} p99, {:.2f} most", 1e3 * real(name + "_seconds_median"),
                       1e3 * real(name + "_seconds_p99"), 1e3 * real(name + "_seconds_max"));
  };
  const auto shape = figures.at("shape").get<std::string>();
  fmt::print("directory: {} peers write {} records each, one in {:.2f} s, on {} with TLS\n",
             figures.at("peers").get<int>(), figures.at("rounds").get<int>(), real("every_s"),
             shape.empty() ? "loopback" : "lines of " + shape);
  print_row("stored", spread("stored"));
  print_row("all records read", spread("found"));
  print_row("seen by who watches", spread("seen"));
  print_row("processor", fmt::format("{:.2f} % of a core for the server, {:.2f} % for another peer",
                                     100 * real("server_cpu_s"), 100 * real("peer_cpu_s")));
  print_row("missing", fmt::format("{}", figures.at("missing").get<int>()));
  print_machine(figures);
}

}  // namespace

int measure_directory(const DirectoryOrder& order) {
  const Report report;
  Swarm swarm(order.workload, order.output.log_level);
  const auto written = swarm.write_records(order.rounds, order.every_s);
  const Times times = times_of(written);
  const json figures = to_json(order, written, times);
  report.show(figures, print_directory, order.output, "seconds",
              {{"stored", times.stored}, {"all records read", times.found}, {"seen by who watches", times.seen}});
  return static_cast<int>(figures.at("missing") == 0 ? ExitCode::done : ExitCode::bug);
}

}  // namespace collab::bench
