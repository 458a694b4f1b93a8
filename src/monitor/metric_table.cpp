#include "monitor/metric_table.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <sys/resource.h>
#include <unistd.h>
#include <utility>

namespace collab::monitor {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 29> kTable = {{
    {"collab_epoch", "Optimizer steps the run has made."},
    {"collab_epoch_samples", "Samples gathered towards the target batch, by all peers."},
    {"collab_target_batch_samples", "Samples of one epoch."},
    {"collab_eta_seconds", "Until the target batch is full, by the peers' rates."},
    {"collab_loss", "Mean loss of the last epoch known here."},
    {"collab_peers", "Members known to the directory."},
    {"collab_samples_total", "Samples this peer contributed."},
    {"collab_microbatches_dropped_total", "Microbatches that were not counted."},
    {"collab_rounds_total", "Averaging rounds this peer took part in."},
    {"collab_round_duration_seconds", "Of averaging rounds, by phase."},
    {"collab_bytes_total", "Bytes sent and received."},
    {"collab_link_bytes_per_second", "Measured rate of this machine's link."},
    {"collab_rtt_seconds", "Round trips to other peers."},
    {"collab_calls_total", "Calls, by method and how they ended."},
    {"collab_relay_circuits", "Circuits between others that this node carries."},
    {"collab_relay_reservations", "Peers that nobody can dial, to whom this node leads."},
    {"collab_relayed_bytes_total", "Carried for others, by class."},
    {"collab_punch_seconds", "From the first dial of a try, once all was agreed, until dials of both ends met."},
    {"collab_punches_total", "Tries to do without a relay, by result."},
    {"collab_refused_total", "What was refused, by reason."},
    {"collab_state_download_seconds", "Of state downloads."},
    {"collab_checkpoint_age_seconds", "Since the last checkpoint was saved."},
    {"collab_relay_circuits", "Open circuits through this node's relay."},
    {"collab_clock_offset_seconds", "Of this machine's clock from the swarm's."},
    {"process_cpu_seconds_total", "User and system time of this process."},
    {"process_resident_memory_bytes", "Memory in use."},
    {"process_virtual_memory_bytes", "Address space in use."},
    {"process_open_fds", "Open file descriptors."},
    {"process_max_fds", "File descriptors allowed."},
}};

constexpr std::array<std::string_view, 6> kRoles = {"full", "client", "auxiliary", "monitor", "coordinator", "other"};
constexpr std::array<std::string_view, 6> kReachabilities = {"open",          "punchable", "relayed",
                                                             "outbound_only", "unknown",   "other"};

template <std::size_t N>
std::size_t index_of(const std::array<std::string_view, N>& known, std::string_view word) {
  const auto found = std::find(known.begin(), known.end(), word);
  return found == known.end() ? N - 1 : static_cast<std::size_t>(found - known.begin());
}

}  // namespace

void describe_metrics(Metrics& metrics) {
  for (const auto& [name, help] : kTable) metrics.describe(name, help);
}

void set_swarm_gauges(Metrics& metrics, const SwarmView& view) {
  const RunView& run = view.run;
  metrics.set("collab_epoch", static_cast<double>(run.epoch));
  metrics.set("collab_epoch_samples", static_cast<double>(run.samples));
  metrics.set("collab_target_batch_samples", static_cast<double>(run.target_batch_samples));
  metrics.set("collab_eta_seconds", run.eta_s);
  metrics.set("collab_loss", run.loss_train, {{"set", "train"}});
  metrics.set("collab_loss", run.loss_heldout, {{"set", "heldout"}});
  metrics.set("collab_checkpoint_age_seconds", run.checkpoint_age_s);
  metrics.set("collab_clock_offset_seconds", run.clock_offset_s);

  std::array<std::array<double, kReachabilities.size()>, kRoles.size()> peers{};
  for (const PeerView& peer : view.peers)
    peers[index_of(kRoles, peer.role)][index_of(kReachabilities, peer.reachability)] += 1;
  for (std::size_t role = 0; role < kRoles.size(); ++role) {
    for (std::size_t way = 0; way < kReachabilities.size(); ++way) {
      // also the zeros: a gauge that is no longer set would go on showing peers that left
      const Metrics::Labels labels = {{"role", std::string(kRoles[role])},
                                      {"reachability", std::string(kReachabilities[way])}};
      metrics.set("collab_peers", peers[role][way], labels);
    }
  }
}

void count_round(Metrics& metrics, const RoundView& round) {
  metrics.add("collab_rounds_total", 1, {{"result", round.result}});
  metrics.observe("collab_round_duration_seconds", round.exchange_s, {{"phase", "exchange"}});
  if (round.result != "committed") return;  // the phases after the exchange did not happen
  metrics.observe("collab_round_duration_seconds", round.commit_s, {{"phase", "commit"}});
  metrics.observe("collab_round_duration_seconds", round.apply_s, {{"phase", "apply"}});
}

void set_process_gauges(Metrics& metrics) {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  const double cpu = seconds(used.ru_utime) + seconds(used.ru_stime);
  metrics.add("process_cpu_seconds_total", std::max(0.0, cpu - metrics.value("process_cpu_seconds_total")));

  double pages_virtual = 0;
  double pages_resident = 0;
  std::ifstream("/proc/self/statm") >> pages_virtual >> pages_resident;
  const auto page_bytes = static_cast<double>(::sysconf(_SC_PAGESIZE));
  metrics.set("process_virtual_memory_bytes", pages_virtual * page_bytes);
  metrics.set("process_resident_memory_bytes", pages_resident * page_bytes);

  std::error_code error;
  double descriptors = 0;
  for (std::filesystem::directory_iterator fd("/proc/self/fd", error), end; !error && fd != end; fd.increment(error))
    ++descriptors;
  metrics.set("process_open_fds", descriptors);
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  metrics.set("process_max_fds", static_cast<double>(limit.rlim_cur));
}

}  // namespace collab::monitor
