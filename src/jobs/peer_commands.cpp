#include "jobs/peer_commands.hpp"

#include "cli/keys.hpp"
#include "jobs/peer_options.hpp"
#include "monitor/status_client.hpp"
#include "node/agenda.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <ctime>
#include <filesystem>
#include <utility>

namespace collab::jobs {

using nlohmann::json;
namespace fs = std::filesystem;

int peer_keys(const node::Config& config, std::vector<std::string> words) {
  const fs::path home = home_of(config);
  cli::KeysRequest request = cli::keys_request(config, std::move(words));
  request.program = "collab-peer";
  request.run_id = run_id_of(config);
  request.identity = home / "identity.key";
  request.authority = config.text("authority");
  request.manifest = home / "manifest.signed";
  request.bans = home / "bans";
  return cli::run_keys(request);
}

int show_config(const node::Config& config) {
  fmt::print("{}", config.describe());
  return 0;
}

int show_status(const node::Config& config) {
  const std::string answer = monitor::ask_node(home_of(config), "status");
  if (config.toggle("json")) {
    fmt::print("{}\n", answer);
    return 0;
  }
  const json state = json::parse(answer);
  if (state.contains("resting")) {
    fmt::print("rests until {}: {}\n", state.value("until", "?"), state.value("resting", "?"));
    return 0;
  }
  const json& run = state.at("run");
  fmt::print("{}  epoch {}  {}/{} samples, {} of them here\n", run.value("run_id", run.value("id", "?")),
             run.at("epoch").dump(), run.at("samples").dump(), run.at("target_batch_samples").dump(),
             run.at("own_samples").dump());
  for (const json& peer : state.at("peers")) {
    const json& path = peer.at("path");
    const bool bare = !path.is_string() || path == "tcp";
    fmt::print("  {:<20} {:<12} epoch {:<8} {} samples/s{}\n", peer.value("name", "?"), peer.value("role", "?"),
               peer.at("epoch").dump(), peer.at("samples_per_s").dump(), bare ? "" : "  " + path.get<std::string>());
  }
  return 0;
}

int ask_to_leave(const node::Config& config) {
  monitor::ask_node(home_of(config), "leave");
  fmt::print("the peer in {} is leaving\n", home_of(config).string());
  return 0;
}

int pause_peer(const node::Config& config, const std::vector<std::string>& words) {
  const fs::path home = home_of(config);
  if (words.empty()) {
    node::pause(home, std::nullopt);
    fmt::print("paused until collab-peer resume\n");
    return 0;
  }
  const std::int64_t until = std::time(nullptr) + cli::parse_length(words.front()) / 1000;
  node::pause(home, until);
  fmt::print("paused until {}\n", node::week_text(node::local_time(until).minute_of_week));
  return 0;
}

int resume_peer(const node::Config& config) {
  const bool was_paused = node::resume(home_of(config));
  fmt::print("{}\n", was_paused ? "the pause is over" : "nothing was paused");
  return 0;
}

}  // namespace collab::jobs
