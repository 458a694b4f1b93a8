#include "hosting.hpp"

#include "child.hpp"
#include "cli/program.hpp"
#include "crowd.hpp"
#include "statistics.hpp"
#include "temporary_folder.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>
#include <unistd.h>
#include <vector>

namespace collab::bench {
namespace {

using nlohmann::json;

constexpr const char* kRun = "bench-hosting";
constexpr auto kStartTime = std::chrono::seconds(60);
constexpr auto kLook = std::chrono::milliseconds(100);
constexpr std::size_t kUserTicks = 11;  // in /proc/PID/stat, counted from behind the program's name

/// Processor time of another process so far.
double cpu_seconds_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  std::istringstream fields(text.substr(std::min(text.size(), text.rfind(')') + 2)));
  const std::vector<std::string> words{std::istream_iterator<std::string>(fields), {}};
  if (words.size() <= kUserTicks + 1) throw Failure(ExitCode::machine, "the coordinator has ended", "its messages");
  return (std::stod(words[kUserTicks]) + std::stod(words[kUserTicks + 1])) /
         static_cast<double>(::sysconf(_SC_CLK_TCK));
}

std::uint64_t peak_memory_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(file, line);)
    if (line.rfind("VmHWM:", 0) == 0) return 1024 * std::stoull(line.substr(6));
  return 0;
}

std::size_t descriptors_of(pid_t pid) {
  const std::filesystem::directory_iterator files(fmt::format("/proc/{}/fd", pid));
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

struct Host {
  std::unique_ptr<Child> process;
  std::string run;  ///< with its key
  std::string address;
  std::string dashboard;
};

Host start_host(const HostingOrder& order, const TemporaryFolder& folder) {
  const auto program = program_of_build("collab-coordinator", "coordinator");
  if (program.empty()) throw Failure(ExitCode::usage, "collab-coordinator was not built", "tools/build");
  Host host;
  host.process = std::make_unique<Child>(
      "the coordinator",
      std::vector<std::string>{"--run-id", kRun, "--new-run", "--job", "bench", "--target-batch", "4096", "--json",
                               "--no-lan", "--admission", "open", "--dashboard", "127.0.0.1:0", "--listen",
                               "127.0.0.1:0", "--home", (folder.path / "host").string(), "--log-level",
                               order.output.log_level},
      program);
  const json ready = json::parse(host.process->read_line(std::chrono::steady_clock::now() + kStartTime));
  host.run = fmt::format("{}#{}", kRun, ready.at("key").get<std::string>());
  host.address = ready.at("addresses").at(0).get<std::string>();
  host.dashboard = ready.at("dashboard").get<std::string>();
  return host;
}

void wait(double seconds, Crowd& crowd, Host& host, const cli::Interrupt& interrupt) {
  const TimePoint end = std::chrono::steady_clock::now() + from_seconds(seconds);
  while (std::chrono::steady_clock::now() < end) {
    if (interrupt.asked()) throw Failure(ExitCode::interrupted, "interrupted", "");
    std::this_thread::sleep_for(kLook);
    host.process->skip_lines();
    crowd.check();
  }
}

/// Of a core, that the coordinator uses in each second of them.
std::vector<double> watch_processor(double seconds, Crowd& crowd, Host& host, const cli::Interrupt& interrupt) {
  std::vector<double> shares;
  for (double rest = seconds; rest > 0; rest -= 1) {
    const double before = cpu_seconds_of(host.process->pid());
    const TimePoint start = std::chrono::steady_clock::now();
    wait(std::min(1.0, rest), crowd, host, interrupt);
    shares.push_back((cpu_seconds_of(host.process->pid()) - before) /
                     to_seconds(std::chrono::steady_clock::now() - start));
  }
  return shares;
}

void print_hosting(const json& figures) {
  const auto real = [&](const char* field) { return figures.at(field).get<double>(); };
  const auto whole = [&](const char* field) { return figures.at(field).get<std::uint64_t>(); };
  fmt::print("coordinator: {} peers on loopback with TLS, an epoch in {:.0f} s, {} dashboards, {:.0f} s measured\n",
             whole("peers"), real("epoch_seconds"), whole("dashboards"), real("seconds"));
  print_row("processor", fmt::format("{:.2f} % of a core", 100 * real("cpu_share")));
  print_row("while they joined",
            fmt::format("{:.2f} % of a core, for {:.1f} s", 100 * real("cpu_share_joining"), real("joined_seconds")));
  print_row("to a dashboard", fmt::format("{:.1f} kB a second", real("dashboard_bytes") / real("seconds") / 1e3));
  print_row("peak memory", fmt::format("{:.0f} MB", real("peak_memory_bytes") / 1e6));
  print_row("descriptors", fmt::format("{}", whole("descriptors")));
  print_machine(figures);
}

}  // namespace

int measure_hosting(const HostingOrder& order) {
  const cli::Interrupt interrupt;
  const Report report;
  const TemporaryFolder folder;
  Host host = start_host(order, folder);
  const pid_t pid = host.process->pid();
  fmt::print(stderr, "{} peers join {}\n", order.peers, host.address);
  CrowdOptions options;
  options.peers = order.peers;
  options.epoch_seconds = order.epoch_seconds;
  options.run = host.run;
  options.address = host.address;
  options.log_level = cli::parse_log_level(order.output.log_level);
  const double cpu_start = cpu_seconds_of(pid);
  const TimePoint start = std::chrono::steady_clock::now();
  Crowd crowd(options);
  while (crowd.members() < order.peers) wait(to_seconds(kLook), crowd, host, interrupt);
  const double joined_seconds = to_seconds(std::chrono::steady_clock::now() - start);
  const double cpu_joined = cpu_seconds_of(pid);
  for (std::uint64_t i = 0; i < order.dashboards; ++i) crowd.watch(host.dashboard);

  fmt::print(stderr, "all have joined after {:.1f} s; measuring for {:.0f} s\n", joined_seconds, order.seconds);
  wait(order.epoch_seconds / 8, crowd, host, interrupt);  // until the first hurry is over
  const std::uint64_t dashboard_bytes = crowd.dashboard_bytes();
  const double cpu_before = cpu_seconds_of(pid);
  const TimePoint before = std::chrono::steady_clock::now();
  const std::vector<double> shares = watch_processor(order.seconds, crowd, host, interrupt);
  const double seconds = to_seconds(std::chrono::steady_clock::now() - before);
  const json figures = {
      {"bench", "coordinator"},
      {"peers", order.peers},
      {"epoch_seconds", order.epoch_seconds},
      {"dashboards", order.dashboards},
      {"seconds", seconds},
      {"cpu_share", (cpu_seconds_of(pid) - cpu_before) / seconds},
      {"cpu_share_joining", (cpu_joined - cpu_start) / joined_seconds},
      {"joined_seconds", joined_seconds},
      {"dashboard_bytes", (crowd.dashboard_bytes() - dashboard_bytes) / std::max<std::uint64_t>(1, order.dashboards)},
      {"peak_memory_bytes", peak_memory_of(pid)},
      {"descriptors", descriptors_of(pid)}};
  report.show(figures, print_hosting, order.output, "share of a core", {{"each second", shares}});
  return static_cast<int>(ExitCode::done);
}

}  // namespace collab::bench
