#include "sim/peer.hpp"

#include "base/task_group.hpp"
#include "matchmaking/matchmaker.hpp"
#include "matchmaking/seating.hpp"

#include <utility>

namespace collab::sim {
namespace {

constexpr Duration kJoinPatience = std::chrono::minutes(30);
constexpr Duration kLeaveTime = std::chrono::seconds(10);
constexpr Duration kSeatingTtl = std::chrono::seconds(60);
constexpr Duration kGoodByeTime = std::chrono::seconds(1);  // of it

/// The peer's own directory, with a note of what it publishes, and the lies of a liar. With the planted bug no_quorum
/// it always claims to be connected, so that a peer that hears of nobody calls that the whole swarm.
class SeenDirectory final : public directory::Directory {
 public:
  SeenDirectory(directory::Directory& real, bool always_connected, const std::optional<Lie>& lie)
      : real_(real), always_connected_(always_connected), lie_(lie) {}
  void publish(std::string key, std::string subkey, Bytes value, Duration ttl) override {
    progress_records_ += key == progress::kProgressKey ? 1 : 0;
    if (lie_) value = distorted_record(*lie_, key, std::move(value));
    real_.publish(std::move(key), std::move(subkey), std::move(value), ttl);
  }
  Task<Result<>> claim(std::string key, std::string subkey, Bytes value, Duration ttl, TimePoint deadline) override {
    return real_.claim(std::move(key), std::move(subkey), std::move(value), ttl, deadline);
  }
  void withdraw(const std::string& key, const std::string& subkey) override { real_.withdraw(key, subkey); }
  Task<Result<std::vector<directory::Record>>> get(std::string key, TimePoint deadline) override {
    auto records = co_await real_.get(std::move(key), deadline);
    if (!records && always_connected_) co_return std::vector<directory::Record>();
    co_return records;
  }
  std::unique_ptr<directory::Watch> watch(std::string key) override { return real_.watch(std::move(key)); }
  bool connected() const override { return always_connected_ || real_.connected(); }
  TimePoint steady_since() const override { return always_connected_ ? TimePoint::min() : real_.steady_since(); }
  std::uint64_t progress_records() const noexcept { return progress_records_; }

 private:
  directory::Directory& real_;
  bool always_connected_;
  const std::optional<Lie>& lie_;
  std::uint64_t progress_records_ = 0;
};

}  // namespace

/// Sees where rounds are, and says yes.
class Peer::Slots final : public averaging::Guard {
 public:
  explicit Slots(Peer& peer) : peer_(peer) {}
  bool wants_part_digests() const override { return true; }
  void before_scatter(std::span<const Digest>) override { reached(Phase::scatter); }
  void on_part(averaging::Rank, averaging::Rank, const Digest&) override { reached(Phase::reduce); }
  void before_gather(averaging::Rank, const Digest&, averaging::Ranks) override { reached(Phase::gather); }
  averaging::Verdict before_use(std::span<const Digest>) override {
    reached(Phase::hold);
    averaging::Verdict verdict;
    if (peer_.aborting_) verdict.kind = averaging::Verdict::Kind::wait;
    return verdict;
  }

 private:
  void reached(Phase phase) { peer_.needs_.witness.reached(peer_.number_, phase); }
  Peer& peer_;
};

/// One process, in the order in which optim::Collaboration and optim::Optimizer make one.
struct Peer::Life {
  Life(Peer& of, std::uint64_t number)
      : peer(of),
        random(Random(of.needs_.seed).derive("sim." + of.host_.name() + "." + std::to_string(number))),
        tasks(of.needs_.loop, [this](std::string_view task, std::exception_ptr what) { broke(task, what); }) {
    log.observe([this](LogLevel level, std::string_view event, Log::Fields fields) { logged(level, event, fields); });
    const node::NodeNeeds needs{of.needs_.loop, of.needs_.loop,        of.host_.clock(),
                                of.host_,       random.derive("node"), log,
                                metrics,        &of.needs_.verified};
    node = std::make_unique<node::Node>(needs, identity_of(of.needs_.seed, of.number_, of.needs_.scheme),
                                        of.node_options());
  }

  void logged(LogLevel level, std::string_view event, Log::Fields fields) {
    Witness& witness = peer.needs_.witness;
    witness.logged(peer.number_, level, event, fields);
    if (event == "matchmaking.begun") witness.reached(peer.number_, Phase::begin);
    if (event == "averaging.suspected") witness.reached(peer.number_, Phase::view);
    if (event == "averaging.round") witness.reached(peer.number_, Phase::commit);
    if (event == "epoch.committed") witness.reached(peer.number_, Phase::done);
  }

