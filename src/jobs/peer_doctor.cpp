#include "jobs/peer_doctor.hpp"

#include "doctor/files.hpp"
#include "doctor/key.hpp"
#include "doctor/machine.hpp"
#include "doctor/port.hpp"
#include "doctor/recipe.hpp"
#include "doctor/run.hpp"
#include "jobs/peer_files.hpp"
#include "jobs/peer_run.hpp"
#include "net/tcp.hpp"
#include "node/interface_choice.hpp"
#include "node/proxy_choice.hpp"
#include "node/runtime.hpp"
#include "optim/parts.hpp"
#include "optim/sgemm.hpp"
#include "recipes/recipe.hpp"

#include <ATen/Parallel.h>
#include <boost/asio/co_spawn.hpp>
#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace collab::jobs {
namespace {

namespace fs = std::filesystem;
using doctor::Finding;

constexpr Duration kSgemmTime = std::chrono::milliseconds(300);
constexpr const char* kOptions = "options";
constexpr const char* kNobodysRun = "doctor";  // shown to a --bootstrap when no run is named: who answers names its own

std::uint64_t kept_checkpoints(const node::Config& config) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(1, config.number("keep")));
}

void print(const Finding& finding) {
  fmt::print("{}\n", doctor::line(finding));
  std::fflush(stdout);
}

/// One look, from the first line to the exit code.
class Examination {
 public:
  Examination(const Registry& jobs, const node::Config& config, const std::string& link)
      : jobs_(jobs),
        config_(config),
        named_(config.has("run-id")),
        options_(options_of(config, link)),
        node_options_(optim::node_options_of(options_)),
        home_(named_ || config.has("home") ? options_.home : options_.home.parent_path()),
        json_(config.toggle("json")),
        network_(runtime_.loop(), runtime_.clock(),
                 net::TcpNetwork::behind(node::choose_proxy(options_.proxy, std::getenv),
                                         node::choose_interface(options_.interface))) {}
  ~Examination();
  Examination(const Examination&) = delete;
  Examination& operator=(const Examination&) = delete;

  int run();

 private:
  static optim::RunOptions options_of(const node::Config& config, const std::string& link);
  void say(Finding finding);
  void look_at_port();
  void begin_to_look();
  void begin_to_look_at_router();
  void look_at_device();
  void judge_run(const doctor::RunLook& look);
  std::optional<node::Manifest> stored_manifest();
  std::optional<recipes::Recipe> read_recipe(const node::Manifest& manifest);
  void look_at_files(const std::optional<node::Manifest>& manifest, const std::optional<recipes::Recipe>& recipe);

  const Registry& jobs_;
  const node::Config& config_;
  bool named_;  ///< the run
  optim::RunOptions options_;
  node::NodeOptions node_options_;
  fs::path home_;
  bool json_;
  std::vector<Finding> findings_;
  doctor::KeyCheck key_;
  doctor::PortCheck port_;
  Log log_;
  Metrics metrics_;
  node::Runtime runtime_;
  net::TcpNetwork network_;
  std::unique_ptr<node::Node> node_;  ///< on the loop; never joins
  std::future<doctor::RunLook> looking_;
  std::future<std::optional<doctor::RouterLook>> router_;  ///< when no run is looked at
};

Examination::~Examination() {
  if (looking_.valid()) looking_.wait();
  if (router_.valid()) router_.wait();
  runtime_.on_loop([this] { node_.reset(); });
}

optim::RunOptions Examination::options_of(const node::Config& config, const std::string& link) {
  if (config.has("run-id")) return run_options_of(config, link);
  node::Config named = config;
  named.set("run-id", kNobodysRun, node::Origin::flag);
  optim::RunOptions options = run_options_of(named, link);
  options.discover_lan = false;
  return options;
}

void Examination::say(Finding finding) {
  if (!json_) print(finding);
  findings_.push_back(std::move(finding));
}

void Examination::look_at_port() {
  doctor::PortWish wish;
  wish.client = node_options_.client;
  wish.peer_here = key_.holder.has_value();
  wish.wanted = node_options_.listen;
  runtime_.on_loop([&] { port_ = doctor::check_port(network_, wish); });
  if (node_options_.client && !options_.client)
    port_.finding = doctor::ok(port_.finding.name, "none: nobody dials in through a proxy, so this peer only dials");
  say(port_.finding);
  if (node_options_.wss_port == 0 || node_options_.client) return;
  const std::string host = node_options_.listen ? node_options_.listen->host : "::";
  runtime_.on_loop(
      [&] { say(doctor::check_wss_port(network_, host, node_options_.wss_port, key_.holder.has_value())); });
}

