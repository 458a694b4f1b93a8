#include "estimate.hpp"

#include "averaging/load_balance.hpp"
#include "base/random.hpp"
#include "epoch/member_options.hpp"
#include "options.hpp"
#include "sim/grid_peer.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace collab::sim {
namespace {

constexpr double kSlack_s = 0.05;
constexpr double kRoundTrips = 3;  // two to find a group, one to agree on a result
constexpr double kGoodShare = 0.8;
constexpr double kCoarseBytes = 1.5;           // a value, and more: 8 bits would be fewer
constexpr double kStateBytesPerValue = 12;  // parameters and two moments, float32

/// Seconds of one round of one group; adds what each member moves.
double round_of(const std::vector<std::size_t>& members, const EstimateOptions& options, bool first,
                std::vector<double>& up, std::vector<double>& down) {
  std::vector<averaging::MemberLoad> loads;
  for (const std::size_t peer : members)
    loads.push_back({options.lines[peer].up_bytes_per_s, options.lines[peer].down_bytes_per_s, true, true});
  averaging::LoadOptions load;
  load.part_bytes_per_value = first ? options.part_bytes_per_value : options.bytes_per_value;
  load.result_bytes_per_value = options.bytes_per_value;
  const auto plan = averaging::plan_load(loads, options.values, load);
  if (!plan) return 0;
  const double all = std::accumulate(plan->units.begin(), plan->units.end(), 0.0);
  const double parts = load.part_bytes_per_value * static_cast<double>(options.values);
  const double results = load.result_bytes_per_value * static_cast<double>(options.values);
  const auto others = static_cast<double>(members.size() - 1);
  for (std::size_t i = 0; i < members.size(); ++i) {
    const double share = plan->units[i] / all;
    up[members[i]] += parts * (1 - share) + results * share * others;
    down[members[i]] += parts * share * others + results * (1 - share);
  }
  return plan->seconds;
}

void use_codec(CodecId codec, EstimateOptions& options) {
  const CodecMap codecs = grid_codecs(options.values, codec);
  const auto bytes_per_value = [&](const CodecMap& map) {
    return static_cast<double>(map.encoded_bytes({0, map.length()})) / static_cast<double>(options.values);
  };
  options.bytes_per_value = bytes_per_value(codecs);
  options.part_bytes_per_value = bytes_per_value(codecs.parts());
}

std::string percent(double share) {
  return fmt::format("{:.0f} %", 100 * share);
}

}  // namespace

Estimate estimate(const EstimateOptions& options) {
  const std::size_t peers = options.lines.size();
  Estimate out;
  out.compute_s = static_cast<double>(options.target_batch) / options.samples_per_s;
  std::vector<double> up(peers);
  std::vector<double> down(peers);
  std::vector<std::size_t> order(peers);
  std::iota(order.begin(), order.end(), std::size_t(0));
  Random random = Random(options.seed).derive("estimate");
  for (std::size_t round = 0; round < options.radices.size(); ++round) {
    for (std::size_t left = peers; left > 1; --left) std::swap(order[random.below(left)], order[left - 1]);
    // as many groups as there are cells, so of equal size but for one
    const std::size_t groups = std::max<std::size_t>(1, peers / options.radices[round]);
    double slowest = 0;
    for (std::size_t group = 0; group < groups; ++group) {
      const auto begin = order.begin() + static_cast<std::ptrdiff_t>(peers * group / groups);
      const auto end = order.begin() + static_cast<std::ptrdiff_t>(peers * (group + 1) / groups);
      slowest = std::max(slowest, round_of({begin, end}, options, round == 0, up, down));
    }
    out.rounds_s += slowest + kSlack_s + kRoundTrips * 2 * to_seconds(options.latency);
  }
  out.up_bytes_mean = std::accumulate(up.begin(), up.end(), 0.0) / static_cast<double>(peers);
  out.up_bytes_max = *std::max_element(up.begin(), up.end());
  out.down_bytes_max = *std::max_element(down.begin(), down.end());
  return out;
}