  void broke(std::string_view task, const std::exception_ptr& failure) {
    try {
      std::rethrow_exception(failure);
    } catch (const Failure& what) {
      if (!peer.banned_ || what.code() != ExitCode::not_admitted)
        return peer.needs_.witness.broke(peer.number_, task, what.what());
      dismissed = true;
    } catch (const std::exception& what) {
      peer.needs_.witness.broke(peer.number_, task, what.what());
    }
  }

  Peer& peer;
  Random random;
  Log log;
  Metrics metrics;
  std::unique_ptr<node::Node> node;
  std::unique_ptr<LyingEndpoint> endpoint;
  std::unique_ptr<SeenDirectory> directory;
  std::unique_ptr<progress::Tracker> tracker;
  std::unique_ptr<state::Store> store;
  std::unique_ptr<data::Leases> leases;  // null: nothing is leased
  std::unique_ptr<ClockBridge> bridge;   // null until it is in the run
  data::Ledger ledger;                   // as of the last event
  std::unique_ptr<epoch::Member> member;
  bool finished = false;
  bool dismissed = false;
  TaskGroup tasks;
};

Peer::Peer(const PeerNeeds& needs, Host& host, std::size_t number, ClockBridge::Pace pace, bool client)
    : needs_(needs),
      host_(host),
      number_(number),
      pace_(pace),
      samples_per_s_(pace.samples_per_s),
      client_(client),
      id_(identity_of(needs.seed, number).id()),
      trainer_(needs.problem, needs.step, number, needs.plant, needs.witness),
      slots_(std::make_unique<Slots>(*this)) {}

Peer::~Peer() = default;

Identity Peer::identity_of(std::uint64_t seed, std::size_t number, const SignatureScheme& scheme) {
  const Digest digest = Hasher("collab sim identity").add(seed).add(std::uint64_t(number)).finish();
  return Identity::generate(digest, scheme);
}

node::NodeOptions Peer::node_options() const {
  node::NodeOptions options;
  options.run.run_id = needs_.run_id;
  options.bootstrap = bootstrap_.empty() ? needs_.bootstrap : bootstrap_;
  options.loopback_port = 0;
  options.client = client_;
  options.role = client_ ? "client" : "full";
  options.name = host_.name();
  if (needs_.boxes && !client_) options.listen = net::Address{host_.address(), 443};
  if (needs_.boxes) options.router = [] { return std::optional<std::string>("192.168.0.1"); };  // as far as it knows
  return options;
}

/// With what the disk holds.
void Peer::boot(bool blank) {
  if (blank) disk_.wipe();
  if (needs_.checkpoint_every == 0) return trainer_.reboot(blank);
  if (const auto saved = disk_.load()) return trainer_.reboot(*saved);
  trainer_.reboot(true);
  trainer_.reboot(trainer_.to_save());  // it begins anew, and the witness hears of it
}

void Peer::start(bool blank) {
  boot(blank);
  life_ = std::make_unique<Life>(*this, lives_++);
  life_->tasks.spawn("peer", live(*life_));
}

void Peer::make_leases(Life& life) {
  data::LeaseOptions options;
  options.units_per_pass = needs_.units_per_pass;
  const auto peers = [&tracker = *life.tracker] {
    std::vector<PeerId> ids;
    for (const auto& [id, record] : tracker.others())
      if (record.taking_part) ids.push_back(id);
    return ids;
  };
  const auto units_per_s = [&tracker = *life.tracker] { return tracker.samples_per_s(); };
  const data::Leases::Needs needs{*life.directory, host_.clock(), life.log, needs_.loop, id_, peers, units_per_s};
  life.leases = std::make_unique<data::Leases>(needs, options);
}

void Peer::happened(Life& life, const epoch::MemberEvent& event) {
  using Kind = epoch::MemberEvent::Kind;
  if (event.kind == Kind::joined) life.bridge->begin();
  // the bug: what a round that was missed has counted is not entered
  if (event.kind == Kind::caught_up && needs_.plant == Plant::skip_ledger) trainer_.ledger() = life.ledger;
  life.ledger = trainer_.ledger();
  needs_.witness.happened(number_, event);
  const bool moved = event.kind == Kind::joined || event.kind == Kind::committed || event.kind == Kind::caught_up ||
                     event.kind == Kind::downloaded;
  const bool due = needs_.checkpoint_every > 0 && event.epoch % needs_.checkpoint_every == 0;
  if (due && (event.kind == Kind::committed || event.kind == Kind::caught_up))
    disk_.save(trainer_.to_save(), needs_.world.now());
  if (moved) needs_.witness.has_ledger(number_, event.epoch, life.ledger);
}

Task<> Peer::live(Life& life) {
  const auto joined = co_await life.node->join(host_.clock().now() + kJoinPatience);
  if (!joined) throw life.node->join_failure(joined.error());
  life.endpoint = std::make_unique<LyingEndpoint>(life.node->endpoint(), lie_, needs_.equal_split);
  auto& endpoint = *life.endpoint;
  endpoint.allow_conversation(matchmaking::row());
  endpoint.allow_conversation(averaging::round_protocol());
  endpoint.allow_conversation(epoch::legacy_protocol());
  endpoint.handle(epoch::take_on_method(), [this](PeerId from, Frame request, TimePoint deadline) {
    return take_on(from, std::move(request), deadline);
  });
  endpoint.handle(averaging::counted_method(), [this](PeerId from, Frame request, TimePoint /*deadline*/) {
    return was_counted(from, std::move(request));
  });
  life.directory = std::make_unique<SeenDirectory>(life.node->directory(), needs_.plant == Plant::no_quorum, lie_);
  progress::TrackerOptions tracker_options;
  tracker_options.target_batch = needs_.member.target_batch;
  const auto expelled = [&life](const PeerId& peer) { return life.node->endpoint().expelled(peer); };
  const progress::Tracker::Needs tracker_needs{*life.directory, host_.clock(), life.log, life.random.derive("tracker"),
                                               needs_.loop,     id_,           nullptr,  expelled};
  life.tracker = std::make_unique<progress::Tracker>(tracker_needs, tracker_options);
  life.store = std::make_unique<state::Store>(
      endpoint, host_.clock(), needs_.loop, needs_.loop, life.log,
      [this](std::uint64_t epoch) { return snapshot(epoch); }, needs_.store);

  if (needs_.boxes) life.tasks.spawn("node", life.node->run());  // so others find out who dials it meanwhile
  if (needs_.units_per_pass > 0) make_leases(life);
  life.bridge = std::make_unique<ClockBridge>(needs_.loop, host_.clock(), trainer_, pace_, life.leases.get());

  epoch::MemberOptions options = needs_.member;
  options.role = client_ ? matchmaking::Role::client : matchmaking::Role::node;
  if (needs_.boxes) {
    options.role_now = [&node = *life.node] {
      const bool dials_only = node.reachability().counts_as_client();
      return dials_only ? matchmaking::Role::client : matchmaking::Role::node;
    };
    options.role = options.role_now();
    options.role_known = [&node = *life.node] { return node.reachability().judged(); };
  }
  options.incarnation = static_cast<std::uint64_t>(host_.clock().unix_ms());
  options.all_reduce.guard = slots_.get();
  options.on_parts = [this](const auto values, std::uint64_t weight) { needs_.witness.sends(number_, values, weight); };
  if (needs_.plant == Plant::begin_early) options.target_batch = options.target_batch * 3 / 4;
  if (needs_.plant == Plant::arrival_order) options.all_reduce.rule = &arrival_order_;
  const epoch::Member::Context context{endpoint,
                                       host_.clock(),
                                       *life.directory,
                                       *life.tracker,
                                       *life.store,
                                       life.log,
                                       life.metrics,
                                       life.node->identity(),
                                       needs_.loop,
                                       needs_.loop,
                                       life.random.derive("member"),
                                       life.leases.get()};
  const auto on_event = [this, &life](const epoch::MemberEvent& event) { happened(life, event); };
  life.member = std::make_unique<epoch::Member>(context, std::move(options), *life.bridge, on_event);
  if (!needs_.boxes) life.tasks.spawn("node", life.node->run());
  life.tasks.spawn("progress", life.tracker->run());
  life.tasks.spawn("state", life.store->run());
  life.tasks.spawn("trainer", life.bridge->run());
  if (life.leases) life.tasks.spawn("leases", life.leases->run());
  co_await life.member->run(trainer_.epoch());
  life.finished = true;
  if (needs_.leave_at_end) co_await say_good_bye(life, host_.clock().now() + kLeaveTime);
}

Task<Result<std::shared_ptr<const state::Snapshot>>> Peer::snapshot(std::uint64_t epoch) {
  if (!life_ || !life_->member) co_return Errc::gone;
  co_return co_await life_->member->snapshot(epoch);
}

Task<net::Answer> Peer::take_on(PeerId from, Frame request, TimePoint deadline) {
  if (!life_ || !life_->member) co_return Refusal(Errc::gone);
  co_return co_await life_->member->take_on(from, std::move(request), deadline);
}

Task<net::Answer> Peer::was_counted(PeerId from, Frame request) {
  if (!life_ || !life_->member) co_return Refusal(Errc::gone);
  co_return life_->member->was_counted(from, request);
}

void Peer::lie(std::optional<Lie> about) {
  const auto before = std::exchange(lie_, about);
  if (!life_ || !life_->directory) return;
  directory::Directory& directory = *life_->directory;
  const std::string key(matchmaking::kSeatingKey);
  const std::string helps(matchmaking::kAuxiliarySubkey);
  if (about == Lie::help) directory.publish(key, helps, Bytes(1), kSeatingTtl);
  if (before == Lie::help && about != Lie::help) directory.withdraw(key, helps);
  if (about != Lie::grid && before != Lie::grid) return;
  const std::vector<Bytes> pieces = absurd_seating(trainer_.epoch());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::string subkey = matchmaking::seating_subkey(0, i);
    if (about == Lie::grid) directory.publish(key, subkey, pieces[i], kSeatingTtl);
    if (about != Lie::grid) directory.withdraw(key, subkey);
  }
}

