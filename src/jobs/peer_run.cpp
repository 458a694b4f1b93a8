#include "jobs/peer_run.hpp"

#include "base/text.hpp"
#include "cli/program.hpp"
#include "jobs/microbatch_size.hpp"
#include "jobs/peer_files.hpp"
#include "jobs/presence.hpp"
#include "monitor/metrics_csv.hpp"
#include "node/run_name.hpp"
#include "optim/extras.hpp"
#include "optim/optimizer.hpp"
#include "optim/parts.hpp"
#include "optim/tell_dashboards.hpp"
#include "recipes/albert.hpp"
#include "state/checkpoint.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <cmath>
#include <functional>
#include <limits>
#include <sys/resource.h>
#include <thread>

namespace collab::jobs {
namespace {

using nlohmann::json;

/// JSON has no NaN.
json number_or_null(double number) {
  return std::isfinite(number) ? json(number) : json(nullptr);
}

/// This thread, and those that will compute for it. The network's is there already, and answers as soon as any other
/// program.
void be_nice(int nice) {
  errno = 0;
  const int now = ::getpriority(PRIO_PROCESS, 0);  // of the thread, on Linux
  if (errno == 0 && now < nice) (void)::setpriority(PRIO_PROCESS, 0, nice);
}

/// Tells how long gradients take.
class TimedJob final : public optim::Job {
 public:
  using Computed = std::function<void(std::size_t units, Duration took)>;

  TimedJob(std::unique_ptr<optim::Job> job, Computed computed) : job_(std::move(job)), computed_(std::move(computed)) {}
  optim::Loss gradients(std::span<const optim::Unit> units) override {
    const TimePoint begin = std::chrono::steady_clock::now();
    const optim::Loss loss = job_->gradients(units);
    computed_(units.size(), std::chrono::steady_clock::now() - begin);
    return loss;
  }
  std::uint64_t units_per_pass() const override { return job_->units_per_pass(); }
  torch::nn::Module& module() override { return job_->module(); }
  std::vector<optim::Score> evaluate() override { return job_->evaluate(); }

 private:
  std::unique_ptr<optim::Job> job_;
  Computed computed_;
};

/// One stay in a run, from the first line to the last.
class Stay {
 public:
  Stay(const Registry& jobs, const node::Config& config, Owner& owner, const std::string& link)
      : jobs_(jobs),
        config_(config),
        device_(device_of(config)),
        delay_(delay_of(config)),
        mode_(mode_of(config)),
        presence_(config, owner, run_options_of(config, link)) {}

  int run();

 private:
  void make_job();
  void resume();
  void train();
  std::uint32_t samples_at_once() const;
  void note_computed(std::uint64_t samples, Duration took);
  void note_dropped();
  void after_epoch(optim::StepResult result);
  void tell_epochs(optim::StepResult result);
  void tell_epoch(const epoch::EpochReport* report, const char* result);
  void write_csv(const epoch::EpochReport& report);
  void evaluate();
  void save();
  bool asked_to_stop() { return presence_.asked_to_stop(); }

