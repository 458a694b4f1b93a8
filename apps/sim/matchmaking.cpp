#include "matchmaking.hpp"

#include "options.hpp"
#include "sim/grid_swarm.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>

namespace collab::sim {
namespace {

constexpr double kFullShareMin = 0.99;
constexpr Duration kSlack = std::chrono::milliseconds(50);
constexpr std::size_t kWindows = 2;  // strangers, then peers that are connected
constexpr const char* kWho[kWindows] = {"strangers", "connected"};

GridOptions meeting_options(const node::Config& config) {
  GridOptions options;
  options.seed = static_cast<std::uint64_t>(config.number("seed"));
  options.peers = static_cast<std::size_t>(config.number("peers"));
  if (options.peers < 2 || options.peers > kNetworkPeersMax)
    refuse(fmt::format("searches go through real connections, of 2 to {} peers", kNetworkPeersMax), "--peers 64");
  options.group_size_max = static_cast<std::size_t>(config.number("group-size"));
  options.radices = read_grid(config, options.peers);
  std::uint64_t cells = 1;
  for (const std::uint32_t radix : options.radices) cells *= radix;
  if (cells > options.peers) refuse("the grid has more cells than there are peers", "--grid auto");
  options.values = 4096;
  options.crypto = crypto_of(config);
  read_links(config, options.links, options.line);
  return options;
}

nlohmann::json to_json(const WindowFacts& facts, const char* who) {
  return {{"peers", who},
          {"full_share", facts.full_share},
          {"full_groups", facts.groups},
          {"begin_after_declared_median_s", to_seconds(facts.begin_after_median)},
          {"begin_after_declared_max_s", to_seconds(facts.begin_after_max)}};
}

}  // namespace

int run_matchmaking(const node::Config& config, const std::string& command) {
  GridOptions options = meeting_options(config);
  const auto seeds = static_cast<std::uint64_t>(config.number("seeds"));
  const Duration length = from_seconds(config.real("window"));
  const double limit_s = to_seconds(4 * options.links.latency_max + kSlack);
  const bool quiet = is_quiet(config);
  const auto start = std::chrono::steady_clock::now();
  nlohmann::json runs = nlohmann::json::array();
  bool held = true;
  if (!quiet)
    fmt::print("{:>6} {:>10} {:>12} {:>12} {:>12} {:>10} {:>12}\n", "seed", "peers", "in full", "full groups",
               "begin, s", "at most, s", "MB");
  for (const std::uint64_t first = options.seed; options.seed < first + seeds; ++options.seed) {
    GridSwarm swarm(options);
    const auto windows = swarm.meet(kWindows, length);
    nlohmann::json run = {{"seed", options.seed},
                          {"command", fmt::format("{} --seed {}", command, options.seed)},
                          {"fingerprint", fmt::format("{:016x}", swarm.fingerprint())},
                          {"bytes", swarm.bytes_delivered()}};
    for (std::size_t window = 0; window < kWindows; ++window) {
      const WindowFacts facts = window_facts(windows[window]);
      run["windows"].push_back(to_json(facts, kWho[window]));
      if (!quiet)
        fmt::print("{:>6} {:>10} {:>11.2f}% {:>12} {:>12.3f} {:>10.3f} {:>12.2f}\n", options.seed, kWho[window],
                   100 * facts.full_share, facts.groups, to_seconds(facts.begin_after_median),
                   to_seconds(facts.begin_after_max), static_cast<double>(swarm.bytes_delivered()) / 1e6);
      if (window > 0) held = held && facts.full_share >= kFullShareMin && to_seconds(facts.begin_after_max) <= limit_s;
    }
    runs.push_back(std::move(run));
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!quiet)
    fmt::print("crypto {}, grid {}, begin at most {:.3f} s after the last declaration: {}; {:.1f} s\n",
               name(options.crypto), fmt::join(options.radices, "x"), limit_s, held ? "held" : "BROKEN", seconds);
  const nlohmann::json out = {{"workload", "matchmaking"},
                              {"configuration",
                               {{"peers", options.peers},
                                {"grid", fmt::format("{}", fmt::join(options.radices, "x"))},
                                {"window_s", to_seconds(length)},
                                {"crypto", name(options.crypto)}}},
                              {"begin_after_declared_limit_s", limit_s},
                              {"held", held},
                              {"runs", runs},
                              {"seconds", seconds}};
  write_json(config, out);
  return held ? 0 : 1;
}

}  // namespace collab::sim