Task<> Peer::kill() {
  if (!life_) co_return;
  const auto life = std::move(life_);  // from here on nobody finds it
  if (life->bridge) life->bridge->leave();
  co_await life->tasks.stop();
  if (life->member) co_await life->member->stop();
  disk_.died(needs_.world.now());
}

Task<> Peer::leave() {
  if (!life_) co_return;
  const TimePoint deadline = host_.clock().now() + kLeaveTime;
  if (life_->bridge) life_->bridge->leave();
  co_await hand_on(*life_, deadline - kLeaveTime / 5);
  co_await say_good_bye(*life_, deadline);
  if (needs_.checkpoint_every > 0 && in_step()) {
    const TimePoint stays = disk_.save(trainer_.to_save(), needs_.world.now());
    co_await needs_.world.sleep_until(stays);
  }
  co_await kill();
}

Task<> Peer::hand_on(Life& life, TimePoint deadline) {
  if (!life.member || trainer_.samples() == 0) co_return;
  const auto heir = life.member->heir();
  const std::uint64_t epoch = trainer_.epoch();
  const std::uint64_t samples = trainer_.samples();
  Result<> handed = Errc::gone;
  if (heir) {
    epoch::Estate estate;
    estate.epoch = epoch;
    estate.values.resize(trainer_.values());
    estate.behind = trainer_.hand_on(estate.values);
    handed = co_await life.member->hand_on(*heir, std::move(estate), deadline);
  }
  if (handed) co_return;
  life.log.info("samples.lost", {{"epoch", epoch}, {"samples", samples}, {"why", handed.error().message()}});
}