int run_estimate(const node::Config& config, const std::string& command) {
  EstimateOptions options;
  LinkOptions links;
  LineOptions line;
  const auto peers = static_cast<std::size_t>(config.number("peers"));
  if (peers < 2) refuse("one peer is no swarm", "--peers 200");
  read_links(config, links, line);
  options.lines = read_lines(config, peers, links);
  if (options.lines.empty()) options.lines.assign(peers, line);
  options.latency = (links.latency_min + links.latency_max) / 2;
  options.values = static_cast<std::size_t>(config.number("values"));
  const bool by_lines = config.text("codec") == kAutoCodec;
  const auto codec = by_lines ? CodecId::float16 : codec_named(config.text("codec"));
  if (!codec) refuse(fmt::format("there is no codec {}", config.text("codec")), "see --help");
  use_codec(*codec, options);
  options.target_batch = static_cast<std::uint64_t>(config.number("target-batch"));
  const double spread = config.real("spread");
  options.samples_per_s = static_cast<double>(peers) * config.real("speed") * std::exp(spread * spread / 2);
  options.radices = read_grid(config, peers);
  options.seed = static_cast<std::uint64_t>(config.number("seed"));

  Estimate found = estimate(options);
  const bool slow = epoch::holds_up(from_seconds(found.rounds_s), options.samples_per_s, options.target_batch);
  if (by_lines && slow && options.radices.size() == 1) {  // groups of a grid do not choose
    use_codec(CodecId::linear8, options);
    found = estimate(options);
  }
  const double epoch_s = found.compute_s + found.rounds_s;
  const double delayed_s = std::max(found.compute_s, found.rounds_s);
  const auto batch = static_cast<double>(options.target_batch);
  const double good_batch = options.samples_per_s * found.rounds_s * kGoodShare / (1 - kGoodShare);
  double slowest_down = options.lines.front().down_bytes_per_s;
  for (const LineOptions& one : options.lines) slowest_down = std::min(slowest_down, one.down_bytes_per_s);
  const double join_s = kStateBytesPerValue * static_cast<double>(options.values) / slowest_down;
  const nlohmann::json out = {{"workload", "estimate"},
                              {"command", fmt::format("{} --seed {}", command, options.seed)},
                              {"configuration",
                               {{"peers", peers},
                                {"values", options.values},
                                {"bytes_per_value", options.bytes_per_value},
                                {"target_batch", options.target_batch},
                                {"grid", fmt::format("{}", fmt::join(options.radices, "x"))},
                                {"samples_per_s_alone", options.samples_per_s}}},
                              {"epoch_s", epoch_s},
                              {"compute_s", found.compute_s},
                              {"rounds_s", found.rounds_s},
                              {"samples_per_s", batch / epoch_s},
                              {"samples_per_s_delayed", batch / delayed_s},
                              {"computing_share", found.compute_s / epoch_s},
                              {"up_bytes_per_epoch_mean", found.up_bytes_mean},
                              {"up_bytes_per_epoch_max", found.up_bytes_max},
                              {"down_bytes_per_epoch_max", found.down_bytes_max},
                              {"up_bytes_per_hour_mean", found.up_bytes_mean * 3600 / epoch_s},
                              {"join_s", join_s},
                              {"batch_for_80_percent", good_batch}};
  if (!is_quiet(config)) {
    fmt::print("{} peers in {} round{} of averaging, groups of {}; {:.1f} MB of gradient\n", peers,
               options.radices.size(), options.radices.size() == 1 ? "" : "s", fmt::join(options.radices, " and "),
               options.bytes_per_value * static_cast<double>(options.values) / 1e6);
    fmt::print("  an epoch of {} samples  {:.1f} s: {:.1f} s of computing, {:.1f} s of averaging\n",
               options.target_batch, epoch_s, found.compute_s, found.rounds_s);
    fmt::print("  the swarm               {:.0f} samples/s, {} of what its machines could do\n", batch / epoch_s,
               percent(batch / epoch_s / options.samples_per_s));
    fmt::print("  with --delay            {:.0f} samples/s, {}: averaging behind the next epoch's computing\n",
               batch / delayed_s, percent(batch / delayed_s / options.samples_per_s));
    fmt::print("  a peer sends            {:.1f} MB an epoch, at most {:.1f}; {:.1f} GB an hour\n",
               found.up_bytes_mean / 1e6, found.up_bytes_max / 1e6, found.up_bytes_mean * 3600 / epoch_s / 1e9);
    fmt::print("  who joins waits         {:.0f} s for the state, on the slowest line\n", join_s);
    if (found.compute_s / epoch_s < kGoodShare)
      fmt::print("  to compute {} of the time take --target-batch {:.0f}{}\n", percent(kGoodShare), std::ceil(good_batch),
                 options.bytes_per_value > kCoarseBytes ? ", or --codec linear8" : "");
  }
  write_json(config, out);
  return 0;
}

}  // namespace collab::sim
