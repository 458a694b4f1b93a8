// collab-bench: what the parts of collab cost on this machine.

#include "all_reduce.hpp"
#include "cli/program.hpp"
#include "codec_speed.hpp"
#include "directory_speed.hpp"
#include "faults.hpp"
#include "hosting.hpp"
#include "meeting.hpp"
#include "options.hpp"
#include "overhead.hpp"
#include "passes.hpp"
#include "shaped_lines.hpp"
#include "state_speed.hpp"
#include "transport.hpp"
#include "worker.hpp"

#include <fmt/format.h>

#include <cstdlib>

namespace collab::bench {
namespace {

constexpr std::size_t kValuesMax = 1'000'000'000;  // 4 GB for each peer

Output output_of(const node::Config& config) {
  Output output;
  output.log_level = config.text("log-level");
  output.json = config.toggle("json");
  if (config.has("plot")) output.plot = config.text("plot");
  cli::parse_log_level(output.log_level);  // what cannot be meant is said before anything starts
  return output;
}

std::size_t size_or(const node::Config& config, const char* option, std::size_t otherwise) {
  return config.has(option) ? static_cast<std::size_t>(config.number(option)) : otherwise;
}

OverheadOrder overhead_order(const node::Config& config) {
  OverheadOrder order;
  order.peers = size_or(config, "peers", order.peers);
  order.preset = config.text("preset");
  order.data = config.text("data");
  order.target_batch = static_cast<std::uint64_t>(config.number("target-batch"));
  order.steps = static_cast<std::uint64_t>(config.number("steps"));
  order.casts = static_cast<std::uint64_t>(config.number("casts"));
  order.slices = static_cast<std::uint64_t>(config.number("slices"));
  order.threads = static_cast<unsigned>(config.number("threads"));
  order.output = output_of(config);
  return order;
}

HostingOrder hosting_order(const node::Config& config) {
  HostingOrder order;
  order.peers = static_cast<std::size_t>(config.number("hosted"));
  order.seconds = static_cast<double>(config.number("seconds"));
  order.epoch_seconds = static_cast<double>(config.number("epoch-seconds"));
  order.dashboards = static_cast<std::uint64_t>(config.number("dashboards"));
  order.output = output_of(config);
  return order;
}

/// What cannot be meant is said before anything starts.
void check_values(const Workload& workload) {
  if (workload.values() > kValuesMax) {
    throw Failure(ExitCode::usage, fmt::format("{} values are too many", workload.values()),
                  fmt::format("at most {} in all tensors together", kValuesMax));
  }
  workload.codecs();
}

/// Of the commands that average one vector, or many small tensors.
Workload workload_of(const std::string& command, const node::Config& config) {
  const bool small = command == "small-tensors";
  const bool often = command == "any-moment";
  Workload workload;
  workload.peers = size_or(config, "peers", often ? 8 : 4);
  workload.tensors = small ? size_or(config, "tensors", 500) : 1;
  workload.floats = size_or(config, "floats", small ? 100 : often ? 500'000 : 18'000'000);
  workload.codec = config.text("codec");
  workload.seed = static_cast<std::uint64_t>(config.number("seed"));
  if (config.has("shape")) workload.shape = config.text("shape");
  workload.queue_s = 1e-3 * static_cast<double>(config.number("queue"));
  check_values(workload);
  lines_of(workload.shape, workload.peers);
  if (config.text("split") != "best" && config.text("split") != "equal")
    throw Failure(ExitCode::usage, fmt::format("no split \"{}\"", config.text("split")), "--split best or equal");
  workload.equal_split = config.text("split") == "equal";
  workload.plaintext = config.toggle("plaintext");
  return workload;
}

PassesOrder passes_order(const node::Config& config) {
  PassesOrder order;
  Workload& workload = order.workload;
  workload.peers = size_or(config, "peers", 16);
  workload.tensors = size_or(config, "tensors", 39);
  workload.floats = size_or(config, "floats", 60'769);
  workload.codec = config.text("codec");
  workload.seed = static_cast<std::uint64_t>(config.number("seed"));
  check_values(workload);
  order.group_size = static_cast<std::size_t>(config.number("group-size"));
  order.passes = size_or(config, "rounds", 5);
  order.output = output_of(config);
  return order;
}

/// Of the commands that carry what no round averages.
Workload workload_of_peers(const node::Config& config, std::size_t peers, std::size_t floats) {
  Workload workload;
  workload.peers = peers;
  workload.floats = floats;
  workload.seed = static_cast<std::uint64_t>(config.number("seed"));
  if (config.has("shape")) workload.shape = config.text("shape");
  workload.queue_s = 1e-3 * static_cast<double>(config.number("queue"));
  lines_of(workload.shape, workload.peers);
  return workload;
}

FaultOrder fault_order(const std::string& command, const node::Config& config) {
  FaultOrder order;
  order.name = command;
  order.workload = workload_of(command, config);
  order.rounds = size_or(config, "rounds", command == "any-moment" ? 100 : 5);
  order.output = output_of(config);
  return order;
}

MeetingOrder meeting_order(const node::Config& config) {
  MeetingOrder order;
  order.workload.peers = size_or(config, "peers", 16);
  order.workload.seed = static_cast<std::uint64_t>(config.number("seed"));
  order.rounds = size_or(config, "rounds", 100);
  order.output = output_of(config);
  return order;
}

TransportOrder transport_order(const std::string& command, const node::Config& config) {
  TransportOrder order;
  const bool relayed = command == "relay";
  order.workload = workload_of_peers(config, relayed ? 3 : 2, 1);
  order.workload.relayed = relayed;
  order.workload.plaintext = config.toggle("plaintext");
  order.workload.relay_bits_per_s = 1e6 * static_cast<double>(config.number("quota"));
  order.seconds = static_cast<double>(config.number("for"));
  order.both_ways = config.toggle("both-ways");
  order.frame_bytes = static_cast<std::size_t>(config.number("frame"));
  order.output = output_of(config);
  return order;
}

StateOrder state_order(const node::Config& config) {
  StateOrder order;
  order.workload = workload_of_peers(config, size_or(config, "peers", 4), size_or(config, "floats", 18'000'000));
  order.joiners = static_cast<std::size_t>(config.number("joiners"));
  order.rounds = size_or(config, "rounds", 5);
  order.output = output_of(config);
  if (order.joiners >= order.workload.peers) {
    throw Failure(ExitCode::usage, fmt::format("of {} peers {} are joiners", order.workload.peers, order.joiners),
                  "fewer --joiners than --peers: somebody must hold the state");
  }
  return order;
}

DirectoryOrder directory_order(const node::Config& config) {
  DirectoryOrder order;
  order.workload = workload_of_peers(config, size_or(config, "peers", 16), 1);
  order.rounds = size_or(config, "rounds", 50);
  order.output = output_of(config);
  return order;
}

CodecSpeedOrder codec_speed_order(const node::Config& config) {
  CodecSpeedOrder order;
  order.floats = size_or(config, "floats", 10'000'000);
  order.rounds = size_or(config, "rounds", 7);
  order.seed = static_cast<std::uint64_t>(config.number("seed"));
  order.output = output_of(config);
  return order;
}

AllReduceOrder order_of(const std::string& command, const node::Config& config) {
  AllReduceOrder order;
  order.name = command;
  order.workload = workload_of(command, config);
  order.rounds = size_or(config, "rounds", 7);
  order.output = output_of(config);
  return order;
}

int dispatch(const std::vector<std::string>& arguments) {
  node::Config config(bench_options());
  config.read_environment(std::getenv);
  const cli::Parsed parsed = cli::parse(bench_synopsis(), config, arguments);
  if (parsed.help) {
    fmt::print("{}", cli::help(bench_synopsis(), config.table()));
    return 0;
  }
  if (parsed.version) {
    fmt::print("collab-bench 0.1.0\n");
    return 0;
  }
  if (parsed.command == "overhead") return measure_overhead(overhead_order(config));
  if (parsed.command == "coordinator") return measure_hosting(hosting_order(config));
  if (parsed.command == "codec") return measure_codecs(codec_speed_order(config));
  if (parsed.command == "matchmaking") return measure_meeting(meeting_order(config));
  if (parsed.command == "moshpit") return measure_passes(passes_order(config));
  if (parsed.command == "state") return measure_state(state_order(config));
  if (parsed.command == "directory") return measure_directory(directory_order(config));
  if (parsed.command == "transport" || parsed.command == "relay")
    return measure_transport(transport_order(parsed.command, config));
  const bool faulty = parsed.command == "kill" || parsed.command == "freeze" || parsed.command == "any-moment";
  if (faulty) return measure_faults(fault_order(parsed.command, config));
  return measure_all_reduce(order_of(parsed.command, config));
}

}  // namespace
}  // namespace collab::bench

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  // this program starts itself so, once for each peer
  if (arguments == std::vector<std::string>{"worker"})
    return collab::cli::run_program("collab-bench worker", [] { return collab::bench::run_worker(); });
  return collab::cli::run_program("collab-bench", [&] { return collab::bench::dispatch(arguments); });
}
