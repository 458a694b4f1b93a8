#include "sim/state_swarm.hpp"

#include "base/frame.hpp"
#include "base/metrics.hpp"
#include "base/task_group.hpp"
#include "crypto/access.hpp"
#include "net/peer_endpoint.hpp"
#include "state/download.hpp"
#include "state/store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace collab::sim {
namespace {

constexpr std::uint64_t kEpoch = 7;
constexpr std::uint16_t kDonorsPort = 4600;

/// An endpoint and what it needs.
struct StatePeer {
  StatePeer(Simulation& world, Host& on, Identity who, bool listens)
      : host(on), identity(std::move(who)), access(Access::Options()) {
    net::EndpointOptions options;
    options.run = "state";
    if (listens) options.listen.push_back({host.address(), kDonorsPort});
    const net::PeerEndpoint::Needs needs{world.executor(), host.clock(), host,  Random(1).derive(host.name()), log,
                                         metrics,          identity,     access};
    endpoint = std::make_unique<net::PeerEndpoint>(needs, std::move(options));
  }

  Host& host;
  Identity identity;
  Access access;
  Log log;
  Metrics metrics;
  std::unique_ptr<net::PeerEndpoint> endpoint;
};

std::shared_ptr<const state::Snapshot> draw_state(std::uint64_t seed, std::size_t bytes) {
  auto snapshot = std::make_shared<state::Snapshot>();
  snapshot->epoch = kEpoch;
  Random random = Random(seed).derive("state");
  const std::size_t parameters = bytes / 3;
  for (const auto& [name, size] : {std::pair("parameters", parameters), std::pair("optimizer", bytes - parameters)}) {
    state::Section section;
    section.name = name;
    section.bytes.resize(size);
    for (std::byte& byte : section.bytes) byte = static_cast<std::byte>(random.next() >> 32U);
    snapshot->sections.push_back(std::move(section));
  }
  return snapshot;
}

bool same_bytes(const state::Snapshot& a, const state::Snapshot& b) {
  return std::ranges::equal(a.sections, b.sections,
                            [](const auto& x, const auto& y) { return x.name == y.name && x.bytes == y.bytes; });
}

class StateSwarm {
 public:
  explicit StateSwarm(const StateSwarmOptions& options)
      : options_(options),
        network_(world_, options.seed, options.links),
        random_(Random(options.seed).derive("state swarm")),
        state_(draw_state(options.seed, options.state_bytes)),
        tasks_(world_.executor(), rethrow) {
    if (options.crypto == Crypto::fake) network_.secure_by(channels_);
    for (std::size_t i = 0; i < options.donors; ++i) add_donor(i);
    for (std::size_t i = 0; i < options.joiners; ++i) add_joiner(i);
    facts_.joiners.resize(options.joiners);
  }

  StateFacts run() {
    world_.run(live());
    facts_.bytes_delivered = network_.bytes_delivered();
    facts_.fingerprint = network_.fingerprint();
    const double donors = static_cast<double>(options_.donors) * options_.line.up_bytes_per_s;
    const double joiners = static_cast<double>(options_.joiners) * options_.line.down_bytes_per_s;
    const auto whole = std::ranges::count_if(facts_.joiners, [](const JoinerFact& one) { return one.whole; });
    const double could_s = static_cast<double>(whole) * static_cast<double>(options_.state_bytes);
    facts_.line_share = could_s / std::min(donors, joiners) / to_seconds(facts_.until_last);
    return std::move(facts_);
  }

 private:
  std::unique_ptr<StatePeer> make_peer(const std::string& name, bool listens) {
    const SignatureScheme& scheme = options_.crypto == Crypto::fake ? signatures_ : ed25519();
    const Digest seed = Hasher("collab sim state").add(options_.seed).add(std::uint64_t(made_++)).finish();
    return std::make_unique<StatePeer>(world_, network_.add_host(name, options_.line), Identity::generate(seed, scheme),
                                       listens);
  }

  void add_donor(std::size_t number) {
    donors_.push_back(make_peer(fmt::format("donor{}", number), true));
    StatePeer& donor = *donors_.back();
    if (number < options_.liars) return make_liar(donor);
    add_store(donor, state_);
    stores_.back()->advance(kEpoch);
  }

  void add_joiner(std::size_t number) {
    joiners_.push_back(make_peer(fmt::format("joiner{}", number), true));
    add_store(*joiners_.back(), nullptr);
    shares_.push_back(stores_.back().get());
  }

  /// `holds`: null for a peer without a state.
  void add_store(StatePeer& peer, std::shared_ptr<const state::Snapshot> holds) {
    using Taken = Result<std::shared_ptr<const state::Snapshot>>;
    const auto source = [holds = std::move(holds)](std::uint64_t) -> Task<Taken> {
      co_return holds ? Taken(holds) : Taken(Errc::gone);
    };
    stores_.push_back(std::make_unique<state::Store>(*peer.endpoint, peer.host.clock(), world_.executor(),
                                                     world_.executor(), peer.log, source));
  }