Task<> Peer::say_good_bye(Life& life, TimePoint deadline) {
  const TimePoint laggards_until = deadline - kGoodByeTime;
  const auto leave = [&life, laggards_until]() -> Task<Result<>> {
    if (life.member) co_await life.member->leave();
    if (!life.node->is_member()) co_return Result<>();
    if (life.tracker) co_await life.tracker->leave(laggards_until);
    co_await life.node->leave();
    co_return Result<>();
  };
  auto leaving = leave();
  (void)co_await with_deadline(host_.clock(), deadline, std::move(leaving));  // else by silence
}

std::uint64_t Peer::progress_records() const {
  return life_ && life_->directory ? life_->directory->progress_records() : 0;
}

bool Peer::in_step() const {
  return life_ && life_->member && (life_->finished || life_->member->in_step());
}

bool Peer::dismissed() const {
  return life_ && life_->dismissed;
}

bool Peer::finished() const {
  return life_ && life_->finished;
}

Duration Peer::units_wait_max() const {
  return life_ && life_->bridge ? life_->bridge->units_wait_max() : Duration();
}

std::uint64_t Peer::unleased() const {
  return life_ && life_->leases ? life_->leases->unleased() : 0;
}

std::size_t Peer::tasks() const {
  return life_ ? life_->tasks.size() : 0;
}

std::size_t Peer::connections() const {
  return life_ && life_->node->is_member() ? life_->node->endpoint().connected().size() : 0;
}

double Peer::busy() const {
  return life_ && life_->bridge ? life_->bridge->busy() : 0;
}

}  // namespace collab::sim