/// Unless no run and no place is named, or the home holds something else.
void Examination::begin_to_look() {
  node::NodeOptions options = node_options_;
  options.name = options_.name;
  if (!named_) {
    options.home.clear();
    options.loopback_port = 0;
    if (options.bootstrap.empty()) return;
  }
  // the peer's own key, unless a peer that uses it is connected elsewhere
  const bool own = key_.identity && !key_.holder;
  Identity identity = own ? std::move(*key_.identity) : Identity::create();
  std::uint64_t seed = 0;
  randombytes_buf(&seed, sizeof seed);  // a new one each time: whom we asked before must not take us for that asker
  try {
    runtime_.on_loop([&] {
      const node::NodeNeeds needs{runtime_.loop(), runtime_.workers(), runtime_.clock(), network_, Random(seed), log_,
                                  metrics_};
      node_ = std::make_unique<node::Node>(needs, std::move(identity), std::move(options));
    });
  } catch (const Failure& failure) {
    const bool by_wish = failure.code() == ExitCode::usage;  // else the home holds what cannot be read
    say(doctor::fail(by_wish ? kOptions : "run", failure));
    return;
  }
  if (node_->conflict()) {
    say(doctor::fail("run", node_->join_failure(*node_->conflict())));
    return;
  }
  doctor::LookOptions how;
  how.listen = port_.open;
  how.proxy = network_.proxy();
  how.look_up = [this](std::string host, TimePoint deadline) { return network_.look_up(std::move(host), deadline); };
  looking_ = asio::co_spawn(runtime_.loop(), doctor::look_at_run(*node_, std::move(how)), asio::use_future);
}

/// Without anybody who could dial back: what the router says.
void Examination::begin_to_look_at_router() {
  if (looking_.valid() || !port_.open || node_options_.client) return;
  std::uint64_t seed = 0;
  randombytes_buf(&seed, sizeof seed);
  const node::NodeNeeds needs{runtime_.loop(), runtime_.workers(), runtime_.clock(), network_, Random(seed), log_,
                              metrics_};
  router_ =
      asio::co_spawn(runtime_.loop(), doctor::look_at_router(needs, node_options_, *port_.open), asio::use_future);
}

void Examination::look_at_device() {
  try {
    const optim::Device device = device_of(config_);
    say(doctor::judge_cpu(optim::sgemm_gflops(runtime_.clock(), kSgemmTime), at::get_num_threads()));
    say(doctor::judge_device(device.words, device.problem));
  } catch (const Failure& failure) {
    say(doctor::fail("gpu", failure));
  }
}

void Examination::judge_run(const doctor::RunLook& look) {
  doctor::JudgeOptions how;
  how.named = named_;
  using Key = doctor::JudgeOptions::Key;
  how.key = !key_.made ? Key::none_yet : key_.identity && !key_.holder ? Key::own : Key::unusable;
  for (Finding& finding : doctor::judge(look, how)) say(std::move(finding));
}

std::optional<node::Manifest> Examination::stored_manifest() {
  if (!node_ || !node_->stored()) return std::nullopt;
  auto manifest = node::read_manifest(*node_->stored(), options_.run_id, options_.authority);
  return manifest ? std::optional(std::move(*manifest)) : std::nullopt;
}

std::optional<recipes::Recipe> Examination::read_recipe(const node::Manifest& manifest) {
  std::optional<std::uint32_t> microbatch;
  if (config_.has("microbatch")) microbatch = static_cast<std::uint32_t>(config_.number("microbatch"));
  const auto knows = [this](const std::string& job) { return jobs_.knows(job); };
  doctor::RecipeCheck check = doctor::check_recipe(manifest.recipe, knows, microbatch);
  say(std::move(check.finding));
  return std::move(check.recipe);
}

void Examination::look_at_files(const std::optional<node::Manifest>& manifest,
                                const std::optional<recipes::Recipe>& recipe) {
  doctor::RunData data;
  if (manifest) {
    const RunFiles files = files_in(home_, *manifest);
    if (!files.tokenizer.empty())
      say(doctor::check_run_file("tokenizer", files.tokenizer, manifest->tokenizer).finding);
    if (!files.prepared.empty()) {
      doctor::FileCheck prepared = doctor::check_run_file("text", files.prepared, manifest->data);
      data.here = prepared.content;
      say(std::move(prepared.finding));
    }
    using Kind = doctor::RunData::Kind;
    data.hash = manifest->data;
    if (recipe) data.kind = recipe->job == recipes::kAlbert ? Kind::text : Kind::file;
    if (files.prepared.empty()) data.kind = Kind::none;
  }
  if (config_.has("data")) say(doctor::check_data(config_.text("data"), data));
}

