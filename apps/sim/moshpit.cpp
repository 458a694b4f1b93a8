#include "moshpit.hpp"

#include "base/error.hpp"
#include "cli/program.hpp"
#include "options.hpp"
#include "sim/gossip_model.hpp"
#include "sim/grid_model.hpp"
#include "sim/grid_swarm.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <vector>

namespace collab::sim {
namespace {

constexpr std::uint32_t kRoundsMax = 100;  // of averaging parameters; a variance that takes longer is never reached
constexpr std::uint64_t kWeightMax = 199;
constexpr double kErrorMax = 1e-6;

struct Setup {
  std::uint64_t seed = 1;
  std::uint64_t seeds = 1;
  std::size_t peers = 0;
  std::vector<std::uint32_t> radices;
  std::string groups;  ///< grid, random, or the name of a Gossip
  bool random_groups = false;
  std::optional<Gossip> gossip;
  bool plain = true;   ///< rounds to consensus, everybody weighs one
  bool summed = true;  ///< one pass over the grid, weights summed
  double failure = 0;
  bool network = false;
  Crypto crypto = Crypto::fake;
};

Setup read_setup(const node::Config& config) {
  Setup setup;
  setup.seed = static_cast<std::uint64_t>(config.number("seed"));
  setup.seeds = static_cast<std::uint64_t>(config.number("seeds"));
  setup.peers = static_cast<std::size_t>(config.number("peers"));
  if (setup.peers < 2) refuse("one peer is no swarm", "--peers 64");
  setup.radices = read_grid(config, setup.peers);
  setup.groups = config.text("groups");
  setup.random_groups = setup.groups == "random";
  setup.gossip = gossip_named(setup.groups);
  if (setup.groups != "grid" && !setup.random_groups && !setup.gossip)
    refuse(fmt::format("--groups \"{}\"", setup.groups), "grid, random, ring, push_sum or restart");
  const std::string weights = config.text("weights");
  if (weights != "both" && weights != "plain" && weights != "summed")
    refuse(fmt::format("--weights \"{}\"", weights), "plain, summed or both");
  setup.plain = weights != "summed";
  setup.summed = weights != "plain" && setup.groups == "grid";
  setup.failure = config.real("failure");
  setup.network = config.toggle("network");
  setup.crypto = crypto_of(config);
  if (!setup.network) return setup;
  if (setup.groups != "grid") refuse("only the grid is a protocol; the others are for comparison", "no --network");
  if (setup.peers > kNetworkPeersMax)
    refuse(fmt::format("--network makes real connections, of at most {} peers", kNetworkPeersMax), "no --network");
  std::uint64_t cells = 1;
  for (const std::uint32_t radix : setup.radices) cells *= radix;
  if (cells > setup.peers) refuse("the grid has more cells than there are peers", "--grid auto");
  return setup;
}

struct RoundsToGoal {
  double sum = 0;       ///< over seeds
  bool reached = true;  ///< by each of them
  void add(std::optional<std::uint32_t> rounds) {
    reached = reached && rounds.has_value();
    sum += rounds.value_or(0);
  }
};

/// Sums over seeds.
struct Totals {
  RoundsToGoal rounds_to_1e9;
  RoundsToGoal rounds_to_1e4;
  double variance_before = 0;
  double variance_after_one = 0;
  double max_relative_error = 0;
  bool equal_bytes = true;
  std::uint64_t complete = 0;
  std::size_t largest_group = 0;
  std::uint32_t rounds_per_pass = 0;
  std::uint64_t bytes = 0;
  double virtual_s = 0;
};

/// Averaging of parameters: everybody weighs one, absent peers keep their values, round after round.
template <class Model>
void count_rounds(Model& model, Totals& totals) {
  totals.variance_before += model.variance();
  std::optional<std::uint32_t> to_1e4;
  std::optional<std::uint32_t> to_1e9;
  for (std::uint32_t round = 1; round <= kRoundsMax && !to_1e9; ++round) {
    model.round();
    const double variance = model.variance();
    if (round == 1) totals.variance_after_one += variance;
    if (!to_1e4 && variance < 1e-4) to_1e4 = round;
    if (variance < 1e-9) to_1e9 = round;
  }
  totals.rounds_to_1e4.add(to_1e4);
  totals.rounds_to_1e9.add(to_1e9);
}

void run_plain(GridModelOptions options, Totals& totals) {
  options.weight_max = 0;
  GridModel model(options);
  count_rounds(model, totals);
  totals.largest_group = std::max(totals.largest_group, model.largest_group());
}

/// A gradient pass: weights summed, one voice for each previous group.
void run_summed(GridModelOptions options, Totals& totals) {
  options.weight_max = kWeightMax;
  GridModel model(options);
  totals.rounds_per_pass = model.rounds_per_pass();
  for (std::uint32_t round = 0; round < model.rounds_per_pass(); ++round) model.round();
  totals.max_relative_error = std::max(totals.max_relative_error, model.max_relative_error());
  totals.equal_bytes = totals.equal_bytes && model.equal_bytes();
  totals.complete += model.complete();
  totals.largest_group = std::max(totals.largest_group, model.largest_group());
}

void run_model(const Setup& setup, std::uint64_t seed, Totals& totals) {
  if (setup.gossip) {
    GossipOptions gossip{seed, setup.peers, *setup.gossip, setup.failure};
    GossipModel model(gossip);
    return count_rounds(model, totals);
  }
  GridModelOptions options;
  options.seed = seed;
  options.peers = setup.peers;
  options.radices = setup.radices;
  options.random_groups = setup.random_groups;
  options.absent = setup.failure;
  if (setup.plain) run_plain(options, totals);
  if (setup.summed) run_summed(options, totals);
}

/// One pass of production peers; after each round but the last a peer dies with the chance of `--failure`.
void run_network(const Setup& setup, std::uint64_t seed, Totals& totals) {
  GridOptions options;
  options.seed = seed;
  options.peers = setup.peers;
  options.radices = setup.radices;
  options.group_size_max = matchmaking::kGroupSizeMax;
  options.weight_max = kWeightMax;
  options.values = 4096;
  options.crypto = setup.crypto;
  GridSwarm swarm(options);
  Random random = Random(seed).derive("failure");
  const std::uint32_t last = swarm.schedule().rounds();
  const auto perhaps_die = [&](std::size_t peer, std::string_view event, Log::Fields fields) {
    if (event != "averaging.round") return;
    for (const LogField& field : fields) {
      const bool may_die = field.name == "round" && std::get<std::uint64_t>(field.value) < last;
      if (may_die && random.chance(setup.failure)) swarm.kill(peer);
    }
  };
  swarm.on_event(perhaps_die);
  swarm.run();
  const GridResult result = swarm.result();
  totals.rounds_per_pass = last;
  totals.max_relative_error = std::max(totals.max_relative_error, result.max_relative_error);
  totals.equal_bytes = totals.equal_bytes && result.equal_bytes;
  totals.complete += result.complete;
  totals.largest_group = std::max(totals.largest_group, result.largest_group);
  totals.bytes += swarm.bytes_delivered();
  totals.virtual_s += to_seconds(swarm.length());
}

nlohmann::json mean_of(const RoundsToGoal& rounds, double seeds) {
  return rounds.reached ? nlohmann::json(rounds.sum / seeds) : nlohmann::json();
}

nlohmann::json to_json(const Setup& setup, const Totals& totals, const std::string& command, double seconds) {
  const auto seeds = static_cast<double>(setup.seeds);
  nlohmann::json out;
  out["workload"] = "moshpit";
  out["command"] = fmt::format("{} --seed {} --seeds {}", command, setup.seed, setup.seeds);
  out["network"] = setup.network;
  out["configuration"] = {{"peers", setup.peers},         {"grid", fmt::format("{}", fmt::join(setup.radices, "x"))},
                          {"failure", setup.failure},     {"groups", setup.groups},
                          {"crypto", name(setup.crypto)}, {"seed", setup.seed},
                          {"seeds", setup.seeds}};
  if (!setup.gossip) out["largest_group"] = totals.largest_group;
  if (!setup.network && setup.plain) {
    out["rounds_to_1e-9_mean"] = mean_of(totals.rounds_to_1e9, seeds);
    out["rounds_to_1e-4_mean"] = mean_of(totals.rounds_to_1e4, seeds);
    out["variance_factor_first_round"] = totals.variance_after_one / totals.variance_before;
  }
  if (setup.summed) {
    out["rounds_per_pass"] = totals.rounds_per_pass;
    out["max_relative_error_after_d"] = totals.max_relative_error;
    out["equal_bytes"] = totals.equal_bytes;
    out["complete_share"] = static_cast<double>(totals.complete) / (seeds * static_cast<double>(setup.peers));
  }
  if (setup.network) {
    out["bytes_delivered_mean"] = static_cast<double>(totals.bytes) / seeds;
    out["virtual_seconds_mean"] = totals.virtual_s / seeds;
  }
  out["seconds"] = seconds;
  return out;
}

std::string text_of(const nlohmann::json& result) {
  std::string out;
  for (const auto& [key, value] : result.items())
    if (!value.is_object() && key != "command") out += fmt::format("{:<28} {}\n", key, value.dump());
  return out;
}

}  // namespace

int run_moshpit(const node::Config& config, const std::string& command) {
  const Setup setup = read_setup(config);
  const cli::Interrupt interrupt(cli::BrokenPipe::ends_program);
  const auto start = std::chrono::steady_clock::now();
  Totals totals;
  for (std::uint64_t i = 0; i < setup.seeds; ++i) {
    if (interrupt.asked()) return 3;
    if (setup.network) {
      run_network(setup, setup.seed + i, totals);
    } else {
      run_model(setup, setup.seed + i, totals);
    }
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const nlohmann::json result = to_json(setup, totals, command, seconds);
  if (!is_quiet(config)) fmt::print("{}", text_of(result));
  write_json(config, result);
  // who dies or is absent is missed by the mean of those who are left; calm passes must be exact
  const bool exact = setup.failure > 0 || !setup.summed || totals.max_relative_error <= kErrorMax;
  return totals.equal_bytes && exact ? 0 : 1;
}

}  // namespace collab::sim