  /// Shows the index that all show.
  void make_liar(StatePeer& donor) {
    net::Method row;
    row.answer_bytes_max = frame::kFrameBytesMax;
    row.requests_per_s = row.requests_burst = 4000;
    row.name = state::wire::kIndexMethod;
    const Frame index = state::wire::show(state::index_snapshot(*state_));
    donor.endpoint->handle(row, [index](PeerId, Frame, TimePoint) -> Task<net::Answer> { co_return index; });
    row.name = state::wire::kChunkMethod;
    row.traffic = net::TrafficClass::bulk;
    donor.endpoint->handle(row, [](PeerId, Frame request, TimePoint) -> Task<net::Answer> {
      const auto message = frame::decode<state::wire::Message>(*request);
      const auto* ask = message ? std::get_if<state::wire::AskChunk>(&message->header) : nullptr;
      if (ask == nullptr) co_return Refusal(Errc::bad_request);
      const state::wire::Message answer(state::wire::Chunk{ask->chunk});
      const Bytes wrong(state::kChunkBytes, std::byte(1));
      co_return frame::encode(answer, wrong);
    });
  }

  Task<> live() {
    for (auto& donor : donors_) donor->endpoint->listen();
    for (auto& joiner : joiners_) joiner->endpoint->listen();
    for (auto& peer : donors_) tasks_.spawn("donor", peer->endpoint->run());
    for (auto& store : stores_) tasks_.spawn("store", store->run());
    for (auto& peer : joiners_) tasks_.spawn("joiner", peer->endpoint->run());
    for (std::size_t i = 0; i < options_.dying; ++i) tasks_.spawn("death", die(donors_.size() - 1 - i));
    TaskGroup joins(world_.executor(), rethrow);
    for (std::size_t i = 0; i < joiners_.size(); ++i) joins.spawn("join", join(i));
    co_await joins.join();
    facts_.until_last = world_.clock().now() - begun_;
    co_await tasks_.stop();
    network_.stop();
  }

  Task<> die(std::size_t donor) {
    const Duration when(random_.below(static_cast<std::uint64_t>(options_.dies_within.count())));
    co_await world_.clock().sleep_until(world_.clock().now() + when);
    network_.kill(donors_[donor]->host);
  }

  Task<> join(std::size_t number) {
    StatePeer& joiner = *joiners_[number];
    JoinerFact& fact = facts_.joiners[number];
    const Duration wait(random_.below(static_cast<std::uint64_t>(options_.spread.count())));
    co_await world_.clock().sleep_until(world_.clock().now() + wait);
    std::vector<PeerId> ids;
    for (const auto& donor : donors_) {
      ids.push_back(donor->identity.id());
      joiner.endpoint->introduce(ids.back(), donor->endpoint->listening());
    }
    for (const auto& other : joiners_)  // as records of members do
      if (other->identity.id() != joiner.identity.id())
        joiner.endpoint->introduce(other->identity.id(), other->endpoint->listening());
    const TimePoint asked = world_.clock().now();
    begun_ = std::min(begun_, asked);
    Random random = random_.derive(joiner.host.name());
    state::Context context{*joiner.endpoint, joiner.host.clock(), world_.executor(), joiner.log, random};
    state::WantedState wanted;
    wanted.epoch = kEpoch;
    wanted.deadline = asked + options_.patience;
    const auto on_progress = [&fact](const state::Progress& now) {
      fact.donors = now.donors;
      fact.liars = now.liars;
    };
    const auto got =
        co_await state::download_and_share(context, *shares_[number], std::move(wanted), std::move(ids), on_progress);
    fact.seconds = to_seconds(world_.clock().now() - asked);
    fact.whole = got && same_bytes(**got, *state_);
  }

  StateSwarmOptions options_;
  FakeChannels channels_;
  FakeSignatures signatures_;
  Simulation world_;
  SimNetwork network_;
  Random random_;
  std::shared_ptr<const state::Snapshot> state_;
  std::size_t made_ = 0;
  std::vector<std::unique_ptr<StatePeer>> donors_;
  std::vector<std::unique_ptr<StatePeer>> joiners_;
  std::vector<std::unique_ptr<state::Store>> stores_;
  std::vector<state::Store*> shares_;  // of the joiners
  TimePoint begun_ = TimePoint::max();
  StateFacts facts_;
  TaskGroup tasks_;
};

}  // namespace

double StateFacts::seconds_of(double share) const {
  std::vector<double> all;
  for (const JoinerFact& one : joiners)
    if (one.whole) all.push_back(one.seconds);
  if (all.empty()) return 0;
  std::sort(all.begin(), all.end());
  const auto last = static_cast<double>(all.size() - 1);
  return all[static_cast<std::size_t>(share * last + 0.5)];
}

StateFacts run_state_swarm(const StateSwarmOptions& options) {
  return StateSwarm(options).run();
}

}  // namespace collab::sim
