#include "sim/swarm.hpp"

#include "node/ban_file.hpp"
#include "sim/coordinator.hpp"
#include "sim/injector.hpp"
#include "sim/invariants.hpp"
#include "sim/recorder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <malloc.h>
#include <numbers>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace collab::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kRun = "sim";
constexpr Duration kLook = milliseconds(250);
constexpr Duration kGather = seconds(15);   // for joining, before the mixture strikes
constexpr Duration kStuck = seconds(60);    // of calm without a commit
constexpr Duration kCalmEnd = seconds(10);  // of a run
constexpr Duration kSettle = seconds(10);   // after the last strike: who is silent counts so long, and promises hold
constexpr double kNever = 1e-6;             // samples/s of who does not train
constexpr std::size_t kVerified = 50'000;   // statements that need not be verified again
constexpr double kBudget = 4;               // times what the rates promise
constexpr double kWakeUpsMax = 2000;        // wake-ups a peer and second: 64 peers that train need some 300

double normal(Random& random) {
  const auto uniform = [&] { return (static_cast<double>(random.next() >> 11U) + 0.5) * 0x1p-53; };
  const double radius = std::sqrt(-2 * std::log(uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

std::vector<double> draw_rates(const SwarmOptions& options, std::size_t count) {
  Random random = Random(options.seed).derive("sim.rates");
  std::vector<double> rates;
  for (std::size_t i = 0; i < count; ++i) {
    if (!options.trains) {
      rates.push_back(kNever);
      continue;
    }
    const double drawn = options.samples_per_s * std::exp(options.spread * normal(random));
    rates.push_back(i < options.rates.size() ? options.rates[i] : drawn);
  }
  return rates;
}

/// A clock of its own for each peer; the coordinator's is the world's.
ClockOptions draw_clock(const SwarmOptions& options, std::size_t number) {
  Random random = Random(options.seed).derive(fmt::format("sim.clock.{}", number));
  const auto between = [&](double bound) {
    return bound * (2 * static_cast<double>(random.next() >> 11U) * 0x1p-53 - 1);
  };
  ClockOptions clock;
  clock.ahead = from_seconds(between(to_seconds(options.clock_ahead_max)));
  clock.drift_ppb = static_cast<std::int64_t>(1000 * between(options.drift_ppm_max));
  return clock;
}

std::optional<NatOptions> draw_box(const SwarmOptions& options, std::size_t number) {
  Random random = Random(options.seed).derive(fmt::format("sim.box.{}", number));
  const double kind = random.uniform();
  NatOptions box;
  box.lifetime = seconds(30 + random.below(271));
  box.filter = random.chance(0.5) ? NatFilter::address : NatFilter::address_and_port;
  if (number == 0 || kind < 0.3) return std::nullopt;
  if (kind >= 0.7) box.mapping = NatMapping::symmetric;
  box.only_443 = kind >= 0.9;
  return box;
}

Schema schema_of(std::size_t values) {
  Schema schema;
  schema.tensors.push_back({"bowl", DType::float32, {static_cast<std::int64_t>(values)}, TensorRole::gradient});
  return schema;
}

CodecMap codecs_of(const SwarmOptions& options) {
  CodecOptions codecs = CodecOptions::all(options.codec);
  if (options.codec_by_lines) codecs.choose_gradients();
  const bool any_size = owes(options.codec) || options.codec_by_lines;
  if (any_size) codecs.coarse_values_min = 0;  // else vectors of a simulation are too small for it
  return {schema_of(options.values), codecs};
}

epoch::MemberOptions member_options(const SwarmOptions& options) {
  const Schema schema = schema_of(options.values);
  epoch::MemberOptions member(codecs_of(options));
  member.run_id = kRun;
  member.target_batch = options.target_batch;
  member.commit_fraction = options.commit_fraction;
  member.delay = options.delay;
  member.group_size_max = options.group_size_max;
  member.grid = options.grid;
  member.schema = hash_bytes("collab schema", schema.canonical());
  member.load.segment_units_min = 1;  // small vectors are to have many owners
  if (options.epochs > 0) member.epochs_max = options.epochs;
  return member;
}

node::Manifest manifest_of(const SwarmOptions& options, const Identity& authority) {
  node::Manifest manifest;
  manifest.run_id = kRun;
  manifest.authority = authority.id();
  manifest.sequence = 1;
  manifest.recipe = "{}";
  manifest.schema = hash_bytes("collab schema", schema_of(options.values).canonical());
  manifest.target_batch = options.target_batch;
  manifest.codec = options.codec_by_lines ? kAutoCodec : codec(options.codec).name();
  manifest.commit_fraction = options.commit_fraction;
  return manifest;
}

std::vector<node::PeerAddress> bootstrap_of(const SwarmOptions& options) {
  std::vector<node::PeerAddress> out = {
      node::parse_peer_address(options.boxes ? "coordinator:443" : "coordinator:4600")};
  for (std::size_t i = 0; i < std::min(options.peers, options.contacts); ++i)
    out.push_back(node::parse_peer_address(fmt::format("peer{}:4600", i)));
  return out;
}

std::size_t joins(const FaultPlan& plan) {
  return static_cast<std::size_t>(std::count_if(plan.events.begin(), plan.events.end(),
                                                [](const Fault& fault) { return fault.kind == FaultKind::join; }));
}

state::StoreOptions store_options(const SwarmOptions& options) {
  state::StoreOptions out;
  out.result_bytes_max = options.result_bytes_max;
  return out;
}

InvariantOptions invariant_options(const SwarmOptions& options, const CodecMap& codecs) {
  InvariantOptions out(codecs);
  out.weight_min = static_cast<std::uint64_t>(options.commit_fraction * static_cast<double>(options.target_batch));
  out.target_batch = options.target_batch;
  out.units_per_pass = options.units_per_pass;
  const auto vector = static_cast<double>(codecs.encoded_bytes({0, codecs.length()}));
  double line = std::min(options.line.up_bytes_per_s, options.line.down_bytes_per_s);
  for (const LineOptions& one : options.lines) line = std::min({line, one.up_bytes_per_s, one.down_bytes_per_s});
  line /= options.links.bulk_charge;
  const double slowest_s = 2 * vector * static_cast<double>(options.peers) / std::min(line, 12.5e6);
  out.live.round_max += from_seconds(3 * slowest_s) + seconds(1);  // 3 x predicted + slack, and the last messages
  out.live.after_one_fault += from_seconds(slowest_s);
  if (options.aborted_rounds > 0) out.live.after_one_fault = out.live.round_max;  // they end by their limit only
  return out;
}

}  // namespace

/// Everything of one run, in the order in which it is made.
struct Swarm::World final : Stage {
  explicit World(SwarmOptions given);

  Task<> scenario();
  void look();
  void look_for_epochs(Duration calm);
  void weigh();
  bool over() const;
  void judge_end();
  Outcome outcome();
  void tell_stuck(const std::string& what);

  // Stage: what faults do to the world
  Simulation& simulation() override { return world; }
  SimNetwork& network() override { return net; }
  std::vector<std::unique_ptr<Peer>>& all_peers() override { return peers; }
  Peer& add_peer() override;
  Task<> kill_coordinator() override;
  void start_coordinator() override;
  Task<> ban(const PeerId& peer, Duration lasts) override;
  bool coordinator_runs() const override { return coordinator != nullptr; }
  Host& coordinators_host() override { return coordinator_host; }

  SwarmOptions options;
  Simulation world;
  SimNetwork net;
  Quadratic problem;
  CodecMap codecs;
  std::vector<double> rates;
  Invariants invariants;
  Recorder recorder;
  Injector injector;
  FakeChannels channels;
  FakeSignatures signatures;
  const SignatureScheme& scheme;
  VerifiedStatements verified;
  Duration length{};
  PeerNeeds needs;
  std::vector<std::unique_ptr<Peer>> peers;
  Host& coordinator_host;
  std::unique_ptr<Coordinator> coordinator;
  std::uint64_t coordinator_lives = 0;
  std::function<bool(Duration)> asked_to_stop;
  bool interrupted = false;
  bool stuck = false;
  std::vector<Holdings> holdings;
};

Swarm::World::World(SwarmOptions given)
    : options(std::move(given)),
      net(world, options.seed, options.links),
      problem(options.values, options.seed, options.noise),
      codecs(codecs_of(options)),
      rates(draw_rates(options, options.peers + joins(options.faults))),
      invariants(world.clock(), invariant_options(options, codecs)),
      recorder(world.clock(), invariants),
      injector(*this, recorder, invariants, Random(options.seed).derive("sim.injector")),
      scheme(options.crypto == Crypto::fake ? signatures : ed25519()),
      verified(options.crypto == Crypto::fake || !options.trains ? 0 : kVerified, scheme),
      needs{world.executor(),
            world.clock(),
            options.seed,
            problem,
            member_options(options),
            store_options(options),
            kRun,
            bootstrap_of(options),
            options.step,
            options.plant,
            recorder,
            verified,
            scheme,
            options.leave_at_end,
            options.units_per_pass,
            options.boxes,
            options.checkpoint_every,
            options.equal_split},
      coordinator_host(net.add_host("coordinator")) {
  if (options.crypto == Crypto::fake) net.secure_by(channels);
  if (options.boxes) {
    net.on_hidden_dial([this](const Host& from, const Host& to) {
      invariants.add("owners", {}, fmt::format("{} dials {}, and both are behind boxes", from.name(), to.name()));
    });
  }
  const double all = std::accumulate(rates.begin(), rates.begin() + static_cast<std::ptrdiff_t>(options.peers), 0.0);
  const double aborted_s = 30 * static_cast<double>(options.aborted_rounds);
  const double promised_s = static_cast<double>(options.epochs * options.target_batch) / all;
  length = options.length;
  if (length == Duration()) length = kGather + from_seconds(kBudget * promised_s + aborted_s) + seconds(120);
  const double peer_seconds = static_cast<double>(options.peers + 1) * to_seconds(length);
  world.events_max = std::max(world.events_max, static_cast<std::uint64_t>(kWakeUpsMax * peer_seconds));
  if (options.events_max > 0) world.events_max = options.events_max;
  Duration expected = length;
  if (options.epochs > 0) expected = std::min(length, kGather + from_seconds(promised_s));
  injector.plan(draw_faults(options.faults, options.seed, options.peers, expected));
  recorder.on_phase([this](std::size_t peer, Phase phase) { injector.reached(peer, phase); });
  recorder.watch(peers);
  if (options.weigh_every > Duration()) recorder.forget_epochs();
  for (std::size_t i = 0; i < options.peers; ++i) add_peer();
}

Peer& Swarm::World::add_peer() {
  const std::size_t number = peers.size();
  const LineOptions line = number < options.lines.size() ? options.lines[number] : options.line;
  Host& host = net.add_host(fmt::format("peer{}", number), line);
  net.set_clock(host, draw_clock(options, number));
  const bool client = number < options.peers && number + options.clients >= options.peers;
  peers.push_back(
      std::make_unique<Peer>(needs, host, number, ClockBridge::Pace{rates.at(number), options.microbatch}, client));
  if (!coordinator && number >= options.peers) {  // what else could its user have been told
    const std::string old = fmt::format("peer{}:4600", number % options.peers);
    peers.back()->told_of(std::vector(1, node::parse_peer_address(old)));
  }
  invariants.add_peer(peers.back()->id());
  const auto box = options.boxes ? draw_box(options, number) : std::nullopt;
  if (box) net.put_behind(host, net.add_box(*box));
  if (box) invariants.hide(number);
  return *peers.back();
}

void Swarm::World::start_coordinator() {
  net.revive(coordinator_host);
  CoordinatorOptions made;
  made.node.run.run_id = kRun;
  made.node.loopback_port = 0;
  made.node.serve_directory = true;
  made.node.role = "coordinator";
  if (options.boxes) made.node.listen = net::Address{coordinator_host.address(), 443};
  made.node.bootstrap = needs.bootstrap;
  made.node.bootstrap.erase(made.node.bootstrap.begin());
  made.manifest = manifest_of(options, Coordinator::identity(options.seed));
  made.life = coordinator_lives++;
  made.averages = options.coordinator_averages;
  if (made.averages) made.node.relay = nat::RelayMode::bulk;
  coordinator = std::make_unique<Coordinator>(needs, coordinator_host, std::move(made));
  coordinator->start();
}

Task<> Swarm::World::kill_coordinator() {
  if (!coordinator) co_return;
  const auto gone = std::move(coordinator);
  net.kill(coordinator_host);
  co_await gone->kill();
}

Task<> Swarm::World::ban(const PeerId& peer, Duration lasts) {
  Ban ban;
  ban.target = peer;
  ban.reason = "drawn";
  ban.from_ms = coordinator_host.clock().unix_ms();
  ban.until_ms = ban.from_ms + std::chrono::duration_cast<milliseconds>(lasts).count();
  ban.sequence = static_cast<std::uint64_t>(ban.from_ms);
  const Identity authority = Coordinator::identity(options.seed);
  std::vector<directory::SignedRecord> records(1, node::ban_record(authority, kRun, ban));
  co_await coordinator->directory().hand_on(std::move(records));
}

bool Swarm::World::over() const {
  const TimePoint now = world.clock().now();
  if (interrupted || now.time_since_epoch() >= length) return true;
  if (options.epochs == 0 || !injector.idle()) return false;
  return std::all_of(peers.begin(), peers.end(), [this](const auto& peer) {
    return !peer->running() || injector.away(peer->number()) || peer->finished();
  });
}

void Swarm::World::weigh() {
  Holdings held;
  held.at = world.clock().now().time_since_epoch();
  const struct mallinfo2 heap = ::mallinfo2();
  held.memory_bytes = heap.uordblks + heap.hblkhd;
  held.timers = world.timers();
  held.streams = net.streams();
  for (const auto& peer : peers) {
    held.tasks += peer->tasks();
    held.connections += peer->connections();
  }
  holdings.push_back(held);
}

void Swarm::World::look() {
  const Duration now = world.clock().now().time_since_epoch();
  if (options.weigh_every > Duration() && now >= options.weigh_every * static_cast<int>(holdings.size() + 1)) weigh();
  interrupted = !options.stop_at.empty() && invariants.violations().has(options.stop_at);
  interrupted = interrupted || (asked_to_stop && asked_to_stop(now));
  recorder.look(net.bytes_delivered());
  look_for_epochs(kStuck);
}

/// After so much calm.
void Swarm::World::look_for_epochs(Duration calm) {
  const double all = std::accumulate(rates.begin(), rates.begin() + static_cast<std::ptrdiff_t>(options.peers), 0.0);
  const Duration promised = from_seconds(static_cast<double>(options.target_batch) / all);
  const Duration longest = calm + std::max({kSettle, 3 * promised, 3 * recorder.epoch_length()});
  const bool all_done = std::all_of(peers.begin(), peers.end(), [](const auto& peer) { return peer->finished(); });
  if (all_done || !options.trains || options.aborted_rounds > 0) return;
  if (!invariants.live().calm_for(calm) || recorder.since_commit() <= longest) return;
  invariants.add("live", {}, fmt::format("calm, and no epoch for {:.0f} s", to_seconds(recorder.since_commit())));
  recorder.touch();
}

Task<> Swarm::World::scenario() {
  TaskGroup events(world.executor(), rethrow);
  start_coordinator();
  Random random = Random(options.seed).derive("sim.start");
  // all have been started when the mixture may strike, however many they are
  const std::uint64_t start_pause_ms = std::min<std::uint64_t>(200, 12'800 / options.peers);
  for (std::size_t i = 0; i < options.peers; ++i) {
    peers[i]->abort_rounds(options.aborted_rounds > 0);
    co_await world.clock().sleep_until(world.clock().now() + milliseconds(random.below(start_pause_ms)));
    peers[i]->start();
  }
  injector.start(events);
  while (!over()) {
    co_await world.clock().sleep_until(world.clock().now() + kLook);
    look();
    for (const auto& peer : peers) peer->abort_rounds(recorder.failed(peer->number()) < options.aborted_rounds);
  }
  recorder.end_minute(net.bytes_delivered());
  if (!interrupted) judge_end();
  co_await events.stop();
  for (auto& peer : peers) {
    recorder.note(*peer);
    co_await peer->kill();
  }
  co_await kill_coordinator();
  net.stop();
}

/// After a calm last quarter: everybody lives, is current and has the same parameters; but for whom a schedule struck
/// just before the end.
void Swarm::World::judge_end() {
  std::uint64_t newest = 0;
  for (const auto& peer : peers) newest = std::max(newest, peer->trainer().epoch());
  look_for_epochs(kCalmEnd);
  if (options.epochs > 0 && newest < options.epochs)
    invariants.add("live", {}, fmt::format("{} of {} epochs in the time given", newest, options.epochs));
  for (const auto& peer : peers) {
    if (!peer->running() || injector.away_within(peer->number(), kCalmEnd)) continue;
    const std::uint64_t epoch = peer->trainer().epoch();
    const std::vector<std::size_t> who = {peer->number()};
    if (!peer->in_step() || epoch + 1 < newest) {
      invariants.add(
          "rejoin", who,
          fmt::format("it is at epoch {}{}, others at {}", epoch, peer->in_step() ? "" : " and not in step", newest));
      continue;
    }
    invariants.ended(peer->number(), epoch, peer->trainer().parameter_hash(), newest);
  }
  invariants.close();
}

void Swarm::World::tell_stuck(const std::string& what) {
  stuck = true;
  std::string waiting;
  std::vector<std::size_t> who;
  for (const auto& peer : peers) {
    if (!peer->running()) continue;
    who.push_back(peer->number());
    waiting += fmt::format("; peer {}: {} tasks, epoch {}{}", peer->number(), peer->tasks(), peer->trainer().epoch(),
                           injector.away(peer->number()) ? ", struck"
                           : peer->in_step()             ? ""
                                                         : ", not in step");
  }
  invariants.add(world.timers() == 0 ? "hang" : "livelock", std::move(who), what + waiting);
  net.stop();
}

Outcome Swarm::World::outcome() {
  Outcome out = recorder.take();
  out.seed = options.seed;
  out.crypto = options.crypto;
  out.fingerprint = net.fingerprint();
  out.length = world.clock().now().time_since_epoch();
  out.bytes = net.bytes_delivered();
  out.faults = injector.facts();
  out.samples_committed = invariants.samples_committed();
  out.ledger = invariants.newest_ledger();
  for (const auto& peer : peers) {
    out.checkpoints_refused += peer->disk().refused();
    out.checkpoints_damaged += peer->disk().damaged();
  }
  for (const auto& peer : peers) out.epochs = std::max(out.epochs, peer->trainer().epoch());
  out.out_of_budget = stuck;
  if (world.timers() > 0 && !stuck)
    invariants.add("clean", {}, fmt::format("{} timers are set after everybody has stopped", world.timers()));
  out.violations = invariants.violations().kept();
  out.violations_total = invariants.violations().count();
  out.interrupted = interrupted;
  out.holdings = std::move(holdings);
  return out;
}

Swarm::Swarm(SwarmOptions options) : world_(std::make_unique<World>(std::move(options))) {}

/// What is stuck cannot be unwound: it is kept until the process ends.
Swarm::~Swarm() {
  static auto& kept = *new std::vector<std::unique_ptr<World>>();
  if (world_ && world_->stuck) kept.push_back(std::move(world_));
}

void Swarm::trace(std::function<void(const TraceLine&)> see) {
  world_->recorder.trace(std::move(see));
}

void Swarm::trace_coordinator(std::function<void(const TraceLine&)> see) {
  world_->recorder.trace_coordinator(std::move(see));
}

void Swarm::stop_when(std::function<bool(Duration)> asked) {
  world_->asked_to_stop = std::move(asked);
}

Outcome Swarm::run() {
  try {
    world_->world.run(world_->scenario());
  } catch (const std::logic_error& what) {
    world_->tell_stuck(what.what());
  }
  return world_->outcome();
}

const std::vector<std::map<std::size_t, Sent>>& Swarm::samples() const {
  return world_->recorder.samples();
}

const Quadratic& Swarm::problem() const {
  return world_->problem;
}

void check_determinism(const SwarmOptions& options, Outcome& outcome) {
  Swarm again(options);
  const Outcome second = again.run();
  if (second.fingerprint == outcome.fingerprint) return;
  ++outcome.violations_total;
  outcome.violations.push_back({"determinism", outcome.length, {}, "the same seed gave another fingerprint"});
}

}  // namespace collab::sim
