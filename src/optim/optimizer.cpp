#include "optim/optimizer.hpp"

#include "base/file.hpp"
#include "crypto/fields.hpp"
#include "data/leases.hpp"
#include "epoch/bridge.hpp"
#include "epoch/manifest_options.hpp"
#include "epoch/member.hpp"
#include "optim/model_trainer.hpp"
#include "optim/parts.hpp"
#include "optim/tell_dashboards.hpp"
#include "progress/rate.hpp"
#include "recipes/recipe.hpp"
#include "state/snapshot.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/mul.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ranges>
#include <utility>

namespace collab::optim {
namespace {

constexpr const char* kFileMagic = "collab optimizer 1";
constexpr const char* kOwnSteps = "own/steps";
constexpr const char* kOwnScale = "own/scale";
constexpr std::size_t kFileBytesMax = std::size_t(64) << 30U;
constexpr std::uint32_t kSectionsMax = 64;
constexpr Duration kUnitsStep = std::chrono::milliseconds(20);   // between two looks whether units are leased
constexpr Duration kReportStep = std::chrono::milliseconds(20);  // and whether the last step was told of
constexpr Duration kWaitStep = std::chrono::milliseconds(1000);  // between two looks at what a user wants meanwhile
constexpr Duration kRestStep = std::chrono::milliseconds(100);

}  // namespace

/// Trainer's thread, but for what is marked.
struct Optimizer::Inner {
  Inner(Collaboration& run, std::unique_ptr<Stepper> made, std::unique_ptr<ModelTrainer> made_for_it,
        OptimizerOptions given)
      : parts(run.parts()),
        stepper(std::move(made)),
        owned_trainer(std::move(made_for_it)),
        trainer(*owned_trainer),
        options(std::move(given)),
        scaler(options.loss_scale) {
    trainer.begin_at(options.first_epoch);
    const auto recipe = recipes::from_json(parts.manifest->recipe);
    if (!recipe && options.epochs_max == 0) {
      throw Failure(ExitCode::incompatible, fmt::format("this run's recipe cannot be read: {}", recipe.error().why),
                    "a newer version of collab");
    }
    parts.epochs = recipe ? recipe->schedule.total_epochs : options.epochs_max;
    if (options.epochs_max == 0) options.epochs_max = parts.epochs;
  }

  Collaboration::Parts& parts;
  std::unique_ptr<Stepper> stepper;
  std::unique_ptr<ModelTrainer> owned_trainer;
  ModelTrainer& trainer;
  OptimizerOptions options;
  GradScaler scaler;
  bool scaled = false;  ///< the loss of the microbatch that is being computed
  progress::Rate rate;
  std::optional<epoch::ThreadBridge> bridge;
  bool joined = false;
  Work in_hand;  ///< units of the microbatch that is being computed
  TimePoint rest_until{};
  std::optional<epoch::EpochReport> last_report;
  std::vector<epoch::EpochReport> reports;  ///< of what take_result() found last

  // on the loop
  std::unique_ptr<TaskGroup> tasks;
  std::unique_ptr<data::Leases> leases;
  std::unique_ptr<epoch::Member> member;

  // both
  std::mutex mutex;
  std::deque<epoch::MemberEvent> happened;
  std::uint64_t told_epoch = 0;  ///< of the last event that came with another one

