#include "all_reduce.hpp"

#include "base/text.hpp"
#include "statistics.hpp"
#include "swarm.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>
#include <numeric>

namespace collab::bench {
namespace {

using nlohmann::json;

template <class Field>
std::vector<double> each(const std::vector<RoundFigures>& rounds, Field field) {
  std::vector<double> values;
  for (const RoundFigures& round : rounds) values.push_back(field(round));
  return values;
}

struct Figures {
  std::vector<RoundFigures> rounds;
  Results results;
  double ideal_seconds = 0;  // 0: loopback
};

double mean_of_peers(const Figures& figures, const auto& field) {
  double sum = 0;
  double count = 0;
  for (const RoundFigures& round : figures.rounds) {
    for (const auto value : field(round)) sum += static_cast<double>(value);
    count += static_cast<double>(field(round).size());
  }
  return sum / count;
}

std::vector<double> peer_medians(const Figures& figures, std::size_t peers) {
  std::vector<double> medians;
  for (std::size_t i = 0; i < peers; ++i)
    medians.push_back(
        median(each(figures.rounds, [&](const RoundFigures& round) { return round.seconds_of_peer[i]; })));
  return medians;
}

std::vector<Series> series_of(const AllReduceOrder& order, const Figures& figures) {
  std::vector<Series> series = {{"all peers", each(figures.rounds, [](const RoundFigures& r) { return r.seconds; })}};
  for (std::size_t i = 0; i < order.workload.peers; ++i)
    series.push_back({fmt::format("peer {}", i),
                      each(figures.rounds, [&](const RoundFigures& round) { return round.seconds_of_peer[i]; })});
  return series;
}

json to_json(const AllReduceOrder& order, const Figures& figures) {
  const Workload& workload = order.workload;
  const auto seconds = each(figures.rounds, [](const RoundFigures& round) { return round.seconds; });
  const auto counted = each(figures.rounds, [](const RoundFigures& round) { return round.counted; });
  const auto views = each(figures.rounds, [](const RoundFigures& round) { return double(round.views); });
  const double cpu = mean_of_peers(
      figures, [](const RoundFigures& round) -> const auto& { return round.cpu_s; });
  const double bytes = mean_of_peers(
      figures, [](const RoundFigures& round) -> const auto& { return round.bytes_sent; });
  const double hundreds_of_mb = static_cast<double>(workload.values()) * sizeof(float) / 1e8;
  return {
      {"bench", order.name},
      {"peers", workload.peers},
      {"tensors", workload.tensors},
      {"floats", workload.values()},
      {"codec", workload.codec},
      {"rounds", order.rounds},
      {"shape", workload.shape},
      {"split", workload.equal_split ? "equal" : "best"},
      {"ideal_seconds", figures.ideal_seconds},
      {"line_share", figures.ideal_seconds / median(seconds)},
      {"seed", workload.seed},
      {"encrypted", !workload.plaintext},
      {"seconds_min", *std::min_element(seconds.begin(), seconds.end())},
      {"seconds_median", median(seconds)},
      {"seconds_max", *std::max_element(seconds.begin(), seconds.end())},
      {"seconds_median_of_peer", peer_medians(figures, workload.peers)},
      {"exchange_seconds_median", median(each(figures.rounds, [](const RoundFigures& r) { return r.exchange_s; }))},
      {"commit_seconds_median", median(each(figures.rounds, [](const RoundFigures& r) { return r.commit_s; }))},
      {"predicted_seconds_median", median(each(figures.rounds, [](const RoundFigures& r) { return r.predicted_s; }))},
      {"apply_seconds_median", median(each(figures.rounds, [](const RoundFigures& r) { return r.apply_s; }))},
      {"cpu_seconds_per_peer", cpu},
      {"cpu_seconds_per_peer_per_100MB", cpu / hundreds_of_mb},
      {"bytes_sent_per_peer", static_cast<std::uint64_t>(bytes)},
      {"counted_min", *std::min_element(counted.begin(), counted.end())},
      {"views_max", static_cast<std::uint32_t>(*std::max_element(views.begin(), views.end()))},
      {"digests", figures.results.digests},
      {"equal_bytes", figures.results.equal_bytes},
      {"max_relative_error", figures.results.max_relative_error},
      {"peak_memory_bytes", figures.results.peak_memory_bytes},
      {"descriptors", figures.results.descriptors},
  };
}

void print_table(const json& figures) {
  const auto real = [&](const char* field) {
    return figures.at(field).is_null() ? std::numeric_limits<double>::infinity() : figures.at(field).get<double>();
  };
  const auto bytes = [&](const char* field) { return human_bytes(figures.at(field).get<std::uint64_t>()); };
  const auto shape = figures.at("shape").get<std::string>();
  fmt::print("{}: {} peers, {} floats in {} tensors as {}, {} rounds on {} {}\n",
             figures.at("bench").get<std::string>(), figures.at("peers").get<int>(),
             figures.at("floats").get<std::uint64_t>(), figures.at("tensors").get<std::uint64_t>(),
             figures.at("codec").get<std::string>(), figures.at("rounds").get<int>(),
             shape.empty() ? "loopback" : "lines of " + shape,
             figures.at("encrypted").get<bool>() ? "with TLS" : "in the clear");
  print_row("seconds a round", fmt::format("{:.3f} median, {:.3f} least, {:.3f} most", real("seconds_median"),
                                           real("seconds_min"), real("seconds_max")));
  if (!shape.empty())
    print_row("lines alone",
              fmt::format("{:.3f}, {:.1f} % of the median", real("ideal_seconds"), 100 * real("line_share")));
  print_row("of which", fmt::format("{:.3f} exchange, {:.3f} commit, {:.3f} apply", real("exchange_seconds_median"),
                                    real("commit_seconds_median"), real("apply_seconds_median")));
  print_row("CPU seconds", fmt::format("{:.3f} a peer and round, {:.3f} per 100 MB of float32",
                                       real("cpu_seconds_per_peer"), real("cpu_seconds_per_peer_per_100MB")));
  print_row("sent", bytes("bytes_sent_per_peer") + " a peer and round");
  print_row("equal bytes", figures.at("equal_bytes").get<bool>() ? "yes" : "NO");
  print_row("relative error", fmt::format("{:.3g} at most", real("max_relative_error")));
  print_row("peak memory", bytes("peak_memory_bytes") + " of a peer");
  print_row("descriptors", fmt::format("{} of a peer", figures.at("descriptors").get<int>()));
  print_machine(figures);
}

}  // namespace

int measure_all_reduce(const AllReduceOrder& order) {
  Figures figures;
  const Report report;
  Swarm swarm(order.workload, order.output.log_level);
  swarm.average(1);  // connections, buffers and measured rates are there from the second on
  for (std::size_t i = 0; i < order.rounds; ++i) figures.rounds.push_back(swarm.average(2 + i));
  figures.results = swarm.results();
  figures.ideal_seconds = swarm.ideal_seconds();
  report.show(to_json(order, figures), print_table, order.output, "seconds a round", series_of(order, figures));
  return static_cast<int>(figures.results.equal_bytes ? ExitCode::done : ExitCode::bug);
}

}  // namespace collab::bench
