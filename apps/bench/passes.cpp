#include "passes.hpp"

#include "matchmaking/group_key.hpp"
#include "statistics.hpp"
#include "swarm.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <numeric>
#include <vector>

namespace collab::bench {
namespace {

using nlohmann::json;

void print_passes(const json& figures) {
  const auto real = [&](const char* field) { return figures.at(field).get<double>(); };
  const auto whole = [&](const char* field) { return figures.at(field).get<std::uint64_t>(); };
  fmt::print("moshpit: {} peers on {}, {} floats in {} tensors as {}, {} passes with TLS\n", whole("peers"),
             figures.at("grid").get<std::string>(), whole("floats"), whole("tensors"),
             figures.at("codec").get<std::string>(), whole("passes"));
  print_row("seconds a pass", fmt::format("{:.3f} first, {:.3f} median, {:.3f} most", real("seconds_first"),
                                          real("seconds_median"), real("seconds_max")));
  print_row("a round of it", fmt::format("{:.3f} of the median pass, matchmaking included; {} rounds took {:.3f}",
                                         real("seconds_per_round_median"), whole("rounds"), real("seconds")));
  print_row("full groups", fmt::format("{} of {} rounds of a peer", whole("peer_rounds_full"), whole("peer_rounds")));
  print_row("equal bytes", figures.at("equal_bytes").get<bool>() ? "yes" : "NO");
  print_row("relative error", fmt::format("{:.3g} at most", real("max_relative_error")));
  print_machine(figures);
}

}  // namespace

int measure_passes(const PassesOrder& order) {
  const Report report;
  const Workload& workload = order.workload;
  const auto radices = matchmaking::radices_for(workload.peers, order.group_size);
  Swarm swarm(workload, order.output.log_level);
  std::vector<double> seconds;
  std::size_t full = 0;
  std::size_t rounds = 0;
  for (std::size_t i = 0; i < order.passes; ++i) {
    const PassOfAll pass = swarm.pass(1 + i, radices);
    seconds.push_back(pass.seconds);
    full += pass.rounds_full;
    rounds += pass.rounds;
  }
  const Results results = swarm.results();
  const json figures = {{"bench", "moshpit"},
                        {"peers", workload.peers},
                        {"tensors", workload.tensors},
                        {"floats", workload.values()},
                        {"codec", workload.codec},
                        {"seed", workload.seed},
                        {"encrypted", true},
                        {"grid", fmt::format("{}", fmt::join(radices, "x"))},
                        {"passes", order.passes},
                        {"rounds", order.passes * radices.size()},
                        {"seconds_first", seconds.front()},
                        {"seconds_median", median(seconds)},
                        {"seconds_max", percentile(seconds, 1)},
                        {"seconds_per_round_median", median(seconds) / static_cast<double>(radices.size())},
                        {"seconds", std::accumulate(seconds.begin(), seconds.end(), 0.0)},
                        {"peer_rounds", rounds},
                        {"peer_rounds_full", full},
                        {"digests", results.digests},
                        {"equal_bytes", results.equal_bytes},
                        {"max_relative_error", results.max_relative_error}};
  report.show(figures, print_passes, order.output, "seconds a pass", {{"all peers", seconds}});
  return static_cast<int>(results.equal_bytes && full == rounds ? ExitCode::done : ExitCode::bug);
}

}  // namespace collab::bench