  /// Throws `Failure(incompatible)` when the manifest asks for what is not here.
  epoch::MemberOptions member_options() const;
  /// Throws Stopped.
  void check_going_on();
  void start_member();
  void stop_member();
  /// Keeps a copy of the state where somebody may ask for it after the last border.
  void keep_last_state();
  void return_units(const Work& work);
  std::string await_last_round(TimePoint deadline);
  /// Gives what is in hand to one that stays.
  bool hand_on(TimePoint deadline, std::string& why);
  void on_event(const epoch::MemberEvent& event);
  StepResult take_result();
  bool take_joined();
  std::uint64_t finish();
  /// Who does not wait for an epoch's end at its border may have stepped once more, and hears of it in a moment.
  void await_reports(TimePoint deadline);
  /// For as long as it is held. Who is held for minutes hears why, and may want to stop.
  void stand_at_border();
  bool is_resting() const { return parts.runtime.clock().now() < rest_until; }
  StepResult rest();
};

void Optimizer::Inner::on_event(const epoch::MemberEvent& event) {
  using Kind = epoch::MemberEvent::Kind;
  const char* type = "";
  switch (event.kind) {
    case Kind::joined: type = "peer.joined"; break;
    case Kind::committed: type = "epoch.committed"; break;
    case Kind::caught_up: type = "epoch.caught_up"; break;
    case Kind::downloaded: type = "state.downloaded"; break;
    case Kind::round_failed: type = "round.failed"; break;
    case Kind::lost_samples: type = "samples.lost"; break;
    case Kind::not_finite: type = "step.not_finite"; break;
    case Kind::diverged: type = "peer.diverged"; break;
    case Kind::codec: type = "codec.changed"; break;
    case Kind::waiting: type = "peer.waiting"; break;
  }
  parts.tell({type, event.epoch, event.text});
  if (event.report) tell_round(parts, *event.report);
  if (event.kind == Kind::round_failed) tell_failed_round(parts, event.epoch, event.text);
  const std::lock_guard lock(mutex);
  const bool moved = event.kind == Kind::committed || event.kind == Kind::caught_up || event.kind == Kind::downloaded;
  if (moved || event.kind == Kind::joined) told_epoch = std::max(told_epoch, event.epoch);
  happened.push_back(event);
}

epoch::MemberOptions Optimizer::Inner::member_options() const {
  Schema schema = stepper->schema();
  schema.tensors.insert(schema.tensors.end(), trainer.tracked().begin(), trainer.tracked().end());
  epoch::MemberOptions out = epoch::member_options(*parts.manifest, schema, options.codec);
  out.incarnation = parts.incarnation;
  out.epochs_max = options.epochs_max;
  out.delay = options.delay;
  return out;
}

void Optimizer::Inner::check_going_on() {
  if (parts.left || trainer.epoch() >= options.epochs_max) trainer.adopt();
  if (parts.left) throw Stopped("this peer has left the run");
  if (trainer.epoch() >= options.epochs_max)
    throw Stopped(fmt::format("the run is over: it has {} epochs", options.epochs_max));
}

void Optimizer::Inner::start_member() {
  if (parts.member != nullptr || parts.auxiliary != nullptr)
    throw Failure(ExitCode::usage, "a Collaboration takes part with one Optimizer or Auxiliary",
                  "a Collaboration with a home of its own for each");
  epoch::MemberOptions member_options = this->member_options();
  bridge.emplace(parts.runtime.loop());
  {
    const std::lock_guard lock(parts.mutex);
    parts.on_leave = [this] {
      bridge->leave();
      bridge->open();
    };
  }
  parts.runtime.on_loop([&] {
    member_options.role_now = [this] {
      const bool dials_only = parts.options.client || parts.node->reachability().counts_as_client();
      return dials_only ? matchmaking::Role::client : matchmaking::Role::node;
    };
    member_options.role = member_options.role_now();
    member_options.role_known = [this] { return parts.options.client || parts.node->reachability().judged(); };
    const auto on_failure = [this](std::string_view task, std::exception_ptr what) {
      parts.fail(task, std::move(what));
    };
    tasks = std::make_unique<TaskGroup>(parts.runtime.loop(), on_failure);
    parts.on_failure = [this] { bridge->open(); };
    data::LeaseOptions lease_options;
    if (options.units_per_pass > 0) lease_options.units_per_pass = options.units_per_pass;
    const auto peers = [this] {
      std::vector<PeerId> ids;
      for (const auto& [id, record] : parts.tracker->others())
        if (record.taking_part) ids.push_back(id);
      return ids;
    };
    const auto units_per_s = [this] { return parts.tracker->samples_per_s(); };
    const data::Leases::Needs lease_needs{
        parts.node->directory(), parts.runtime.clock(), parts.log, parts.runtime.loop(), parts.id, peers, units_per_s};
    leases = std::make_unique<data::Leases>(lease_needs, lease_options);
    const epoch::Member::Context context{parts.node->endpoint(),
                                         parts.runtime.clock(),
                                         parts.node->directory(),
                                         *parts.tracker,
                                         *parts.store,
                                         parts.log,
                                         parts.metrics,
                                         parts.identity(),
                                         parts.runtime.loop(),
                                         parts.runtime.workers(),
                                         Random(parts.seed).derive("member"),
                                         leases.get()};
    member = std::make_unique<epoch::Member>(context, std::move(member_options), *bridge,
                                             [this](const epoch::MemberEvent& event) { on_event(event); });
    parts.member = member.get();
    tasks->spawn("data.leases", leases->run());
    tasks->spawn("epoch.member", member->run(trainer.epoch()));
  });
}

void Optimizer::Inner::keep_last_state() {
  if (!joined || parts.left) return;
  bool wanted = trainer.epoch() >= parts.epochs;
  parts.runtime.on_loop([&] {
    wanted |= parts.tracker->somebody_is_behind() || parts.tracker->current_peers() == 1;
    wanted &= !parts.last_state || parts.last_state->epoch != trainer.epoch();
  });
  if (!wanted) return;
  auto last = std::make_shared<const state::Snapshot>(trainer.snapshot());
  parts.runtime.on_loop([&] { parts.last_state = std::move(last); });
}

void Optimizer::Inner::stop_member() {
  if (!tasks) return;  // joined never, or in vain
  keep_last_state();
  {
    const std::lock_guard lock(parts.mutex);
    parts.on_leave = nullptr;
  }
  bridge->leave();
  bridge->open();
  trainer.adopt();
  const auto stop = [this]() -> Task<> {
    parts.member = nullptr;
    parts.on_failure = nullptr;
    co_await tasks->stop();
    co_await member->stop();  // a member that was cancelled has not told its matchmaker
    co_await parts.visited();
    member.reset();
    leases.reset();
    tasks.reset();
  };
  parts.runtime.call(stop());
}

/// Not computed after all: here it would only be tried again with the same parameters.
void Optimizer::Inner::return_units(const Work& work) {
  if (work.empty()) return;
  parts.runtime.on_loop([&] { leases->release(work); });
}

/// What this step() is called, of all that happened since the last: the strongest.
StepResult Optimizer::Inner::take_result() {
  using Kind = epoch::MemberEvent::Kind;
  StepResult result = StepResult::accumulated;
  reports.clear();
  const std::lock_guard lock(mutex);
  for (epoch::MemberEvent& event : happened) {
    if (event.kind == Kind::committed) {
      last_report = event.report;
      reports.push_back(std::move(*event.report));
      result = std::max(result, StepResult::committed);
    }
    if (event.kind == Kind::caught_up) result = std::max(result, StepResult::caught_up);
    if (event.kind == Kind::downloaded) result = std::max(result, StepResult::restored);
    if (event.kind == Kind::joined) joined = true;
  }
  happened.clear();
  return result;
}

/// False: not yet. How it came to the swarm's parameters is no step's matter; what ended since then is the next one's.
bool Optimizer::Inner::take_joined() {
  const std::lock_guard lock(mutex);
  const auto is_joined = [](const epoch::MemberEvent& event) { return event.kind == epoch::MemberEvent::Kind::joined; };
  const auto at = std::find_if(happened.begin(), happened.end(), is_joined);
  if (at == happened.end()) return false;
  happened.erase(happened.begin(), std::next(at));
  joined = true;
  return true;
}

void Optimizer::Inner::stand_at_border() {
  const auto waiting = [this] {
    parts.deliver_events();
    return !options.waiting || options.waiting();
  };
  bridge->border(trainer, rate.samples_per_s(), waiting);
}

/// A part of it, so that each epoch that ends meanwhile is told, and a user who wants to stop is heard.
StepResult Optimizer::Inner::rest() {
  const auto something_happened = [this] {
    const std::lock_guard lock(mutex);
    return !happened.empty();
  };
  const TimePoint look = std::min(rest_until, parts.runtime.clock().now() + kRestStep);
  bridge->wait(trainer, something_happened, look, rate.samples_per_s());
  if (!is_resting()) stand_at_border();
  parts.check();
  parts.deliver_events();
  return take_result();
}

Optimizer::Optimizer(Collaboration& run, torch::nn::Module& module, const OptimizerFactory& factory,
                     OptimizerOptions options)
    : Optimizer(run, named_parameters(module), factory, std::move(options)) {}

Optimizer::Optimizer(Collaboration& run, std::vector<NamedTensor> tensors, const OptimizerFactory& factory,
                     OptimizerOptions options) {
  if (!run.started()) run.start();
  const node::Mode mode = epoch::mode_of(*run.parts().manifest, options.mode);
  const bool averages_gradients = mode.average == node::Mode::Average::gradients;
  if (mode.overlap > 0) options.delay = epoch::Delay::gradients;
  options.stepper.offload |= averages_gradients && options.delay != epoch::Delay::none;
  auto stepper = std::make_unique<Stepper>(std::move(tensors), factory, options.stepper);
  check_size(stepper->state_schema());
  auto trainer = make_trainer(*stepper, mode);
  inner_ = std::make_unique<Inner>(run, std::move(stepper), std::move(trainer), std::move(options));
  (void)inner_->member_options();  // so that what does not fit is said here
}

Optimizer::~Optimizer() {
  inner_->stop_member();
}

void Optimizer::track(std::string name, at::Tensor extra) {
  if (inner_->bridge || inner_->trainer.samples() > 0) {
    throw Failure(ExitCode::usage, "tensor " + name + " is tracked too late", "track() before join() and step()");
  }
  if (inner_->parts.manifest->schema != Digest()) {
    throw Failure(ExitCode::incompatible, "this run's manifest names its tensors, and " + name + " is none of them",
                  "a run of a job of your own");
  }
  inner_->trainer.track(std::move(name), std::move(extra));
}

bool Optimizer::join(const std::function<bool()>& waiting) {
  if (!inner_->bridge) inner_->start_member();
  while (!inner_->joined) {
    const auto joined = [this] { return inner_->joined || inner_->take_joined(); };
    inner_->bridge->wait(inner_->trainer, joined, std::chrono::steady_clock::now() + kWaitStep);
    inner_->parts.check();
    inner_->parts.deliver_events();
    if (!inner_->joined && waiting && !waiting()) return false;
  }
  return true;
}

StepResult Optimizer::step(std::int64_t samples, double loss) {
  if (samples <= 0) throw Failure(ExitCode::usage, "Optimizer::step needs the number of samples", "step(batch.size())");
  inner_->check_going_on();
  if (!inner_->joined && !join()) throw Stopped("the run was not joined");
  const Gathered behind{static_cast<std::uint64_t>(samples), std::exchange(inner_->in_hand, {})};
  if (behind.work.count() > behind.samples) {
    inner_->return_units(behind.work);
    throw Failure(ExitCode::usage,
                  fmt::format("{} samples were told for {} units of work", behind.samples, behind.work.count()),
                  "a step with at least one sample for each unit that next_units() gave");
  }
  const bool scaled = std::exchange(inner_->scaled, false);
  const Microbatch added = inner_->trainer.add_microbatch(behind, loss, scaled ? inner_->scaler.scale() : 1);
  const bool dropped = added == Microbatch::dropped;
  if (scaled) inner_->scaler.update(dropped);
  if (added != Microbatch::counted) inner_->return_units(behind.work);
  if (!dropped) {
    inner_->rate.add(static_cast<std::uint64_t>(samples), inner_->parts.runtime.clock().now());
  } else {
    const char* reason = scaled ? "overflow" : "not_finite";
    inner_->parts.metrics.add("collab_microbatches_dropped_total", 1, {{"reason", reason}});
  }
  const TimePoint before = inner_->parts.runtime.clock().now();
  inner_->stand_at_border();
  inner_->rate.pause(before, inner_->parts.runtime.clock().now());
  inner_->parts.check();
  inner_->parts.deliver_events();
  const StepResult result = inner_->take_result();
  return result == StepResult::accumulated && dropped ? StepResult::dropped : result;
}

at::Tensor Optimizer::scale(const at::Tensor& loss) {
  inner_->scaled = true;
  return at::mul(loss, inner_->scaler.scale());
}

double Optimizer::loss_scale() const noexcept {
  return inner_->scaler.scale();
}

void Optimizer::zero_grad() {
  inner_->scaled = false;
  inner_->stepper->clear_gradients();
}

StepResult Optimizer::wait(Duration patience) {
  inner_->check_going_on();
  if (!inner_->bridge) throw Failure(ExitCode::usage, "wait() before the run was joined", "join() or step() before it");
  const std::uint64_t before = epoch();
  const auto stepped = [this, before] { return epoch() != before; };
  const TimePoint start = inner_->parts.runtime.clock().now();
  inner_->bridge->wait(inner_->trainer, stepped, start + patience);
  inner_->rate.pause(start, inner_->parts.runtime.clock().now());
  inner_->parts.check();
  inner_->parts.deliver_events();
  return inner_->take_result();
}

std::uint64_t Optimizer::finish() {
  const std::uint64_t lost = inner_->finish();
  (void)inner_->take_result();
  return lost;
}

void Optimizer::Inner::await_reports(TimePoint deadline) {
  const auto told = [this] {
    const std::lock_guard lock(mutex);
    return told_epoch >= trainer.epoch();
  };
  const TimePoint end = std::min(deadline, std::chrono::steady_clock::now() + kWaitStep);
  while (!told() && !parts.left && std::chrono::steady_clock::now() < end) {
    bridge->wait(trainer, told, std::chrono::steady_clock::now() + kReportStep);
    parts.check();
  }
}

std::uint64_t Optimizer::Inner::finish() {
  if (!joined || parts.left) return 0;
  const TimePoint begin = std::chrono::steady_clock::now();
  parts.leave_by = begin + parts.options.leave_wait;
  const TimePoint deadline = begin + parts.options.leave_wait * 4 / 5;  // the rest is for saying good-bye
  if (trainer.epoch() >= options.epochs_max) {                          // no step is left for what is in hand
    trainer.drop();
    await_reports(deadline);
    trainer.adopt();
    keep_last_state();
    return 0;
  }
  const bool hands_on = trainer.hands_on();
  const TimePoint round_by = hands_on ? deadline - parts.options.leave_wait / 5 : deadline;
  const std::uint64_t before = trainer.epoch();
  std::string why = await_last_round(round_by);
  std::uint64_t lost = trainer.samples();
  if (hands_on && lost > 0 && hand_on(deadline, why)) lost = 0;
  trainer.drop();  // leaving gives their units back
  await_reports(deadline);
  trainer.adopt();
  keep_last_state();
  if (lost > 0) {
    parts.log.info("samples.lost", {{"epoch", before}, {"samples", lost}, {"why", why}});
    parts.tell({"samples.lost", before, fmt::format("{} samples in hand are lost: {}", lost, why)});
  }
  parts.deliver_events();
  return lost;
}

/// Returns why what is in hand then is in no round.
std::string Optimizer::Inner::await_last_round(TimePoint deadline) {
  const TimePoint begin = std::chrono::steady_clock::now();
  const std::uint64_t before = trainer.epoch();
  double eta_s = 0;
  bool company = false;
  parts.runtime.on_loop([&] {
    eta_s = parts.tracker->eta_of_others_s();
    company = parts.tracker->current_peers() > 1;
  });
  const auto done = [&] { return trainer.epoch() != before || bridge->samples() == 0; };
  // whose rates are not known yet may well have a step soon
  const bool due = eta_s <= to_seconds(deadline - begin) || (company && std::isinf(eta_s));
  while (due && !done() && std::chrono::steady_clock::now() < deadline) {
    const TimePoint look = std::min(deadline, std::chrono::steady_clock::now() + kWaitStep);
    bridge->wait(
        trainer, [&] { return trainer.epoch() != before; }, look);
    parts.check();
    parts.deliver_events();
  }
  if (due) return "the round did not end in time";
  if (std::isfinite(eta_s)) return fmt::format("the next step is {:.0f} s away", eta_s);
  return "nobody knows when the next step is";
}

/// False: `why` says more.
bool Optimizer::Inner::hand_on(TimePoint deadline, std::string& why) {
  std::optional<PeerId> heir;
  parts.runtime.on_loop([&] { heir = member->heir(); });
  if (!heir) {
    why += ", and nobody is there to take them";
    return false;
  }
  epoch::Estate estate;
  estate.epoch = trainer.epoch();
  estate.values.resize(trainer.values());
  estate.behind = trainer.hand_on(estate.values);
  const std::uint64_t samples = estate.behind.samples;
  if (samples == 0) return true;  // a round has them now
  const auto handed = parts.runtime.call(member->hand_on(*heir, std::move(estate), deadline));
  if (!handed) {
    const bool unknown = handed.error() == Errc::late || handed.error() == Errc::gone;
    why += fmt::format(", and {} {} ({})", heir->short_text(),
                       unknown ? "may not have taken them" : "did not take them", handed.error().message());
    return false;
  }
  parts.tell({"samples.handed_on", trainer.epoch(),
              fmt::format("{} samples in hand were handed to {}", samples, heir->short_text())});
  return true;
}

std::vector<Unit> Optimizer::next_units(std::size_t n) {
  Inner& inner = *inner_;
  inner.check_going_on();
  if (!inner.joined && !join()) throw Stopped("the run was not joined");
  Work work;
  const auto take = [&] {
    inner.leases->speed(inner.rate.samples_per_s());
    work = inner.leases->take(n);
  };
  const TimePoint start = inner.parts.runtime.clock().now();
  inner.parts.runtime.on_loop(take);
  while (work.empty() && n > 0) {
    const auto never = [] { return false; };
    inner.bridge->wait(inner.trainer, never, inner.parts.runtime.clock().now() + kUnitsStep);
    inner.stand_at_border();  // what is taken belongs to the epoch after it
    inner.parts.check();
    inner.check_going_on();
    inner.parts.runtime.on_loop(take);
  }
  const TimePoint end = inner.parts.runtime.clock().now();
  inner.rate.pause(start, end);
  inner.parts.metrics.observe("collab_units_wait_seconds", to_seconds(end - start));
  inner.in_hand.add(work);
  std::vector<Unit> units;
  for (const WorkRange& range : work.ranges())
    for (std::uint64_t index = range.first; index < range.end(); ++index)
      units.push_back({epoch(), index, inner.options.seed});
  return units;
}

StepResult Optimizer::run(Job& job, std::size_t samples) {
  inner_->check_going_on();
  if (inner_->is_resting()) return inner_->rest();
  const auto units = next_units(samples);
  const Clock& clock = inner_->parts.runtime.clock();
  const TimePoint begin = clock.now();
  const Loss loss = job.gradients(units);
  const TimePoint end = clock.now();
  inner_->rest_until = end + (end - begin) * (100 - inner_->options.cpu_percent) / inner_->options.cpu_percent;
  // a total that is not finite must not hide behind the part that people compare
  const bool part = std::isfinite(loss.total) && !std::isnan(loss.mlm);
  return step(static_cast<std::int64_t>(loss.samples), part ? loss.mlm : loss.total);
}

void Optimizer::adopt() {
  inner_->trainer.adopt();
}

std::uint64_t Optimizer::epoch() const noexcept {
  return inner_->trainer.epoch();
}

const std::vector<epoch::EpochReport>& Optimizer::reports() const noexcept {
  return inner_->reports;
}

const std::optional<epoch::EpochReport>& Optimizer::last_report() const noexcept {
  return inner_->last_report;
}

Digest Optimizer::parameter_hash() const {
  const auto alone = inner_->trainer.still();
  return inner_->trainer.parameter_hash();
}

Digest Optimizer::ledger_hash() const {
  const auto alone = inner_->trainer.still();
  return state::content_hash(inner_->trainer.ledger().canonical());
}

bool Optimizer::my_turn() const {
  bool mine = false;
  inner_->parts.runtime.on_loop([&] { mine = inner_->parts.tracker->is_lowest_of_epoch(epoch()); });
  return mine;
}

state::Snapshot Optimizer::snapshot() const {
  return inner_->trainer.snapshot();
}

std::vector<state::Section> Optimizer::own_sections() const {
  return {{kOwnSteps, inner_->trainer.own_state()}, {kOwnScale, inner_->scaler.state()}};
}

Result<void> Optimizer::restore(const state::Snapshot& snapshot) {
  if (const auto restored = inner_->trainer.restore(snapshot); !restored) return restored;
  const auto* steps = snapshot.find(kOwnSteps);
  if (steps != nullptr) {
    if (const auto loaded = inner_->trainer.load_own_state(steps->bytes); !loaded) return loaded;
  }
  const auto* scale = snapshot.find(kOwnScale);
  return scale == nullptr ? Result<>() : inner_->scaler.load(scale->bytes);
}

void Optimizer::save(const std::filesystem::path& file) const {
  state::Snapshot all = snapshot();
  for (state::Section& own : own_sections()) all.sections.push_back(std::move(own));
  FieldWriter writer;
  writer.add_text(kFileMagic).add(all.epoch).add(static_cast<std::uint32_t>(all.sections.size()));
  for (const state::Section& section : all.sections) writer.add_text(section.name).add_blob(section.bytes);
  Bytes bytes = writer.finish();
  const Digest hash = hash_bytes(kFileMagic, bytes);
  const auto raw = std::as_bytes(std::span(hash));
  bytes.insert(bytes.end(), raw.begin(), raw.end());
  write_file(file, bytes);
}

Result<void> Optimizer::load(const std::filesystem::path& file) {
  const Bytes bytes = read_file(file, kFileBytesMax);
  if (bytes.size() < sizeof(Digest)) return Errc::bad_request;
  const auto body = std::span(bytes).first(bytes.size() - sizeof(Digest));
  const Digest hash = hash_bytes(kFileMagic, body);
  if (!std::ranges::equal(std::as_bytes(std::span(hash)), std::span(bytes).last(sizeof(Digest))))
    return Errc::bad_request;
  FieldReader reader(body);
  state::Snapshot all;
  if (reader.take_text() != kFileMagic) return Errc::bad_request;
  all.epoch = reader.take<std::uint64_t>();
  const auto sections = reader.take<std::uint32_t>();
  for (std::uint32_t i = 0; i < sections && i < kSectionsMax; ++i) {
    state::Section section;
    section.name = reader.take_text();
    const auto blob = reader.take_blob();
    section.bytes.assign(blob.begin(), blob.end());
    all.sections.push_back(std::move(section));
  }
  if (const auto whole = reader.finish(); !whole) return whole;
  return restore(all);
}

Stepper& Optimizer::stepper() noexcept {
  return *inner_->stepper;
}

const Stepper& Optimizer::stepper() const noexcept {
  return *inner_->stepper;
}

}  // namespace collab::optim
