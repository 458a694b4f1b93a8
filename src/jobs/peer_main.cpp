#include "jobs/peer_main.hpp"

#include "cli/program.hpp"
#include "jobs/peer_aside.hpp"
#include "jobs/peer_commands.hpp"
#include "jobs/peer_doctor.hpp"
#include "jobs/peer_options.hpp"
#include "jobs/peer_run.hpp"
#include "node/run_name.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <future>

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

/// As often as its owner lets it.
int take_part(const Registry& jobs, const node::Config& config, const std::string& link) {
  const PeerRole role = role_of(config);
  Owner owner(config);
  while (owner.await()) {
    const auto stay = [&] {
      return role == PeerRole::trainer ? run_peer(jobs, config, owner, link)
                                       : run_aside(jobs, config, owner, link, role);
    };
    try {
      // in a thread of its own: who computes gives up its priority for good
      const int code = std::async(std::launch::async, stay).get();
      if (!owner.rests()) return code;
    } catch (const Failure& failure) {
      const bool looked_for_the_run = failure.code() == ExitCode::done;
      if (!owner.rests() || !looked_for_the_run) throw;
    }
  }
  return static_cast<int>(ExitCode::done);
}

int dispatch(const Registry& jobs, const std::vector<std::string>& arguments) {
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
  if (parsed.command == "doctor") return examine(jobs, config, parsed.argument);
  if (!config.has("run-id") && parsed.command != "config") {
    throw Failure(ExitCode::usage, "which run to join is not said", "collab-peer --run-id NAME, or a join link");
  }
  if (parsed.command == "config") return show_config(config);
  if (parsed.command == "keys") return peer_keys(config, parsed.words);
  if (parsed.command == "status") return show_status(config);
  if (parsed.command == "leave") return ask_to_leave(config);
  if (parsed.command == "pause") return pause_peer(config, parsed.words);
  if (parsed.command == "resume") return resume_peer(config);
  if (parsed.command == "export") return export_checkpoint(config);
  if (parsed.command == "eval") return evaluate_checkpoint(jobs, config);
  try {
    return take_part(jobs, config, parsed.argument);
  } catch (const Failure& failure) {
    throw after_failed_start(config, parsed.argument, failure);
  }
}

}  // namespace

int peer_main(const Registry& jobs, int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return cli::run_program("collab-peer", [&] { return dispatch(jobs, arguments); });
}

}  // namespace collab::jobs
