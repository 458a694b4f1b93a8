#include "state.hpp"

#include "options.hpp"
#include "sim/state_swarm.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>

namespace collab::sim {
namespace {

StateSwarmOptions state_options(const node::Config& config) {
  const auto count = [&](const char* name) { return static_cast<std::size_t>(config.number(name)); };
  StateSwarmOptions options;
  options.seed = static_cast<std::uint64_t>(config.number("seed"));
  options.donors = count("peers");
  options.joiners = count("joiners");
  if (options.donors + options.joiners > kNetworkPeersMax)
    refuse(fmt::format("connections are real, of at most {} peers and joiners", kNetworkPeersMax), "--peers 8");
  options.state_bytes = static_cast<std::size_t>(config.real("state-bytes"));
  options.liars = count("liars");
  options.dying = count("dying");
  if (options.liars + options.dying >= options.donors) refuse("somebody must stay honest and alive", "--peers 8");
  options.crypto = crypto_of(config);
  read_links(config, options.links, options.line);
  return options;
}

double mean_donors(const StateFacts& facts) {
  double sum = 0;
  for (const JoinerFact& one : facts.joiners) sum += static_cast<double>(one.donors);
  return sum / static_cast<double>(facts.joiners.size());
}

}  // namespace

int run_state(const node::Config& config, const std::string& command) {
  StateSwarmOptions options = state_options(config);
  const auto seeds = static_cast<std::uint64_t>(config.number("seeds"));
  const bool quiet = is_quiet(config);
  const auto start = std::chrono::steady_clock::now();
  nlohmann::json runs = nlohmann::json::array();
  bool held = true;
  if (!quiet)
    fmt::print("{:>6} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9} {:>8} {:>8} {:>8}\n", "seed", "whole", "one, s", "half, s",
               "95 %, s", "all, s", "95 %/one", "donors", "liars", "line");
  for (const std::uint64_t first = options.seed; options.seed < first + seeds; ++options.seed) {
    StateSwarmOptions alone = options;
    alone.joiners = 1;
    alone.liars = alone.dying = 0;
    const double one_s = run_state_swarm(alone).seconds_of(1);
    const StateFacts facts = run_state_swarm(options);
    std::size_t whole = 0;
    std::size_t caught = 0;
    for (const JoinerFact& joiner : facts.joiners) {
      whole += joiner.whole ? 1 : 0;
      caught += joiner.liars;
    }
    held = held && whole == options.joiners;
    const double p95_s = facts.seconds_of(0.95);
    if (!quiet)
      fmt::print("{:>6} {:>8} {:>8.2f} {:>8.2f} {:>8.2f} {:>8.2f} {:>9.1f} {:>8.1f} {:>8} {:>7.1f}%\n", options.seed,
                 whole, one_s, facts.seconds_of(0.5), p95_s, facts.seconds_of(1), p95_s / one_s, mean_donors(facts),
                 caught, 100 * facts.line_share);
    runs.push_back({{"seed", options.seed},
                    {"command", fmt::format("{} --seed {}", command, options.seed)},
                    {"fingerprint", fmt::format("{:016x}", facts.fingerprint)},
                    {"joiners_whole", whole},
                    {"one_joiner_s", one_s},
                    {"median_s", facts.seconds_of(0.5)},
                    {"p95_s", p95_s},
                    {"max_s", facts.seconds_of(1)},
                    {"p95_of_one_joiner", p95_s / one_s},
                    {"donors_mean", mean_donors(facts)},
                    {"liars_caught", caught},
                    {"line_share", facts.line_share},
                    {"bytes", facts.bytes_delivered}});
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!quiet)
    fmt::print("crypto {}, {} joiners, {} donors, {:.1f} MB: {}; {:.1f} s\n", name(options.crypto), options.joiners,
               options.donors, static_cast<double>(options.state_bytes) / 1e6, held ? "held" : "BROKEN", seconds);
  const nlohmann::json out = {{"workload", "state"},
                              {"configuration",
                               {{"peers", options.donors},
                                {"joiners", options.joiners},
                                {"state_bytes", options.state_bytes},
                                {"liars", options.liars},
                                {"dying", options.dying},
                                {"crypto", name(options.crypto)}}},
                              {"held", held},
                              {"runs", runs},
                              {"seconds", seconds}};
  write_json(config, out);
  return held ? 0 : 1;
}

}  // namespace collab::sim
