// collab-sim: a swarm in one thread, checked against everything that must hold.

#include "base/file.hpp"
#include "cli/program.hpp"
#include "directory.hpp"
#include "estimate.hpp"
#include "idle.hpp"
#include "matchmaking.hpp"
#include "memory.hpp"
#include "moshpit.hpp"
#include "nat.hpp"
#include "options.hpp"
#include "papers.hpp"
#include "partition.hpp"
#include "sim/shrink.hpp"
#include "state.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <unistd.h>

namespace collab::sim {
namespace {

constexpr int kBroken = 1;
constexpr int kBudget = 3;
constexpr std::uint64_t kTwiceEvery = 50;  // seeds; determinism is checked on these

struct Job {
  std::string workload;
  SwarmOptions options;
  std::uint64_t seeds = 1;
  std::string json;
  std::string svg;
  std::optional<TraceFilter> trace;
  std::optional<Duration> until;
  bool quiet = false;
  std::string shrink;
  std::string command;         ///< repeats one seed of this call, which is to follow
  std::string shrunk_command;  ///< the same, without what `--shrink` changes
};

const std::set<std::string> kOfTheCall = {"--seed", "--seeds", "--json", "--svg", "--shrink", "--crypto"};
const std::set<std::string> kShrunk = {"--faults", "--peers",  "--values", "--latency",
                                       "--loss",   "--jitter", "--minutes"};

/// This call, but for these options and what they are given.
std::string command_without(const std::set<std::string>& dropped, const std::vector<std::string>& arguments) {
  std::string out = "collab-sim";
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string option = arguments[i].substr(0, arguments[i].find('='));
    if (!dropped.contains(option))
      out += " " + arguments[i];
    else if (option == arguments[i])
      ++i;
  }
  return out;
}

Outcome run_seed(const Job& job, const SwarmOptions& options, const cli::Interrupt& interrupt) {
  Swarm swarm(options);
  swarm.stop_when([&](Duration at) { return interrupt.asked() || (job.until && at >= *job.until); });
  if (job.trace) {
    const auto show = [&](const TraceLine& line) {
      const std::string who = line.peer == kCoordinator ? "coord" : fmt::format("peer {:<3}", line.peer);
      if (job.trace->shows(line)) fmt::print("{:10.3f} {:<8} {}\n", to_seconds(line.at), who, line.text);
    };
    swarm.trace(show);
    swarm.trace_coordinator(show);
  }
  Outcome outcome = swarm.run();
  if (!outcome.interrupted && (options.seed - job.options.seed) % kTwiceEvery == kTwiceEvery - 1)
    check_determinism(options, outcome);
  return outcome;
}

void tell_broken(const Job& job, const Outcome& outcome) {
  const Violation& first = outcome.violations.front();
  fmt::print(stderr, "\nseed {} broke {} at {:.3f} s: {}\n", outcome.seed, first.invariant, to_seconds(first.at),
             first.text);
  fmt::print(stderr, "{} violations in all; again with: {} --seed {}\n", outcome.violations_total, job.command,
             outcome.seed);
  for (const std::string& line : outcome.last_events) fmt::print(stderr, "{}\n", line);
}

nlohmann::json whole_json(const Job& job, const Outcome& outcome) {
  nlohmann::json out = to_json(outcome);
  out["workload"] = job.workload;
  out["command"] = fmt::format("{} --seed {}", job.command, outcome.seed);
  out["configuration"] = {{"peers", job.options.peers},
                          {"clients", job.options.clients},
                          {"target_batch", job.options.target_batch},
                          {"microbatch", job.options.microbatch},
                          {"values", job.options.values},
                          {"codec", job.options.codec_by_lines ? kAutoCodec : codec(job.options.codec).name()},
                          {"split", job.options.equal_split ? "equal" : "best"},
                          {"bulk_charge", job.options.links.bulk_charge},
                          {"crypto", name(job.options.crypto)},
                          {"clock_ahead_max_s", to_seconds(job.options.clock_ahead_max)},
                          {"drift_ppm_max", job.options.drift_ppm_max},
                          {"plant", name(job.options.plant)}};
  return out;
}

std::string shrunk_command(const Job& job, const SwarmOptions& options) {
  const auto ms = [](Duration latency) { return 1000 * to_seconds(latency); };
  return fmt::format(
      "{} --seed {} --peers {} --values {} --latency {}..{} --loss {} --jitter {} --minutes {} --faults {}",
      job.shrunk_command, options.seed, options.peers, options.values, ms(options.links.latency_min),
      ms(options.links.latency_max), options.links.loss, options.links.jitter, to_seconds(options.length) / 60,
      job.shrink);
}

void shrink_broken(const Job& job, const SwarmOptions& options, const Outcome& broken,
                   const cli::Interrupt& interrupt) {
  const ShrinkNeeds needs{[&] { return interrupt.asked(); },
                          [](const Shrunk& smaller) {
                            fmt::print(stderr, "{} runs: {} peers, {} events, {} values\n", smaller.runs,
                                       smaller.options.peers, smaller.options.faults.events.size(),
                                       smaller.options.values);
                          }};
  fmt::print(stderr, "looking for the smallest run that breaks {}; Ctrl+C keeps what is found by then\n",
             broken.violations.front().invariant);
  const Shrunk found = shrink(options, broken, needs);
  const std::string command = shrunk_command(job, found.options);
  write_file(job.shrink, fmt::format("# {}: {}\n# {}\n{}", found.violation.invariant, found.violation.text, command,
                                     to_toml(found.options.faults.events)));
  fmt::print(stderr, "after {} runs {} has what is left; again with: {}\n", found.runs, job.shrink, command);
}

void write_results(const Job& job, const std::vector<Outcome>& outcomes) {
  if (!job.svg.empty()) write_file(job.svg, to_svg(outcomes.back()));
  if (job.json.empty()) return;
  nlohmann::json out;
  if (outcomes.size() == 1) {
    out = whole_json(job, outcomes.front());
  } else {
    for (const Outcome& outcome : outcomes) out.push_back(whole_json(job, outcome));
  }
  if (job.json == "-") {
    fmt::print("{}\n", out.dump());
  } else {
    write_file(job.json, out.dump(1) + "\n");
  }
}

int run(const Job& job) {
  const bool writes_files = !job.json.empty() || !job.svg.empty() || !job.shrink.empty();
  const cli::Interrupt interrupt(writes_files ? cli::BrokenPipe::fails_write : cli::BrokenPipe::ends_program);
  const bool on_terminal = ::isatty(STDERR_FILENO) != 0;
  const auto start = std::chrono::steady_clock::now();
  std::vector<Outcome> outcomes;
  std::size_t broken = 0;
  std::size_t not_run = 0;
  bool budget = false;
  double virtual_s = 0;
  for (std::uint64_t i = 0; i < job.seeds && !interrupt.asked(); ++i) {
    SwarmOptions options = job.options;
    options.seed += i;
    Outcome outcome = run_seed(job, options, interrupt);
    if (!job.quiet && job.json != "-") fmt::print("{}", text_table(outcome));
    virtual_s += to_seconds(outcome.length);
    budget = budget || outcome.out_of_budget;
    if (!outcome.interrupted && outcome.violations.empty() && outcome.fault_missed()) {
      ++not_run;
      fmt::print(stderr, "seed {} counts as not run: none of its {} faults struck\n", outcome.seed,
                 outcome.faults.size());
    }
    if (!outcome.violations.empty()) {
      ++broken;
      tell_broken(job, outcome);
      if (!job.shrink.empty() && !interrupt.asked()) shrink_broken(job, options, outcome, interrupt);
    }
    if (job.seeds > 1 && on_terminal) fmt::print(stderr, "\r{} of {} seeds, {} broken ", i + 1, job.seeds, broken);
    const bool keep = !job.json.empty() || !job.svg.empty() || outcomes.empty();
    if (keep) outcomes.push_back(std::move(outcome));
    // of what was looked for one is enough
    if (broken > 0 && (!job.shrink.empty() || options.plant != Plant::none)) break;
  }
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const double peer_seconds = virtual_s * static_cast<double>(job.options.peers);
  if (on_terminal && job.seeds > 1) fmt::print(stderr, "\n");
  fmt::print(stderr, "{:.1f} s; {:.0f} simulated peer-seconds per second\n", took, peer_seconds / took);
  if (!outcomes.empty()) write_results(job, outcomes);
  if (budget) return kBudget;
  if (broken > 0) return kBroken;
  return interrupt.asked() || not_run == job.seeds ? kBudget : 0;
}

Job job_of(const std::string& workload, const node::Config& config, const std::vector<std::string>& arguments) {
  Job job;
  job.workload = workload;
  job.options = swarm_options(workload, config);
  job.seeds = static_cast<std::uint64_t>(config.number("seeds"));
  if (config.has("json")) job.json = config.text("json");
  if (config.has("svg")) job.svg = config.text("svg");
  if (config.has("trace")) job.trace = parse_trace(config.text("trace"));
  if (config.has("until")) job.until = from_seconds(config.real("until"));
  job.quiet = config.toggle("quiet");
  if (config.has("shrink")) job.shrink = config.text("shrink");
  const std::string crypto = fmt::format(" --crypto {}", name(job.options.crypto));
  job.command = command_without(kOfTheCall, arguments) + crypto;
  auto shrunk = kOfTheCall;
  shrunk.insert(kShrunk.begin(), kShrunk.end());
  job.shrunk_command = command_without(shrunk, arguments) + crypto;
  return job;
}

int dispatch(const std::vector<std::string>& arguments) {
  node::Config config(sim_options());
  config.read_environment(std::getenv);
  const cli::Parsed parsed = cli::parse(sim_synopsis(), config, arguments);
  if (parsed.help) {
    const bool partition = parsed.command == "partition";
    fmt::print("{}", partition ? partition_help() : cli::help(sim_synopsis(), config.table()));
    return 0;
  }
  if (parsed.version) {
    fmt::print("collab-sim 0.1.0\n");
    return 0;
  }
  if (parsed.command == "directory") return run_directory(config, command_without(kOfTheCall, arguments));
  const std::string command =
      fmt::format("{} --crypto {}", command_without(kOfTheCall, arguments), name(crypto_of(config)));
  if (parsed.command == "moshpit") return run_moshpit(config, command);
  if (parsed.command == "matchmaking") return run_matchmaking(config, command);
  if (parsed.command == "estimate") return run_estimate(config, command);
  if (parsed.command == "partition") return run_partition(config, parsed.words, command);
  if (parsed.command == "sweep") return run_sweep(config, command);
  if (parsed.command == "deaths") return run_deaths(config, command);
  if (parsed.command == "split") return run_split(config, command);
  if (parsed.command == "killed") return run_killed(config, command);
  if (parsed.command == "nat") return run_nat(config, command);
  if (parsed.command == "state") return run_state(config, command);
  if (parsed.command == "idle") return run_day(Day::idle, config, command);
  if (parsed.command == "day") return run_day(Day::training, config, command);
  return run(job_of(parsed.command, config, arguments));
}

}  // namespace
}  // namespace collab::sim

int main(int argc, char** argv) {
  collab::sim::use_large_pages();
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return collab::cli::run_program("collab-sim", [&] { return collab::sim::dispatch(arguments); });
}
