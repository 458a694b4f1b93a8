#pragma once
// A coordinator at work: a node that serves the directory, the run's files and its state over HTTP, and keeps
// checkpoints.

#include "base/log.hpp"
#include "base/metrics.hpp"
#include "base/signal.hpp"
#include "base/task_group.hpp"
#include "directory/directory.hpp"
#include "found_run.hpp"
#include "keeper.hpp"
#include "monitor/api.hpp"
#include "monitor/http_server.hpp"
#include "monitor/report_reader.hpp"
#include "monitor/status_socket.hpp"
#include "net/limited_network.hpp"
#include "net/tcp.hpp"
#include "node/node.hpp"
#include "node/run_name.hpp"
#include "node/runtime.hpp"
#include "progress/tracker.hpp"
#include "recipes/recipe.hpp"
#include "stand_in.hpp"
#include "state/store.hpp"

#include <atomic>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace collab::coordinator {

struct HostOptions {
  std::string run_id;
  std::filesystem::path home;
  std::string name;
  std::vector<std::string> bootstrap;
  std::string listen;
  std::uint16_t wss_port = 0;          ///< for WebSockets too; 0: not
  std::string proxy;                   ///< option of `node::choose_proxy`
  std::string interface;               ///< all connections by this one; empty: as the system chooses
  double limit_up_mbit = 0;            ///< of the line, all in all; 0: no limit
  double limit_down_mbit = 0;          ///< the same of what comes
  std::vector<net::Address> announce;  ///< where peers dial from outside; empty: what dial-backs prove
  std::string dashboard;               ///< address; "off": none
  bool answer_lan = true;
  bool port_map = true;
  std::string relay = "bulk";   ///< as node::parse_relay_mode reads it
  double relay_rate_mbit = 20;  ///< for each circuit that carries tensors; for all ten times as much
  std::filesystem::path allow_list;
  std::filesystem::path token_file;
  std::uint64_t checkpoint_every = 50;
  std::size_t keep = 5;
  bool average = true;  ///< for the others, while nobody who trains can be dialled
};

/// What the person who hosts may want to see.
struct HostStatus {
  std::uint64_t epoch = 0;
  std::size_t peers = 0;
  double loss = 0;  ///< NaN: unknown
  double samples_per_s = 0;
  bool undialled = false;  ///< nobody who trains can be dialled
  bool averages = false;   ///< so this coordinator averages for them
};

/// From construction to destruction on the air. Any thread.
class Host {
 public:
  /// Opens ports and files. Throws `Failure`.
  Host(HostOptions options, Log& log, Identity identity, const Signed& statement, const RunFiles& files);
  /// Says good-bye; peers go on.
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  HostStatus status();
  /// `ID@host:port` of each address where peers may dial.
  std::vector<std::string> addresses();
  /// Where HTTP is served; empty: nowhere.
  std::string dashboard();
  /// What joins this run.
  const char* program() const { return recipe_.job == recipes::kAlbert ? "collab-peer" : "YOUR-PROGRAM"; }
  /// Throws what a task let out.
  void check();
  /// Whether somebody asked through the status socket that it ends.
  bool asked_to_leave() const noexcept { return asked_to_leave_; }

 private:
  Task<> serve(const RunFiles& files);
  void make_keeper(const std::filesystem::path& tokenizer);
  void make_stand_in();
  monitor::SwarmView view();
  void invite(monitor::RunView& run);
  std::vector<node::PeerAddress> dialled();
  Task<> watch_peers();
  void read_reports(std::uint64_t epoch);

  HostOptions options_;
  Log& log_;
  Metrics metrics_;
  node::Manifest manifest_;
  recipes::Recipe recipe_;
  node::Runtime runtime_;
  net::TcpNetwork tcp_;
  net::LimitedNetwork network_;
  Random random_;
  std::atomic<bool> asked_to_leave_ = false;

  // on the loop
  std::unique_ptr<node::Node> node_;
  std::unique_ptr<directory::Watch> members_;
  std::unique_ptr<directory::Watch> told_rounds_;
  std::unique_ptr<directory::Watch> told_evaluations_;
  std::unique_ptr<progress::Tracker> tracker_;
  std::unique_ptr<state::Store> store_;
  std::unique_ptr<monitor::Events> events_;
  std::unique_ptr<Keeper> keeper_;
  std::unique_ptr<StandIn> stand_in_;
  monitor::Rounds rounds_;
  monitor::LossHistory losses_;
  monitor::ReportReader reports_;
  std::unique_ptr<monitor::HttpServer> http_;
  std::unique_ptr<monitor::StatusSocket> status_socket_;
  std::unique_ptr<Signal> stopping_;
  bool stop_ = false;

  std::future<void> served_;
  std::mutex mutex_;
  std::exception_ptr failure_;
};

}  // namespace collab::coordinator