int Examination::run() {
  if (named_ || config_.has("home")) {
    key_ = doctor::check_key(home_ / "identity.key");
    say(key_.finding);
  }
  look_at_port();
  begin_to_look();
  begin_to_look_at_router();
  look_at_device();
  std::optional<node::Manifest> manifest;
  if (looking_.valid()) {
    try {
      const doctor::RunLook look = looking_.get();
      judge_run(look);
      if (look.found) manifest = look.found->manifest;
    } catch (const Failure& failure) {
      say(doctor::fail("token", failure));
    }
  }
  if (router_.valid()) {
    if (const auto router = router_.get()) say(doctor::judge_router(*router, std::nullopt));
  }
  if (!named_)
    say(doctor::ok("run", "not named: this machine alone was looked at; --run-id NAME looks at the run too"));
  if (named_ && !manifest) manifest = stored_manifest();
  std::optional<recipes::Recipe> recipe;
  if (manifest) recipe = read_recipe(*manifest);
  const doctor::Needs needs = recipe ? doctor::needs_of(*recipe, kept_checkpoints(config_)) : doctor::Needs();
  for (Finding& finding : doctor::judge(doctor::measure_machine(home_), needs)) say(std::move(finding));
  look_at_files(manifest, recipe);
  if (json_) fmt::print("{}\n", doctor::to_json(findings_));
  return static_cast<int>(doctor::exit_code(findings_));
}

/// What costs no time and is likely to be the reason.
std::vector<Finding> quick_failures(const fs::path& home) {
  std::vector<Finding> findings = doctor::judge(doctor::measure_machine(home), doctor::Needs());
  findings.push_back(doctor::check_key(home / "identity.key").finding);
  const auto is_no_failure = [](const Finding& finding) { return finding.result != doctor::Grade::fail; };
  findings.erase(std::remove_if(findings.begin(), findings.end(), is_no_failure), findings.end());
  return findings;
}

/// As a shell reads it back.
std::string quoted(const std::string& word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@%+=,";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string out = "'";
  for (const char letter : word) {
    if (letter == '\'') out += "'\\'";
    out += letter;
  }
  return out + "'";
}

/// What a person would type: the words that were given, but for those about output.
std::string doctor_command(const node::Config& config, const std::string& link) {
  std::string command = "collab-peer doctor";
  if (!link.empty()) command += " " + quoted(link);
  for (const node::OptionRow& row : config.table()) {
    const bool typed =
        config.origin(row.name) == node::Origin::flag || config.origin(row.name) == node::Origin::config_file;
    if (!typed || !config.has(row.name) || row.topic == "Output") continue;
    if (row.kind == node::OptionKind::toggle) {
      command += fmt::format(" --{}{}", config.toggle(row.name) ? "" : "no-", row.name);
    } else if (row.kind == node::OptionKind::list) {
      for (const std::string& value : config.list(row.name))
        command += fmt::format(" --{} {}", row.name, quoted(value));
    } else {
      command += fmt::format(" --{} {}", row.name, quoted(node::shown(row, config.text(row.name))));
    }
  }
  return command;
}

}  // namespace

int examine(const Registry& jobs, const node::Config& config, const std::string& link) {
  // a name server that is silent must not hold up everything; glibc reads this at the first question
  ::setenv("RES_OPTIONS", "timeout:2 attempts:1", 0);
  std::optional<Examination> examination;
  try {
    examination.emplace(jobs, config, link);
  } catch (const Failure& failure) {  // words or a run book that no start could use
    const std::vector<Finding> findings(1, doctor::fail(kOptions, failure));
    if (!config.toggle("json")) print(findings.front());
    if (config.toggle("json")) fmt::print("{}\n", doctor::to_json(findings));
    return static_cast<int>(failure.code());
  }
  return examination->run();
}

Failure after_failed_start(const node::Config& config, const std::string& link, const Failure& failure) {
  const bool of_start = failure.code() == ExitCode::unreachable || failure.code() == ExitCode::not_admitted ||
                        failure.code() == ExitCode::incompatible || failure.code() == ExitCode::machine;
  if (!of_start) return failure;
  for (const Finding& finding : quick_failures(home_of(config))) {
    if (finding.measured != failure.cause()) fmt::print(stderr, "collab-peer: {}\n", doctor::line(finding));
  }
  return Failure(failure.code(), failure.cause(),
                 fmt::format("{}; or look closer: {}", failure.remedy(), doctor_command(config, link)));
}

}  // namespace collab::jobs
