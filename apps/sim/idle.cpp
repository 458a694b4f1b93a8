#include "idle.hpp"

#include "cli/program.hpp"
#include "options.hpp"
#include "sim/swarm.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <unistd.h>
#include <vector>

namespace collab::sim {
namespace {

constexpr std::size_t kLooks = 240;  // from begin to end: so many that each quarter sees all peers there, and one away
constexpr std::size_t kShown = 24;   // of them, in the table
constexpr Duration kDay = std::chrono::hours(24);
constexpr std::size_t kMemoryPerPeer = 64 * 1024;  // what buffers and records of one moment come to
constexpr std::size_t kSlackPerPeer = 4;           // of anything that is counted
constexpr int kStopped = 3;                        // the exit code of a run that was ended early

/// How far a long run is, on stderr: in one line of a terminal, else every half minute.
class Progress {
 public:
  explicit Progress(Duration length) : length_(length) {}
  ~Progress() {
    if (on_terminal_ && told_) fmt::print(stderr, "\n");
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void tell(Duration at) {
    const auto now = std::chrono::steady_clock::now();
    const Duration pause = on_terminal_ ? std::chrono::seconds(1) : std::chrono::seconds(30);
    if (at <= Duration::zero() || now - last_ < pause) return;
    last_ = now;
    told_ = true;
    const double took = to_seconds(now - start_);
    const double share = to_seconds(at) / to_seconds(length_);
    fmt::print(stderr, "{}{:.2f} of {:.2f} virtual hours after {:.0f} s, about {:.0f} s more{}",
               on_terminal_ ? "\r" : "", to_seconds(at) / 3600, to_seconds(length_) / 3600, took,
               std::max(0.0, took / share - took), on_terminal_ ? "   " : "\n");
  }

 private:
  Duration length_;
  bool on_terminal_ = ::isatty(STDERR_FILENO) != 0;
  bool told_ = false;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point last_ = start_;
};

void print_table(const std::vector<Holdings>& all) {
  fmt::print("{:>8} {:>12} {:>8} {:>8} {:>12} {:>8}\n", "min", "memory, kB", "tasks", "timers", "connections",
             "streams");
  for (std::size_t i = kLooks / kShown - 1; i < all.size(); i += kLooks / kShown) {
    const Holdings& at = all[i];
    fmt::print("{:>8.1f} {:>12.1f} {:>8} {:>8} {:>12} {:>8}\n", to_seconds(at.at) / 60,
               static_cast<double>(at.memory_bytes) / 1e3, at.tasks, at.timers, at.connections, at.streams);
  }
}

nlohmann::json to_json(const Holdings& held) {
  return {{"at_s", to_seconds(held.at)}, {"memory_bytes", held.memory_bytes}, {"tasks", held.tasks},
          {"timers", held.timers},       {"connections", held.connections},   {"streams", held.streams}};
}

/// What grew, as words; the most of the second quarter is measured against the least of the last.
std::vector<std::string> growth(const std::vector<Holdings>& all, std::size_t peers) {
  std::vector<std::string> grown;
  const std::size_t quarter = all.size() / 4;
  const auto look = [&](const char* what, std::size_t Holdings::*of, std::size_t slack) {
    std::size_t before = 0;
    std::size_t after = ~std::size_t(0);
    for (std::size_t i = quarter; i < 2 * quarter; ++i) before = std::max(before, all[i].*of);
    for (std::size_t i = all.size() - quarter; i < all.size(); ++i) after = std::min(after, all[i].*of);
    if (after > before + slack) grown.push_back(fmt::format("{}: {} to {}", what, before, after));
  };
  look("memory", &Holdings::memory_bytes, kMemoryPerPeer * peers);
  look("tasks", &Holdings::tasks, 0);
  look("timers", &Holdings::timers, kSlackPerPeer * peers);
  look("connections", &Holdings::connections, kSlackPerPeer);
  look("streams", &Holdings::streams, kSlackPerPeer);
  return grown;
}

/// Of the memory in the second, the third and the last quarter, the medians: by how much the later ones are above the
/// first of them. In the last one of a run with faults nobody is away.
std::vector<double> memory_growth(const std::vector<Holdings>& all) {
  const std::size_t quarter = all.size() / 4;
  std::vector<double> medians;
  for (std::size_t i = 1; i < 4 && quarter > 0; ++i) {
    std::vector<std::size_t> bytes;
    for (std::size_t j = i * quarter; j < (i + 1) * quarter; ++j) bytes.push_back(all[j].memory_bytes);
    std::nth_element(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(quarter / 2), bytes.end());
    medians.push_back(static_cast<double>(bytes[quarter / 2]));
  }
  if (medians.empty()) return {0, 0};
  return {medians[1] / medians[0] - 1, medians[2] / medians[0] - 1};
}

}  // namespace

int run_day(Day day, const node::Config& config, const std::string& command) {
  const char* workload = day == Day::idle ? "idle" : "day";
  SwarmOptions options = swarm_options(workload, config);
  options.trains = day == Day::training;
  options.epochs = 0;
  if (!config.has("minutes")) options.length = kDay;
  options.weigh_every = options.length / kLooks;
  const bool quiet = is_quiet(config);
  const auto start = std::chrono::steady_clock::now();
  const cli::Interrupt interrupt(cli::BrokenPipe::ends_program);
  Swarm swarm(options);
  const Outcome outcome = [&] {
    Progress progress(options.length);
    swarm.stop_when([&](Duration at) {
      if (!quiet) progress.tell(at);
      return interrupt.asked();
    });
    return swarm.run();
  }();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (outcome.interrupted) {
    if (!quiet) print_table(outcome.holdings);
    fmt::print(stderr, "stopped: of {:.2f} hours {:.2f} were run; what grew is told of whole runs only\n",
               to_seconds(options.length) / 3600, to_seconds(outcome.length) / 3600);
    return kStopped;
  }
  const std::vector<std::string> grown = growth(outcome.holdings, options.peers);
  const std::vector<double> memory = memory_growth(outcome.holdings);
  const bool held = grown.empty() && outcome.violations.empty();
  if (!quiet) {
    print_table(outcome.holdings);
    fmt::print(
        "crypto {}, {} peers, {:.1f} h, {} epochs, {:.2f} MB on the links: {}, memory {:+.1f} and {:+.1f} % after the "
        "second quarter; {:.1f} s, {:.0f} simulated peer-seconds per second\n",
        name(options.crypto), options.peers, to_seconds(outcome.length) / 3600, outcome.epochs,
        static_cast<double>(outcome.bytes) / 1e6, held ? "nothing grew" : "BROKEN", 100 * memory[0], 100 * memory[1],
        seconds, to_seconds(outcome.length) * static_cast<double>(options.peers) / seconds);
  }
  for (const std::string& what : grown) fmt::print(stderr, "grew: {}\n", what);
  for (const Violation& broken : outcome.violations)
    fmt::print(stderr, "broke {} at {:.3f} s: {}\n", broken.invariant, to_seconds(broken.at), broken.text);
  nlohmann::json out = {{"workload", workload},
                        {"command", fmt::format("{} --seed {}", command, options.seed)},
                        {"configuration", {{"peers", options.peers}, {"crypto", name(options.crypto)}}},
                        {"virtual_s", to_seconds(outcome.length)},
                        {"bytes", outcome.bytes},
                        {"epochs", outcome.epochs},
                        {"fingerprint", fmt::format("{:016x}", outcome.fingerprint)},
                        {"grown", grown},
                        {"memory_growth", memory},
                        {"held", held},
                        {"seconds", seconds}};
  for (const Holdings& at : outcome.holdings) out["series"].push_back(to_json(at));
  write_json(config, out);
  return held ? 0 : 1;
}

}  // namespace collab::sim
