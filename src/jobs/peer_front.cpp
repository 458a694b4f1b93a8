#include "jobs/peer_front.hpp"

#include "jobs/peer_commands.hpp"
#include "jobs/peer_options.hpp"
#include "node/run_name.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

namespace collab::jobs {
namespace {

std::filesystem::path user_file(const std::string& run_id) {
  const char* config = std::getenv("XDG_CONFIG_HOME");
  const char* home = std::getenv("HOME");
  const std::filesystem::path base =
      config != nullptr ? config : std::filesystem::path(home != nullptr ? home : ".") / ".config";
  return base / "collab" / (run_id + ".toml");
}

/// Files below the flags, which are read already.
void read_files(node::Config& config) {
  const std::filesystem::path system = "/etc/collab/collab.toml";
  if (std::filesystem::exists(system)) config.read_file(system, node::Origin::system_file);
  if (!config.has("run-id")) return;
  const auto file = user_file(run_id_of(config));
  if (std::filesystem::exists(file)) config.read_file(file, node::Origin::run_file);
}

}  // namespace

int peer_front(const std::vector<std::string>& arguments, const WithJobs& with_jobs) {
  node::Config config(peer_options());
  config.read_environment(std::getenv);
  const cli::Parsed parsed = cli::parse(peer_synopsis(), config, arguments);
  if (parsed.help) {
    fmt::print("{}", cli::help(peer_synopsis(), config.table(), parsed.command));
    return 0;
  }
  if (parsed.version) {
    fmt::print("collab-peer 0.1.0\n");
    return 0;
  }
  if (!parsed.argument.empty() && !config.has("run-id")) {
    const node::JoinLink link = node::parse_join_link(parsed.argument);
    config.set("run-id", node::to_string(link.run), node::Origin::flag, "the link");
  }
  read_files(config);
  if (!config.has("run-id") && parsed.command != "config" && parsed.command != "doctor") {
    throw Failure(ExitCode::usage, "which run to join is not said", "collab-peer --run-id NAME, or a join link");
  }
  if (parsed.command == "config") return show_config(config);
  if (parsed.command == "keys") return peer_keys(config, parsed.words);
  if (parsed.command == "status") return show_status(config);
  if (parsed.command == "leave") return ask_to_leave(config);
  if (parsed.command == "pause") return pause_peer(config, parsed.words);
  if (parsed.command == "resume") return resume_peer(config);
  return with_jobs(config, parsed);
}

}  // namespace collab::jobs
