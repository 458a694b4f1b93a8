// collab-bench-trainer: one training process of `collab-bench overhead`, which starts it. A program of its own, so that
// the other measurements do not carry libtorch.
//
// Serves the orders on standard input, one JSON object a line, each answered by one on standard output:
//   setup {kind: bare|collab, run, founder, threads} -> {}   `founder`: the home of who founded the run, with its files
//     collab also {home, address, log_level}         -> {}   and has joined the run then
//   ready {}                                    -> {epoch}   stands still until the next order
//   train {first_unit, samples, until_epoch}    -> {seconds, cpu_s, samples, steps, epochs: [{epoch, samples, …}]}
// It ends with standard input.

#include "child.hpp"
#include "cli/program.hpp"
#include "jobs/registry.hpp"
#include "node/manifest.hpp"
#include "node/run_name.hpp"
#include "optim/device.hpp"
#include "training_loop.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <csignal>
#include <memory>
#include <optional>
#include <poll.h>
#include <unistd.h>

namespace collab::bench {
namespace {

using nlohmann::json;

node::Manifest manifest_of(const std::filesystem::path& founder, const std::string& run) {
  const auto statement = node::load_manifest(founder / "manifest.signed");
  if (!statement) throw Failure(ExitCode::data, fmt::format("{} holds no run", founder.string()), "start it again");
  auto manifest = node::read_manifest(*statement, node::parse_run_name(run).run_id, std::nullopt);
  if (!manifest) throw Failure(ExitCode::incompatible, manifest.error().reason, "start it again");
  return std::move(*manifest);
}

class Trainer {
 public:
  explicit Trainer(const json& setup);
  /// Until the next order can be read.
  void rest();
  json obey(const json& order);

 private:
  std::optional<optim::Collaboration> run_;
  std::unique_ptr<TrainingLoop> loop_;
  CollabLoop* collab_ = nullptr;  ///< the same, if it is one
};

Trainer::Trainer(const json& setup) {
  const optim::Device device = optim::set_up_device(optim::DeviceWish::cpu, setup.at("threads").get<int>());
  const std::filesystem::path founder = setup.at("founder").get<std::string>();
  const auto run = setup.at("run").get<std::string>();
  const auto recipe = recipes::from_json(manifest_of(founder, run).recipe);
  if (!recipe) throw Failure(ExitCode::incompatible, recipe.error().why, "start it again");
  auto job = jobs::standard_jobs().make({*recipe, founder / "spiece.model", founder / "prepared.bin", device});
  if (setup.at("kind") == "bare") {
    loop_ = std::make_unique<BareLoop>(std::move(job), *recipe);
    return;
  }
  optim::RunOptions options;
  options.run_id = run;
  options.bootstrap = {setup.at("address").get<std::string>()};
  options.home = setup.at("home").get<std::string>();
  options.listen = "127.0.0.1:0";
  options.discover_lan = false;
  options.log.stderr_level = cli::parse_log_level(setup.at("log_level").get<std::string>());
  run_.emplace(std::move(options));
  run_->start();
  auto loop = std::make_unique<CollabLoop>(*run_, std::move(job), *recipe);
  collab_ = loop.get();
  loop_ = std::move(loop);
  collab_->join();
}

void Trainer::rest() {
  if (collab_ == nullptr) return;  // reading blocks
  pollfd wait{STDIN_FILENO, POLLIN, 0};
  while (::poll(&wait, 1, 0) == 0) collab_->rest();
}

json to_json(const Work& work) {
  json epochs = json::array();
  for (const EpochFigures& epoch : work.epochs) {
    epochs.push_back({{"epoch", epoch.epoch},
                      {"samples", epoch.samples},
                      {"handing_over_s", epoch.handing_over_s},
                      {"averaging_s", epoch.averaging_s},
                      {"stepping_s", epoch.stepping_s}});
  }
  return {{"seconds", work.seconds},
          {"cpu_s", work.cpu_s},
          {"samples", work.samples},
          {"steps", work.steps},
          {"epochs", epochs}};
}

json Trainer::obey(const json& order) {
  const auto what = order.at("order").get<std::string>();
  if (what == "ready") return {{"epoch", collab_ == nullptr ? 0 : collab_->epoch()}};
  if (what != "train") throw std::logic_error("unknown order " + what);
  return to_json(loop_->train({order.at("first_unit").get<std::uint64_t>(), order.at("samples").get<std::uint64_t>(),
                               order.at("until_epoch").get<std::uint64_t>()}));
}

int run_trainer() {
  std::signal(SIGPIPE, SIG_IGN);  // who reads our answers may die first
  std::signal(SIGINT, SIG_IGN);   // Ctrl+C reaches us too; who started us ends us
  std::string line;
  if (!read_order(line)) return 0;
  Trainer trainer(json::parse(line));
  answer(json::object().dump());
  for (bool stand_still = false;;) {
    if (!stand_still) trainer.rest();
    if (!read_order(line)) return 0;
    const json order = json::parse(line);
    stand_still = order.at("order") == "ready";
    answer(trainer.obey(order).dump());
  }
}

}  // namespace
}  // namespace collab::bench

int main() {
  return collab::cli::run_program("collab-bench-trainer", [] { return collab::bench::run_trainer(); });
}
