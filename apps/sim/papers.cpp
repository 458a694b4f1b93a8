#include "papers.hpp"

#include "cli/program.hpp"
#include "options.hpp"
#include "sim/grid_deaths.hpp"
#include "sim/grid_model.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <map>
#include <set>

namespace collab::sim {
namespace {

constexpr double kSweepErrorMax = 1e-6;
constexpr double kOthersMax = 1.1;
constexpr double kMoreMax_s = 5;
constexpr std::uint64_t kSizes = 15;  // groups of 2 to 16
constexpr std::uint64_t kSweepWeightMax = 199;

/// What all three have in common; tells and writes.
int close(const node::Config& config, const char* workload, const std::string& command, bool held, bool interrupted,
          nlohmann::json out) {
  out["workload"] = workload;
  out["command"] = fmt::format("{} --seed {} --seeds {}", command, config.number("seed"), config.number("seeds"));
  out["held"] = held;
  if (!is_quiet(config)) {
    for (const auto& [key, value] : out.items())
      if (!value.is_structured() && key != "command") fmt::print("{:<28} {}\n", key, value.dump());
  }
  write_json(config, out);
  if (!held) return 1;
  return interrupted ? 3 : 0;
}

struct Sizes {
  std::size_t from = 8;
  std::size_t to = 2000;
};

Sizes read_sizes(const std::string& text) {
  Sizes sizes;
  const auto dots = text.find("..");
  const char* end = text.data() + text.size();
  const char* middle = dots == std::string::npos ? end : text.data() + dots;
  const auto first = std::from_chars(text.data(), middle, sizes.from);
  const auto last = std::from_chars(dots == std::string::npos ? text.data() : middle + 2, end, sizes.to);
  const bool read = first.ec == std::errc() && last.ec == std::errc() && first.ptr == middle && last.ptr == end;
  if (!read || sizes.from < 2 || sizes.to < sizes.from || sizes.to > 100'000)
    refuse(fmt::format("--sizes \"{}\"", text), "--sizes 8..2000");
  return sizes;
}

}  // namespace

int run_sweep(const node::Config& config, const std::string& command) {
  const Sizes sizes = read_sizes(config.text("sizes"));
  const auto size_max = static_cast<std::size_t>(config.number("group-size"));
  const cli::Interrupt interrupt(cli::BrokenPipe::ends_program);
  std::size_t exact = 0;
  std::size_t largest = 0;
  double error = 0;
  std::vector<std::size_t> inexact;
  std::set<std::uint32_t> rounds;
  for (std::size_t peers = sizes.from; peers <= sizes.to && !interrupt.asked(); ++peers) {
    GridModelOptions options;
    options.seed = static_cast<std::uint64_t>(config.number("seed")) + peers;
    options.peers = peers;
    options.radices = matchmaking::radices_for(peers, size_max);
    options.weight_max = kSweepWeightMax;
    GridModel model(options);
    for (std::uint32_t round = 0; round < model.rounds_per_pass(); ++round) model.round();
    rounds.insert(model.rounds_per_pass());
    largest = std::max(largest, model.largest_group());
    error = std::max(error, model.max_relative_error());
    const bool all = model.complete() == peers && model.equal_bytes() && model.max_relative_error() <= kSweepErrorMax &&
                     model.largest_group() <= size_max;
    all ? void(++exact) : inexact.push_back(peers);
  }
  const nlohmann::json out = {{"sizes", config.text("sizes")},       {"exact", exact},           {"inexact", inexact},
                              {"max_relative_error_after_d", error}, {"largest_group", largest}, {"rounds", rounds}};
  return close(config, "sweep", command, inexact.empty(), interrupt.asked(), out);
}

int run_deaths(const node::Config& config, const std::string& command) {
  GridOptions options;
  options.peers = static_cast<std::size_t>(config.number("peers"));
  options.radices = read_grid(config, options.peers);
  if (options.radices.size() != 2) refuse("one death in each of two rounds", "--peers 16 --grid 4x4");
  if (options.peers > kNetworkPeersMax) refuse("passes go through real connections", "--peers 16 --grid 4x4");
  options.crypto = crypto_of(config);
  options.values = static_cast<std::size_t>(config.number("values"));
  const cli::Interrupt interrupt(cli::BrokenPipe::ends_program);
  const auto first = static_cast<std::uint64_t>(config.number("seed"));
  const auto seeds = static_cast<std::uint64_t>(config.number("seeds"));
  double others = 0;
  double others_max = 0;
  double more_s = 0;
  std::uint64_t runs = 0;
  std::vector<std::uint64_t> broken;
  for (std::uint64_t seed = first; seed < first + seeds && !interrupt.asked(); ++seed) {
    options.seed = seed;
    const DeathsFacts facts = measure_deaths(options);
    others += facts.others;
    others_max = std::max(others_max, facts.others);
    more_s = std::max(more_s, facts.more_s_max);
    ++runs;
    const bool held = facts.struck && facts.whole_or_nothing && facts.more_s_max <= kMoreMax_s;
    if (!held) broken.push_back(seed);
  }
  const double others_mean = others / static_cast<double>(std::max<std::uint64_t>(runs, 1));
  const bool mean_held = broken.empty() && others_mean <= kOthersMax;  // jitter is drawn anew after a death
  const nlohmann::json out = {{"runs", runs},
                              {"broken_seeds", broken},
                              {"others_time_mean", others_mean},
                              {"others_time_max", others_max},
                              {"others_time_limit", kOthersMax},
                              {"victims_more_s_max", more_s},
                              {"victims_more_s_limit", kMoreMax_s}};
  return close(config, "deaths", command, mean_held, interrupt.asked(), out);
}

int run_split(const node::Config& config, const std::string& command) {
  GridOptions options;
  options.peers = static_cast<std::size_t>(config.number("peers"));
  if (options.peers < 2 || options.peers > 64) refuse("that is no group", "--peers 24");
  read_links(config, options.links, options.line);
  options.lines = read_lines(config, options.peers, options.links);
  if (options.lines.empty()) refuse("on equal lines there is nothing to gain", "--links hybrid");
  options.values = static_cast<std::size_t>(config.number("values"));
  options.crypto = crypto_of(config);
  const auto first = static_cast<std::uint64_t>(config.number("seed"));
  const auto seeds = static_cast<std::uint64_t>(config.number("seeds"));
  const cli::Interrupt interrupt(cli::BrokenPipe::ends_program);
  double best = 0;
  double equal = 0;
  std::uint64_t runs = 0;
  for (options.seed = first; options.seed < first + seeds && !interrupt.asked(); ++options.seed, ++runs) {
    options.equal_split = false;
    best += one_round(options);
    options.equal_split = true;
    equal += one_round(options);
  }
  const auto count = static_cast<double>(std::max<std::uint64_t>(runs, 1));
  const nlohmann::json out = {{"runs", runs},
                              {"round_s_best", best / count},
                              {"round_s_equal", equal / count},
                              {"times_faster", best > 0 ? equal / best : 0}};
  return close(config, "split", command, best > 0 && best <= equal, interrupt.asked(), out);
}

int run_killed(const node::Config& config, const std::string& command) {
  GridOptions options;
  options.crypto = crypto_of(config);
  options.values = static_cast<std::size_t>(config.number("values"));
  const cli::Interrupt interrupt(cli::BrokenPipe::ends_program);
  const auto first = static_cast<std::uint64_t>(config.number("seed"));
  const auto seeds = static_cast<std::uint64_t>(config.number("seeds"));
  std::uint64_t runs = 0;
  std::uint64_t quorums = 0;
  double slowest_s = 0;
  std::map<std::string, std::vector<std::uint64_t>> broken;
  for (std::uint64_t seed = first; seed < first + seeds && !interrupt.asked(); ++seed) {
    options.seed = seed;
    options.peers = 2 + seed % kSizes;
    const KilledFacts facts = kill_anywhere(options);
    ++runs;
    quorums += facts.committed == options.peers - 1 ? 1 : 0;
    slowest_s = std::max(slowest_s, to_seconds(facts.length));
    for (const std::string& what : facts.broken) broken[what].push_back(seed);
  }
  const nlohmann::json out = {
      {"runs", runs}, {"all_survivors_committed", quorums}, {"broken_seeds", broken}, {"slowest_s", slowest_s}};
  return close(config, "killed", command, broken.empty(), interrupt.asked(), out);
}

}  // namespace collab::sim
