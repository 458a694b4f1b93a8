#include "partition.hpp"

#include "matchmaking/group.hpp"
#include "options.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>

namespace collab::sim {
namespace {

constexpr std::size_t kRowsShown = 64;
constexpr std::size_t kPlanRuns = 9;  // of which the median is told

double bytes_per_value_of(CodecId id, std::size_t values) {
  return static_cast<double>(codec(id).encoded_bytes({0, values})) / static_cast<double>(values);
}

averaging::LoadOptions load_options(const PartitionCase& given) {
  averaging::LoadOptions options;
  options.part_bytes_per_value = bytes_per_value_of(given.part_codec, given.values);
  options.result_bytes_per_value = bytes_per_value_of(given.result_codec, given.values);
  return options;
}

/// Equal shares of those whom `owns` admits; empty when it admits nobody.
template <class Owns>
std::vector<double> equal_shares(const PartitionCase& given, Owns owns) {
  const auto owners = std::count_if(given.peers.begin(), given.peers.end(), owns);
  std::vector<double> shares;
  if (owners == 0) return shares;
  for (const averaging::MemberLoad& peer : given.peers)
    shares.push_back(owns(peer) ? 1 / static_cast<double>(owners) : 0);
  return shares;
}

bool fits_group(const PartitionCase& given) {
  return given.peers.size() <= matchmaking::kGroupSizeMax;
}

/// What the plan costs a leader; of a swarm too large for a group the shares alone, once.
double plan_milliseconds(const PartitionCase& given) {
  const averaging::LoadOptions options = load_options(given);
  std::vector<double> took;
  for (std::size_t run = 0; run < (fits_group(given) ? kPlanRuns : 1); ++run) {
    const auto start = std::chrono::steady_clock::now();
    const bool planned = fits_group(given)
                             ? averaging::plan_load(given.peers, given.values, options, given.pairs).has_value()
                             : averaging::best_shares(given.peers, options).has_value();
    const std::chrono::duration<double, std::milli> one = std::chrono::steady_clock::now() - start;
    if (planned) took.push_back(one.count());
  }
  std::sort(took.begin(), took.end());
  return took[took.size() / 2];
}

const char* role_of(const averaging::MemberLoad& peer) {
  if (!peer.reachable) return "client";
  return peer.sends ? "node" : "auxiliary";
}

std::string rate_text(double bytes_per_s) {
  return bytes_per_s > 0 ? fmt::format("{:.6g}", bytes_per_s) : "unknown";
}

void print_table(const PartitionCase& given, const PartitionAnswer& answer) {
  fmt::print("{:>7}  {:<9} {:>12} {:>12} {:>10} {:>9} {:>11}\n", "peer", "role", "up, bytes/s", "down", "share",
             "units", "seconds");
  for (std::size_t i = 0; i < std::min(given.peers.size(), kRowsShown); ++i) {
    const averaging::MemberLoad& peer = given.peers[i];
    fmt::print("{:>7}  {:<9} {:>12} {:>12} {:>10.6f} {:>9} {:>11.6g}\n", i, role_of(peer),
               rate_text(peer.up_bytes_per_s), rate_text(peer.down_bytes_per_s), answer.shares.of_member[i],
               answer.plan_units.empty() ? "-" : fmt::format("{}", answer.plan_units[i]), answer.peer_seconds[i]);
  }
  if (given.peers.size() > kRowsShown) fmt::print("  and {} more; --json has all\n", given.peers.size() - kRowsShown);
  fmt::print("  by these shares   {:.6g} s: averages {:.6g} Mbit of the model a second\n", answer.seconds,
             answer.model_mbit_per_s);
  fmt::print("  by equal shares   {:.6g} s\n", answer.equal_split_seconds);
  if (!answer.plan_units.empty())
    fmt::print("  in whole units    {:.6g} s, owners of few left out: what a leader decides\n", answer.plan_seconds);
  if (!answer.shares.pairs_weighed)
    fmt::print("  the limits of pairs were too much work: the shares are those without\n");
}

nlohmann::json json_of(const PartitionCase& given, const PartitionAnswer& answer, const std::string& command) {
  nlohmann::json out = {{"workload", "partition"},
                        {"command", command},
                        {"configuration",
                         {{"values", given.values},
                          {"peers", given.peers.size()},
                          {"pairs", given.pairs.size()},
                          {"part_codec", codec(given.part_codec).name()},
                          {"result_codec", codec(given.result_codec).name()}}},
                        {"shares", answer.shares.of_member},
                        {"seconds", answer.seconds},
                        {"model_mbit_per_s", nullptr},
                        {"gain", nullptr},
                        {"equal_split_seconds", answer.equal_split_seconds},
                        {"equal_split_with_auxiliaries_seconds", answer.equal_with_auxiliaries_s},
                        {"peer_seconds", answer.peer_seconds},
                        {"pairs_weighed", answer.shares.pairs_weighed},
                        {"plan", nullptr},
                        {"plan_ms", plan_milliseconds(given)}};
  if (answer.seconds > 0) {  // else one sender holds all there is to average
    out["model_mbit_per_s"] = answer.model_mbit_per_s;
    out["gain"] = answer.equal_split_seconds / answer.seconds;
  }
  if (!answer.plan_units.empty()) out["plan"] = {{"units", answer.plan_units}, {"seconds", answer.plan_seconds}};
  return out;
}

}  // namespace

PartitionAnswer partition(const PartitionCase& given) {
  const averaging::LoadOptions options = load_options(given);
  const auto values = static_cast<double>(given.values);
  const auto times = [&](const std::vector<double>& shares) {
    return averaging::predict(given.peers, options, shares, given.pairs).value();
  };
  PartitionAnswer answer;
  answer.shares = averaging::best_shares(given.peers, options, given.pairs).value();
  for (const double seconds : times(answer.shares.of_member).of_member) answer.peer_seconds.push_back(seconds * values);
  answer.seconds = answer.shares.seconds_per_value * values;
  if (answer.seconds > 0)
    answer.model_mbit_per_s = 8 * options.result_bytes_per_value / answer.shares.seconds_per_value / 1e6;
  const auto may_own = [](const averaging::MemberLoad& peer) { return peer.reachable; };
  const auto node = [](const averaging::MemberLoad& peer) { return peer.reachable && peer.sends; };
  const auto all = equal_shares(given, may_own);
  const auto nodes = equal_shares(given, node);
  answer.equal_with_auxiliaries_s = times(all).slowest * values;
  answer.equal_split_seconds = nodes.empty() ? answer.equal_with_auxiliaries_s : times(nodes).slowest * values;
  if (!fits_group(given)) return answer;
  auto plan = averaging::plan_load(given.peers, given.values, options, given.pairs).value();
  answer.plan_units = std::move(plan.units);
  answer.plan_seconds = plan.seconds;
  return answer;
}

std::string partition_help() {
  return R"(collab-sim partition FILE [--json [PATH|-]] [--quiet]
which share of the vector each peer averages, so that the slowest is done as early as can be: at once, without a run

  $ collab-sim partition lines.json
  $ collab-sim partition lines.json --json | jq .shares

FILE is JSON. Three volunteers, one behind a firewall, and a helper in a data centre, whom it reaches by a relay:
  {"values": 18000000, "part_codec": "float16", "result_codec": "float16",
   "peers": [{"up": 12.5e6, "down": 25e6, "role": "node"},
             {"up": 2.5e6, "down": 12.5e6, "role": "node"},
             {"up": 2.5e6, "down": 12.5e6, "role": "client"},
             {"up": 125e6, "down": 125e6, "role": "auxiliary"}],
   "pairs": [{"a": 2, "b": 3, "bytes_per_s": 500e3}]}

  values                   of the vector, 1 to 1e12
  part_codec, result_codec float32, float16, bfloat16, linear8 or dynamic8 [float16]; parts also topk or powersgd
  peers                    2 to 1000000; with pairs at most 64
    up, down               of the line, bytes/s; 0 or absent: unknown, which counts as the median of the known, or as
                           12.5e6 where none is; what is outside 1..1e12 counts as the nearer of these
    role                   node [default]; client: brings values, may own nothing; auxiliary: may own, brings none
  pairs                    connections slower than the lines of both; a, b: places in peers, from 0; each way

The answer: shares (sum 1), seconds of the slowest, model_mbit_per_s (bits of the encoded vector over seconds),
equal_split_seconds (all nodes own the same; auxiliaries only where there is no node), gain over that, peer_seconds,
plan (whole units, what a leader of up to 64 decides), plan_ms (median time to plan here).
Exit 0, or 2 with a message when FILE or an option is wrong
)";
}

int run_partition(const node::Config& config, const std::vector<std::string>& words, const std::string& command) {
  if (words.empty())
    refuse("partition of what? no FILE was given", "collab-sim partition lines.json; --help shows one");
  const PartitionCase given = read_partition(words.front());
  const PartitionAnswer answer = partition(given);
  if (!is_quiet(config)) print_table(given, answer);
  if (config.has("json")) write_json(config, json_of(given, answer, command));
  return 0;
}

}  // namespace collab::sim
