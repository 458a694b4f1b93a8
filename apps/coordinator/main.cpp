// collab-coordinator: founds a run and hosts it.

#include "cli/keys.hpp"
#include "cli/program.hpp"
#include "host.hpp"
#include "monitor/status_client.hpp"
#include "options.hpp"
#include "own_token.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <thread>

namespace collab::coordinator {
namespace {

constexpr std::size_t kAnnouncedMax = 8;  // as many as a manifest keeps of one coordinator
constexpr auto kLinePeriod = std::chrono::seconds(1);

std::filesystem::path home_of(const node::Config& config) {
  if (config.has("home")) return config.text("home");
  const char* data = std::getenv("XDG_DATA_HOME");
  const char* home = std::getenv("HOME");
  const std::filesystem::path base = data != nullptr && *data == '/'
                                         ? std::filesystem::path(data)
                                         : std::filesystem::path(home != nullptr ? home : ".") / ".local/share";
  return base / "collab/coordinator" / config.text("run-id");
}

/// The run's key: kept apart from the node's, and not needed for hosting.
std::filesystem::path authority_of(const node::Config& config, const std::filesystem::path& home) {
  return config.has("authority") ? std::filesystem::path(config.text("authority")) : home / "authority.key";
}

std::filesystem::path token_of(const node::Config& config, const std::filesystem::path& home) {
  return config.has("token") ? std::filesystem::path(config.text("token")) : home / "token";
}

/// What the person who hosts sees, and what a program reads.
struct Voice {
  bool json = false;
  bool quiet = false;
  void say(const std::string& text) const {
    if (!json && !quiet) fmt::print(stderr, "{}\n", text);
  }
  void tell(const nlohmann::json& object) const {
    if (!json) return;
    fmt::print("{}\n", object.dump());
    std::fflush(stdout);
  }
};

bool is_loopback(const std::string& listen) {
  return listen.starts_with("127.") || listen.starts_with("[::1]") || listen.starts_with("localhost:");
}

void check_admission(node::Config& config) {
  if (config.has("admission")) return;
  if (!is_loopback(config.text("listen"))) {
    throw Failure(ExitCode::usage, "who may join is not said, and this address is not only for this machine",
                  "--admission open for everybody, --admission list --allow FILE, or --admission token");
  }
  config.set("admission", "open", node::Origin::built_in);
}

/// Where peers may dial for as long as this home hosts the run: what --announce says, else an address of --listen that
/// is neither a wildcard nor left to the system.
std::vector<net::Address> announced(const node::Config& config) {
  std::vector<net::Address> out;
  for (const std::string& text : config.list("announce")) {
    const auto address = net::parse_address(text);
    if (!address) {
      throw Failure(ExitCode::usage, fmt::format("cannot announce \"{}\": it is no address", text),
                    "--announce HOST:PORT, or wss://HOST:PORT/collab/v1");
    }
    out.push_back(*address);
  }
  if (out.size() > kAnnouncedMax) {
    throw Failure(ExitCode::usage, "too many addresses to announce", fmt::format("give at most {}", kAnnouncedMax));
  }
  const auto listen = net::parse_address(config.text("listen"), /*any_port=*/true);
  const bool fixed = listen && listen->port != 0 && listen->host != "::" && listen->host != "0.0.0.0";
  const bool announced_by_wish = !out.empty();
  if (!announced_by_wish && fixed) out.push_back(*listen);
  if (!announced_by_wish && fixed && config.has("wss-port"))
    out.push_back(net::Address{listen->host, static_cast<std::uint16_t>(config.number("wss-port")), net::Leg::wss});
  return out;
}

/// The manifest with `self` at `addresses`, signed anew when that is news and this home holds the authority.
Signed with_coordinator(Signed statement, const node::Config& config, const RunFiles& files,
                        const std::filesystem::path& home, const PeerId& self) {
  node::Contact contact;
  contact.peer = self;
  contact.addresses = announced(config);
  if (contact.addresses.empty() || !std::filesystem::exists(authority_of(config, home))) return statement;
  auto manifest = node::read_manifest(statement, config.text("run-id"), std::nullopt);
  if (!manifest) return statement;  // the host says what is wrong with it
  const node::Manifest before = *manifest;
  auto& all = manifest->coordinators;
  std::erase_if(all, [&](const node::Contact& known) { return known.peer == self; });
  if (all.size() == node::kCoordinatorsMax) all.pop_back();
  all.insert(all.begin(), contact);
  if (*manifest == before) return statement;
  const Identity authority = cli::read_authority(authority_of(config, home));
  if (authority.id() != manifest->authority) return statement;
  ++manifest->sequence;
  Signed renewed = node::sign_manifest(authority, *manifest);
  node::save_manifest(files.manifest, renewed);
  return renewed;
}

/// Before anything is made: a command that is refused leaves no trace.
void check_usage(node::Config& config, const RunFiles& files, const std::filesystem::path& home) {
  const auto listen = net::parse_address(config.text("listen"), /*any_port=*/true);
  if (!listen || listen->leg != net::Leg::tcp) {
    throw Failure(ExitCode::usage, fmt::format("cannot listen on \"{}\": it is no address", config.text("listen")),
                  "--listen HOST:PORT, [::]:4600 for instance");
  }
  (void)announced(config);
  if (std::filesystem::exists(files.manifest)) return;
  if (!config.toggle("new-run")) {
    throw Failure(ExitCode::usage, fmt::format("{} holds no run {}", home.string(), config.text("run-id")),
                  "--new-run to found it, or --home where it is");
  }
  check_admission(config);
  check_founding(config);
}

Signed manifest_of(node::Config& config, const RunFiles& files, const std::filesystem::path& home, const Voice& voice) {
  if (auto stored = node::load_manifest(files.manifest)) {
    const auto manifest = node::read_manifest(*stored, config.text("run-id"), std::nullopt);
    if (manifest) check_files(*manifest, files);  // else the host says what is wrong with it
    if (config.toggle("new-run"))
      voice.say(fmt::format("run {} is founded already; going on with it", config.text("run-id")));
    return std::move(*stored);
  }
  const Identity authority = Identity::load_or_create(authority_of(config, home));
  return found_run(config, config.text("run-id"), authority, files, [&](const std::string& text) { voice.say(text); });
}

/// Once, when it begins or ends. `before`: what it was; returns what it is.
bool tell_undialled(const HostStatus& status, bool before, const Voice& voice) {
  if (status.undialled && !before) {
    voice.say(status.averages
                  ? "nobody who trains can be dialled: this coordinator averages for them (--no-average: never)"
                  : "nobody who trains can be dialled: unless somebody averages for them no step comes about; run "
                    "collab-peer --role aux, or a program of yours that averages, where they can dial it");
  }
  if (!status.undialled && before) voice.say("somebody who trains can be dialled: peers average among themselves");
  return status.undialled;
}

void host_until_asked(Host& host, OwnToken& token, const cli::Interrupt& interrupt, const Voice& voice) {
  auto next_line = std::chrono::steady_clock::now();
  std::uint64_t shown = 0;
  bool undialled = false;
  while (!interrupt.asked() && !host.asked_to_leave()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    host.check();
    if (std::chrono::steady_clock::now() < next_line) continue;
    next_line += kLinePeriod;
    token.renew();
    const HostStatus status = host.status();
    voice.tell({{"event", "status"},
                {"epoch", status.epoch},
                {"peers", status.peers},
                {"samples_per_s", status.samples_per_s},
                {"averages", status.averages}});
    undialled = tell_undialled(status, undialled, voice);
    if (status.epoch == shown) continue;
    shown = status.epoch;
    voice.say(fmt::format("epoch {}  loss {}  {} peers  {:.0f} samples/s", status.epoch,
                          std::isfinite(status.loss) ? fmt::format("{:.3f}", status.loss) : "-", status.peers,
                          status.samples_per_s));
  }
}

int run(node::Config& config) {
  const std::filesystem::path home = home_of(config);
  const Voice voice{config.toggle("json"), config.toggle("quiet")};
  const RunFiles files(home);
  check_usage(config, files, home);
  const cli::Interrupt interrupt;
  Identity identity = Identity::load_or_create(home / "identity.key");
  Log::Options log_options;
  log_options.stderr_level = cli::parse_log_level(config.text("log-level"));
  log_options.file = config.has("log-file") ? config.text("log-file") : (home / "logs/coordinator.jsonl").string();
  Log log(log_options);
  const Signed statement =
      with_coordinator(manifest_of(config, files, home, voice), config, files, home, identity.id());

  OwnToken token(authority_of(config, home), token_of(config, home), config.text("run-id"), statement, identity.id());
  token.renew();

  HostOptions options;
  options.run_id = config.text("run-id");
  options.home = home;
  options.name = config.text("name");
  options.bootstrap = config.list("bootstrap");
  options.listen = config.text("listen");
  options.wss_port = static_cast<std::uint16_t>(config.has("wss-port") ? config.number("wss-port") : 0);
  options.proxy = config.text("proxy");
  options.interface = config.text("interface");
  if (config.has("limit-up")) options.limit_up_mbit = config.real("limit-up");
  if (config.has("limit-down")) options.limit_down_mbit = config.real("limit-down");
  for (const std::string& text : config.list("announce")) options.announce.push_back(*net::parse_address(text));
  options.dashboard = config.text("dashboard");
  options.answer_lan = config.toggle("lan");
  options.port_map = config.toggle("port-map");
  options.relay = config.text("relay");
  options.relay_rate_mbit = static_cast<double>(config.number("relay-rate"));
  options.allow_list = config.text("allow");
  options.token_file = token_of(config, home);
  options.checkpoint_every = static_cast<std::uint64_t>(config.number("checkpoint-every"));
  options.average = config.toggle("average");
  options.keep = static_cast<std::size_t>(config.number("keep"));
  Host host(options, log, std::move(identity), statement, files);

  const std::string key = statement.signer.text();
  voice.say(fmt::format("hosting {}; key {}", options.run_id, key));
  for (const std::string& address : host.addresses()) voice.say(fmt::format("peers dial {}", address));
  if (!host.dashboard().empty())
    voice.say(fmt::format("dashboard: http://{0}/, metrics: http://{0}/metrics", host.dashboard()));
  voice.say(fmt::format("join with: {} --run-id {}#{} --bootstrap HOST:PORT", host.program(), options.run_id, key));
  voice.tell({{"event", "ready"}, {"addresses", host.addresses()}, {"dashboard", host.dashboard()}, {"key", key}});
  host_until_asked(host, token, interrupt, voice);
  voice.say("leaving; peers go on without this coordinator");
  return 0;
}

int show_manifest(const node::Config& config) {
  const auto stored = node::load_manifest(RunFiles(home_of(config)).manifest);
  if (!stored)
    throw Failure(ExitCode::usage, fmt::format("{} holds no run", home_of(config).string()), "--home, or --new-run");
  const auto manifest = node::read_manifest(*stored, config.text("run-id"), std::nullopt);
  if (!manifest) throw Failure(ExitCode::incompatible, manifest.error().reason, "another --home");
  fmt::print(
      "run {}  sequence {}\nkey {}\ntarget batch {}  codec {}  group size at most {}  grid {}  mode {}\nrecipe {}\n",
      manifest->run_id, manifest->sequence, manifest->authority.text(), manifest->target_batch, manifest->codec,
      manifest->group_size_max, manifest->grid, manifest->mode, manifest->recipe);
  for (const node::Contact& coordinator : manifest->coordinators) {
    for (const net::Address& address : coordinator.addresses)
      fmt::print("coordinator {}\n", node::to_string(node::PeerAddress{address, coordinator.peer}));
  }
  return 0;
}

cli::KeysRequest keys_request(const node::Config& config, std::vector<std::string> words) {
  const std::filesystem::path home = home_of(config);
  cli::KeysRequest request = cli::keys_request(config, std::move(words));
  request.program = "collab-coordinator";
  request.run_id = config.text("run-id");
  request.identity = home / "identity.key";
  request.authority = authority_of(config, home);
  request.manifest = RunFiles(home).manifest;
  request.bans = home / "bans";
  request.lift = config.toggle("lift");
  return request;
}

int dispatch(const std::vector<std::string>& arguments) {
  node::Config config(coordinator_options());
  config.read_environment(std::getenv);
  const cli::Parsed parsed = cli::parse(coordinator_synopsis(), config, arguments);
  if (parsed.help) {
    fmt::print("{}", cli::help(coordinator_synopsis(), config.table(), parsed.command));
    return 0;
  }
  if (parsed.version) {
    fmt::print("collab-coordinator 0.1.0\n");
    return 0;
  }
  if (parsed.command == "config") {
    fmt::print("{}", config.describe());
    return 0;
  }
  if (!config.has("run-id")) throw Failure(ExitCode::usage, "which run is not said", "--run-id NAME");
  if (!node::is_run_id(config.text("run-id"))) {
    throw Failure(ExitCode::usage, fmt::format("\"{}\" is no run id", config.text("run-id")),
                  "1 to 64 of a-z 0-9 . _ -");
  }
  if (parsed.command == "manifest") return show_manifest(config);
  if (parsed.command == "keys") return cli::run_keys(keys_request(config, parsed.words));
  if (parsed.command == "ban") return cli::run_ban(keys_request(config, parsed.words));
  if (parsed.command == "status") {
    fmt::print("{}\n", monitor::ask_node(home_of(config), "status"));
    return 0;
  }
  return run(config);
}

}  // namespace
}  // namespace collab::coordinator

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return collab::cli::run_program("collab-coordinator", [&] { return collab::coordinator::dispatch(arguments); });
}