  const Registry& jobs_;
  const node::Config& config_;
  optim::Device device_;  ///< before anything is opened: a device that is not there is a matter of this machine
  epoch::Delay delay_;
  std::optional<node::Mode> mode_;
  Presence presence_;
  PeerOutput& output_ = presence_.output();
  optim::Collaboration& collaboration_ = presence_.run();
  recipes::Recipe recipe_;  ///< the run's, with this peer's microbatch
  RunFiles files_;
  RunnableJob runnable_;
  std::optional<MicrobatchSize> microbatch_;  ///< none: it is `recipe_`'s
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::optional<state::Checkpoints> checkpoints_;
  std::optional<monitor::MetricsCsv> csv_;
  std::uint64_t epochs_max_ = 0;
  std::uint64_t samples_ = 0;
  std::uint64_t samples_lost_ = 0;
  std::uint64_t dropped_ = 0;  ///< microbatches
  std::uint64_t epochs_ = 0;
  std::uint64_t saved_epoch_ = 0;
  std::uint64_t evaluated_epoch_ = 0;
  double held_out_loss_ = 0;
};

void Stay::make_job() {
  be_nice(static_cast<int>(config_.number("nice")));
  files_ = fetch_run_files(collaboration_, config_, [this](const std::string& text) { output_.done(text); });
  if (config_.has("microbatch")) recipe_.microbatch = static_cast<std::uint32_t>(config_.number("microbatch"));
  runnable_ = jobs_.make({recipe_, files_.tokenizer, files_.prepared, device_});
  // in other modes a microbatch is a step: to halve it is to train otherwise
  const bool may_choose = !config_.has("microbatch") && collaboration_.manifest().mode == "synchronous";
  if (may_choose) {
    microbatch_.emplace(recipe_.microbatch);
    const auto computed = [this](std::size_t units, Duration took) { note_computed(units, took); };
    runnable_.job = std::make_unique<TimedJob>(std::move(runnable_.job), computed);
  }
  epochs_max_ = recipe_.schedule.total_epochs;
  if (config_.has("epochs")) epochs_max_ = std::min(epochs_max_, static_cast<std::uint64_t>(config_.number("epochs")));

  optim::OptimizerOptions options;
  options.stepper = runnable_.stepper;
  options.stepper.offload |= config_.toggle("offload");
  options.epochs_max = epochs_max_;
  options.delay = delay_;
  options.mode = mode_;
  options.seed = recipe_.seed;
  options.cpu_percent = static_cast<std::uint32_t>(config_.number("cpu-percent"));
  options.units_per_pass = runnable_.job->units_per_pass();
  options.waiting = [this] { return !asked_to_stop(); };
  optimizer_ =
      std::make_unique<optim::Optimizer>(collaboration_, runnable_.job->module(), runnable_.optimizer, options);
  for (const auto& [name, buffer] : optim::named_buffers(runnable_.job->module())) optimizer_->track(name, buffer);
  output_.done(fmt::format("{} parameters, computing on {}; {} samples at once",
                           optimizer_->stepper().schema().values(), device_.words, recipe_.microbatch));
}

/// The newest checkpoint of this home; the swarm's state replaces it when that is newer.
void Stay::resume() {
  checkpoints_.emplace(files_.checkpoints, collaboration_.parts().log,
                       static_cast<std::size_t>(config_.number("keep")));
  const auto checkpoint = checkpoints_->load_newest(collaboration_.manifest().run_id);
  if (!checkpoint) return;
  if (!optimizer_->restore(snapshot_of(*checkpoint))) {
    output_.note("the newest checkpoint here is of another model; it is left alone");
    return;
  }
  saved_epoch_ = checkpoint->epoch;
  output_.done(fmt::format("checkpoint of epoch {} read", saved_epoch_));
}

int Stay::run() {
  presence_.join();
  recipe_ = presence_.recipe();
  make_job();
  resume();
  csv_.emplace(collaboration_.home() / "metrics.csv", collaboration_.parts().log);
  presence_.answer();
  output_.done("looking for the others");
  if (!optimizer_->join([this] { return !asked_to_stop(); })) {
    output_.note("stopped before the run was joined");
    return static_cast<int>(ExitCode::done);
  }
  output_.done(fmt::format("in step with the swarm at epoch {}", optimizer_->epoch()));
  train();
  samples_lost_ = optimizer_->finish();
  tell_epochs(optim::StepResult::accumulated);
  presence_.leave();
  save();
  const double hours = presence_.hours();
  output_.done(fmt::format("thank you: {} samples, {} epochs, {:.2f} hours", samples_, epochs_, hours));
  output_.json({{"event", "left"},
                {"samples", samples_},
                {"samples_lost", samples_lost_},
                {"epochs", epochs_},
                {"hours", hours}});
  return static_cast<int>(ExitCode::done);
}

void Stay::train() {
  try {
    while (!asked_to_stop() && optimizer_->epoch() < epochs_max_) {
      const optim::StepResult result = optimizer_->run(*runnable_.job, samples_at_once());
      if (result == optim::StepResult::dropped) note_dropped();
      presence_.show(collaboration_.progress());
      if (result == optim::StepResult::committed || result == optim::StepResult::caught_up ||
          result == optim::StepResult::restored) {
        after_epoch(result);
      }
    }
  } catch (const optim::Stopped&) {
    return;  // somebody else asked this peer to leave, or the run is over
  }
}

std::uint32_t Stay::samples_at_once() const {
  return microbatch_ ? microbatch_->samples() : recipe_.microbatch;
}

void Stay::note_computed(std::uint64_t samples, Duration took) {
  if (!microbatch_->computed(samples, took)) return;
  output_.note(fmt::format("{} samples at once from now on: {} took {:.1f} s here", microbatch_->samples(), samples,
                           to_seconds(took)));
  output_.json({{"event", "microbatch"}, {"samples", microbatch_->samples()}});
}

/// Said at the first, then at every doubling: whose arithmetic fails fails often.
void Stay::note_dropped() {
  ++dropped_;
  if ((dropped_ & (dropped_ - 1)) != 0) return;
  output_.json({{"event", "microbatch_dropped"}, {"epoch", optimizer_->epoch()}, {"microbatches", dropped_}});
  output_.note(fmt::format("{} microbatches dropped: their loss or gradient was not finite", dropped_));
}

void Stay::after_epoch(optim::StepResult result) {
  tell_epochs(result);
  const std::uint64_t epoch = optimizer_->epoch();
  if (recipe_.data.evaluate_every > 0 && epoch % recipe_.data.evaluate_every == 0 && !config_.toggle("no-evaluate"))
    evaluate();
  const auto every = static_cast<std::uint64_t>(config_.number("checkpoint-every"));
  if (every > 0 && epoch >= saved_epoch_ + every) save();
}

/// Of several that ended while this peer waited, each; and where it is when the last one ended without it.
void Stay::tell_epochs(optim::StepResult result) {
  std::uint64_t told = 0;
  for (const epoch::EpochReport& report : optimizer_->reports()) {
    tell_epoch(&report, "committed");
    write_csv(report);
    ++epochs_;
    samples_ += report.own_weight;
    told = report.epoch + 1;
  }
  if (optimizer_->epoch() <= told) return;
  if (result == optim::StepResult::caught_up) tell_epoch(nullptr, "caught_up");
  if (result == optim::StepResult::restored) tell_epoch(nullptr, "restored");
}

/// `report`: null of one that ended without this peer.
void Stay::tell_epoch(const epoch::EpochReport* report, const char* result) {
  const bool committed = report != nullptr;
  const std::uint64_t epoch = committed ? report->epoch + 1 : optimizer_->epoch();
  const double loss = committed ? report->loss : std::nan("");
  optim::Progress over = collaboration_.progress();
  over.epoch = epoch;
  over.loss = loss;
  over.samples = committed ? report->weight : 0;
  over.own_samples = committed ? report->own_weight : 0;
  over.eta_s = std::numeric_limits<double>::infinity();  // that of the next step, of which nothing is known yet
  output_.epoch(over);
  if (!output_.wants_json()) return;
  output_.json({{"event", "epoch"},
                {"epoch", epoch},
                {"result", result},
                {"loss", number_or_null(loss)},
                {"samples", over.samples},
                {"own_samples", over.own_samples},
                {"peers", committed && report->group ? report->group->roster.size() : 1},
                {"coarse", committed && report->round.coarse},
                {"averaging_s", committed ? to_seconds(report->averaging) : 0.0},
                {"bytes_up", collaboration_.parts().moved("sent")},
                {"bytes_down", collaboration_.parts().moved("received")},
                {"parameters", to_hex(committed ? report->parameters : optimizer_->parameter_hash())},
                {"ledger", to_hex(committed ? report->ledger : optimizer_->ledger_hash())}});
}

void Stay::write_csv(const epoch::EpochReport& report) {
  monitor::EpochLine line;
  line.epoch = report.epoch + 1;
  line.unix_ms = collaboration_.parts().runtime.clock().unix_ms();
  line.loss = report.loss;
  line.samples = report.weight;
  line.own_samples = report.own_weight;
  line.peers = report.group ? report.group->roster.size() : 1;
  line.round_s = to_seconds(report.averaging);
  for (const auto& peer : report.round.peers) {
    line.up_bytes += peer.bytes_up;
    line.down_bytes += peer.bytes_down;
  }
  line.parameter_hash = report.parameters;
  csv_->append(line);
}

void Stay::evaluate() {
  if (!optimizer_->my_turn()) return;
  const std::uint64_t epoch = optimizer_->epoch();
  json object = {{"event", "evaluation"}, {"epoch", epoch}};
  optimizer_->adopt();
  const auto scores = runnable_.job->evaluate();
  if (scores.empty()) return;
  for (const auto& [name, value] : scores) {
    object[name] = number_or_null(value);
    collaboration_.parts().metrics.set("collab_evaluation", value, {{"score", name}});
  }
  held_out_loss_ = scores.front().second;
  optim::Collaboration::Parts& parts = collaboration_.parts();
  parts.runtime.on_loop([&] { optim::tell_evaluation(parts, epoch, held_out_loss_); });
  evaluated_epoch_ = epoch;
  output_.json(object);
}

/// What cannot be saved is said and lost; training goes on and the older checkpoints stay.
void Stay::save() {
  const std::uint64_t epoch = optimizer_->epoch();
  if (epoch == 0 || epoch == saved_epoch_) return;
  saved_epoch_ = epoch;
  try {
    save_checkpoint(*checkpoints_, *optimizer_, recipe_, collaboration_.manifest().run_id, files_.tokenizer);
    if (evaluated_epoch_ == epoch) checkpoints_->mark_best(epoch, held_out_loss_);
    output_.json({{"event", "checkpoint"}, {"epoch", epoch}});
  } catch (const Failure& failure) {
    output_.note(fmt::format("no checkpoint of epoch {}: {}", epoch, failure.what()));
    output_.json({{"event", "checkpoint_failed"}, {"epoch", epoch}, {"text", failure.cause()}});
  }
}

}  // namespace

optim::RunOptions run_options_of(const node::Config& config, const std::string& link) {
  optim::RunOptions options;
  const node::RunName name = node::parse_run_name(config.text("run-id"));
  options.run_id = name.run_id;
  options.authority = name.authority;
  options.bootstrap = config.list("bootstrap");
  if (!link.empty()) options.bootstrap.push_back(link);
  options.home = home_of(config);
  options.name = config.text("name");
  options.token = config.text("token");
  options.allow_list = config.text("allow");
  options.listen = config.text("listen");
  options.proxy = config.text("proxy");
  options.interface = config.text("interface");
  options.wss_port = static_cast<std::uint16_t>(config.has("wss-port") ? config.number("wss-port") : 0);
  options.client = config.toggle("client");
  options.discover_lan = config.toggle("lan");
  options.port_map = config.toggle("port-map");
  options.relay = config.text("relay");
  options.relay_rate_mbit = static_cast<double>(config.number("relay-rate"));
  if (config.has("limit-up")) options.limit_up_mbit = config.real("limit-up");
  if (config.has("limit-down")) options.limit_down_mbit = config.real("limit-down");
  options.join_patience = std::chrono::seconds(config.number("patience"));
  options.log.stderr_level = config.toggle("quiet")
                                 ? std::max(LogLevel::warn, cli::parse_log_level(config.text("log-level")))
                                 : cli::parse_log_level(config.text("log-level"));
  options.log.file = config.has("log-file") ? config.text("log-file") : (options.home / "logs/peer.jsonl").string();
  return options;
}

epoch::Delay delay_of(const node::Config& config) {
  const std::string what = config.text("delay");
  if (what == "none") return epoch::Delay::none;
  if (what == "step") return epoch::Delay::step;
  if (what == "gradients") return epoch::Delay::gradients;
  throw Failure(ExitCode::usage, fmt::format("nothing is delayed by the name \"{}\"", what), "none, step or gradients");
}

std::optional<node::Mode> mode_of(const node::Config& config) {
  if (!config.has("mode")) return std::nullopt;
  const auto mode = node::parse_mode(config.text("mode"));
  if (mode) return *mode;
  throw Failure(ExitCode::usage, fmt::format("no mode \"{}\"", config.text("mode")),
                "synchronous, local or diloco[,inner_steps=100,fragments=4]");
}

optim::Device device_of(const node::Config& config) {
  const std::string name = config.text("device");
  const unsigned cores = std::max(2U, std::thread::hardware_concurrency());
  const int threads = config.has("threads") ? static_cast<int>(config.number("threads")) : static_cast<int>(cores - 1);
  if (name == "auto") return optim::set_up_device(optim::DeviceWish::automatic, threads);
  if (name == "cpu") return optim::set_up_device(optim::DeviceWish::cpu, threads);
  if (name == "cuda") return optim::set_up_device(optim::DeviceWish::cuda, threads);
  throw Failure(ExitCode::usage, fmt::format("no device \"{}\"", name), "cpu, cuda or auto");
}

int run_peer(const Registry& jobs, const node::Config& config, Owner& owner, const std::string& link) {
  Stay stay(jobs, config, owner, link);
  return stay.run();
}

}  // namespace collab::jobs
