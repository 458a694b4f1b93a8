#include "sim/nat_pairs.hpp"

#include "base/frame.hpp"
#include "base/task_group.hpp"
#include "nat/wire.hpp"
#include "node/node.hpp"
#include "sim/network.hpp"
#include "sim/peer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

namespace collab::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kNatRun = "nat";
constexpr std::uint16_t kNatPort = 443;
constexpr std::uint16_t kOtherPort = 4600;
constexpr std::uint16_t kNobodysPort = 1;  // so who is asked answers at once, and dials nobody
constexpr Duration kMeetTime = seconds(20);
constexpr Duration kReturnTime = seconds(3);  // for one who came by a relay to be dialled in return
constexpr Duration kPunchTime = seconds(10);  // for those that may get through; three tries fit
constexpr Duration kPunchLook = milliseconds(50);
constexpr Duration kLedOnMax = seconds(8);                            // five of them for what is dropped in silence
constexpr Duration kRelayedMax = seconds(2) + 4 * milliseconds(160);  // 2 s and four round trips by way of a relay
constexpr Duration kStartsApart = milliseconds(50);                   // between two that start
constexpr std::size_t kPeersOfKind = 2;

node::Manifest manifest_of(const PeerId& authority) {
  node::Manifest manifest;
  manifest.run_id = kNatRun;
  manifest.authority = authority;
  manifest.sequence = 1;
  manifest.recipe = "{}";
  manifest.target_batch = 1;
  manifest.codec = "float32";
  return manifest;
}

/// One node on one host.
struct Resident {
  Resident(Simulation& world, Host& where, Identity key, node::NodeOptions options, VerifiedStatements& verified)
      : host(where), tasks(world.executor(), rethrow) {
    const node::NodeNeeds needs{world.executor(),
                                world.executor(),
                                host.clock(),
                                host,
                                Random(key.id().key[0]).derive("nat." + host.name()),
                                log,
                                metrics,
                                &verified};
    node = std::make_unique<node::Node>(needs, std::move(key), std::move(options));
  }
  Task<> live() {
    const auto joined = co_await node->join(host.clock().now() + kMeetTime);
    if (!joined) throw node->join_failure(joined.error());
    co_await node->run();
  }

  Host& host;
  Log log;
  Metrics metrics;
  std::unique_ptr<node::Node> node;
  TaskGroup tasks;
};

class Street {
 public:
  explicit Street(const NatPairsOptions& options);
  NatFacts run();

 private:
  node::NodeOptions node_options(const Host& host, bool coordinator, std::uint16_t port) const;
  Resident& settle(Host& host, std::uint16_t port = kNatPort);
  Host& house(std::size_t kind, std::size_t number, NatBox*& box);
  Task<> scenario();
  std::vector<std::pair<std::size_t, std::size_t>> pairs_in_turn() const;
  Task<net::LinkState> call(Resident& from, Resident& to);
  Task<> meet(std::size_t a, std::size_t b);
  Task<> improve(NatPair& pair, Resident& first, Resident& second);
  Identity next_identity() { return Peer::identity_of(options_.seed, residents_.size(), scheme()); }
  const SignatureScheme& scheme() const { return options_.crypto == Crypto::fake ? signatures_ : ed25519(); }

  const NatPairsOptions& options_;
  Simulation world_;
  SimNetwork net_;
  FakeChannels channels_;
  FakeSignatures signatures_;
  VerifiedStatements verified_;
  std::vector<std::unique_ptr<Resident>> residents_;  // the coordinator first
  std::vector<std::array<Resident*, kPeersOfKind>> of_kind_;
  NatFacts facts_;
};

Street::Street(const NatPairsOptions& options)
    : options_(options), net_(world_, options.seed, options.links), verified_(0, scheme()) {
  if (options_.crypto == Crypto::fake) net_.secure_by(channels_);
  net_.on_hidden_dial([this](const Host&, const Host&) { ++facts_.hidden_dials; });
  facts_.kinds = options_.kinds;
}

node::NodeOptions Street::node_options(const Host& host, bool coordinator, std::uint16_t port) const {
  node::NodeOptions options;
  options.run.run_id = kNatRun;
  options.loopback_port = 0;
  options.listen = net::Address{host.address(), port};
  options.name = host.name();
  options.serve_directory = coordinator;
  options.role = coordinator ? "coordinator" : "full";
  if (coordinator) options.relay = nat::RelayMode::bulk;
  if (!coordinator) options.bootstrap.push_back(node::parse_peer_address(fmt::format("coordinator:{}", kNatPort)));
  return options;
}

Resident& Street::settle(Host& host, std::uint16_t port) {
  const bool coordinator = residents_.empty();
  Identity key = next_identity();
  residents_.push_back(
      std::make_unique<Resident>(world_, host, std::move(key), node_options(host, coordinator, port), verified_));
  Resident& resident = *residents_.back();
  if (coordinator) {
    const Identity authority = Peer::identity_of(options_.seed, 0);
    resident.node->found(node::sign_manifest(authority, manifest_of(authority.id())));
  }
  return resident;
}

/// `box`: that of the one before, of the same kind; then its own.
Host& Street::house(std::size_t kind, std::size_t number, NatBox*& box) {
  const NatKind& of = options_.kinds[kind];
  if (of.box && of.box->mapping == NatMapping::none) {
    Host& host = net_.add_host(fmt::format("198.52.{}.{}", kind, number + 1));
    net_.add_firewall(host, *of.box);
    return host;
  }
  Host& host = net_.add_host(fmt::format("kind{}-{}", kind, number));
  if (!of.box) return host;
  if (box == nullptr || !of.shared) box = &net_.add_box(*of.box);
  net_.put_behind(host, *box);
  return host;
}

/// How a call came through; not connected: it did not.
Task<net::LinkState> Street::call(Resident& from, Resident& to) {
  nat::wire::DialBack question;
  question.port = kNobodysPort;
  const Frame request = frame::encode(nat::wire::Header(question));
  net::PeerEndpoint& endpoint = from.node->endpoint();
  (void)co_await endpoint.call(to.node->self(), "nat.dial_back", request, from.host.clock().now() + kMeetTime);
  co_return endpoint.link(to.node->self());  // whatever the answer was
}

/// What becomes of a circuit.
Task<> Street::improve(NatPair& pair, Resident& first, Resident& second) {
  const auto may = [](const Resident& one) { return nat::can_be_punched(one.node->mapping().kind); };
  const auto way = [&] { return second.node->endpoint().link(first.node->self()); };
  const auto crossings = [&] { return first.metrics.value("collab_punch_seconds"); };
  const double crossed_before = crossings();
  const TimePoint began = world_.clock().now();
  const Duration time = may(first) && may(second) ? kPunchTime : kReturnTime;
  while (way().circuit && world_.clock().now() < began + time)
    co_await world_.clock().sleep_until(world_.clock().now() + kPunchLook);
  const net::LinkState back = way();
  pair.b_dials = back.dialled;
  pair.relayed = back.circuit;
  pair.led_on = back.circuit && back.tensors;
  pair.punched = back.connected && !back.circuit && !back.dialled;
  if (!pair.punched) co_return;
  pair.punched_in = world_.clock().now() - began;
  pair.crossed_in = from_seconds(crossings() - crossed_before);
}

Task<> Street::meet(std::size_t a, std::size_t b) {
  NatPair pair;
  pair.a = a;
  pair.b = b;
  Resident& first = *of_kind_[a][0];
  Resident& second = *of_kind_[b][1];
  const TimePoint began = world_.clock().now();
  const net::LinkState there = co_await call(first, second);
  pair.took = world_.clock().now() - began;
  pair.a_dials = there.dialled;
  if (there.circuit) {
    co_await improve(pair, first, second);
  } else if (!pair.a_dials) {
    const net::LinkState back = co_await call(second, first);
    pair.b_dials = back.dialled;
    pair.relayed = back.circuit;
  }
  facts_.pairs.push_back(pair);
}

/// By chance, so that nobody has all its pairs in a row: tries to punch are counted by the minute.
std::vector<std::pair<std::size_t, std::size_t>> Street::pairs_in_turn() const {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (std::size_t a = 0; a < of_kind_.size(); ++a)
    for (std::size_t b = a; b < of_kind_.size(); ++b) pairs.emplace_back(a, b);
  Random random = Random(options_.seed).derive("nat.pairs");
  for (std::size_t i = pairs.size(); i > 1; --i) std::swap(pairs[i - 1], pairs[random.below(i)]);
  return pairs;
}

Task<> Street::scenario() {
  Resident& coordinator = settle(net_.add_host("coordinator"));
  coordinator.tasks.spawn("node", coordinator.node->run());
  for (std::size_t i = 0; i < options_.judges; ++i) settle(net_.add_host(fmt::format("judge{}", i)));
  for (std::size_t kind = 0; kind < options_.kinds.size(); ++kind) {
    NatBox* box = nullptr;
    of_kind_.emplace_back();
    for (std::size_t i = 0; i < kPeersOfKind; ++i)
      of_kind_.back()[i] = &settle(house(kind, i, box), options_.kinds[kind].port);
  }
  for (std::size_t i = 1; i < residents_.size(); ++i) {
    co_await world_.clock().sleep_until(world_.clock().now() + kStartsApart);
    residents_[i]->tasks.spawn("node", residents_[i]->live());
  }
  co_await world_.clock().sleep_until(world_.clock().now() + options_.settle);
  for (const auto& peers : of_kind_) {
    facts_.states.push_back(peers[0]->node->reachability().state());
    facts_.sure.push_back(!peers[0]->node->reachability().weak());
    facts_.mappings.push_back(peers[0]->node->mapping().kind);
  }
  for (const auto& [a, b] : pairs_in_turn()) co_await meet(a, b);
  const auto by_kinds = [](const NatPair& one, const NatPair& other) {
    return std::pair(one.a, one.b) < std::pair(other.a, other.b);
  };
  std::sort(facts_.pairs.begin(), facts_.pairs.end(), by_kinds);
  facts_.length = world_.clock().now().time_since_epoch();
  for (auto& resident : residents_) co_await resident->tasks.stop();
  net_.stop();
}

NatFacts Street::run() {
  world_.run(scenario());
  facts_.fingerprint = net_.fingerprint();
  return std::move(facts_);
}

}  // namespace

std::vector<NatKind> nat_kinds() {
  std::vector<NatKind> kinds(1);
  kinds.front().name = "public";
  for (const NatMapping mapping :
       {NatMapping::endpoint_independent, NatMapping::address_dependent, NatMapping::symmetric}) {
    for (const NatFilter filter : {NatFilter::none, NatFilter::address, NatFilter::address_and_port}) {
      NatKind kind;
      kind.name = fmt::format("{}, filters {}", name(mapping), filter == NatFilter::none ? "nothing" : name(filter));
      kind.box.emplace();
      kind.box->mapping = mapping;
      kind.box->filter = filter;
      kinds.push_back(std::move(kind));
    }
  }
  NatKind kind;
  kind.name = "firewall";
  kind.box.emplace();
  kind.box->mapping = NatMapping::none;
  kinds.push_back(kind);
  kind.name = "only out to port 443";
  kind.box.emplace();
  kind.box->mapping = NatMapping::symmetric;
  kind.box->only_443 = true;
  kinds.push_back(kind);
  kind.shared = true;
  kind.box = NatOptions();
  kind.name = "in one home";
  kinds.push_back(kind);
  kind.box->hairpin = true;
  kind.name = "in one home, hairpin";
  kinds.push_back(kind);
  kinds.push_back(NatKind());
  kinds.back().name = "public, at another port";
  kinds.back().port = kOtherPort;
  return kinds;
}

bool must_be_led_on(const NatKind& a, const NatKind& b) noexcept {
  const auto keeps_in = [](const NatKind& from, const NatKind& to) {
    return from.box && from.box->only_443 && !to.box && to.port != kNatPort;
  };
  return keeps_in(a, b) || keeps_in(b, a);
}

NatFacts run_nat_pairs(const NatPairsOptions& options) {
  Street street(options);
  return street.run();
}

std::vector<std::string> nat_lies(const NatFacts& facts) {
  std::vector<std::string> lies;
  const auto open = [&](std::size_t kind) { return facts.states[kind] == nat::State::open; };
  for (std::size_t kind = 0; kind < facts.kinds.size(); ++kind) {
    if (facts.states[kind] == nat::State::unknown) lies.push_back(facts.kinds[kind].name + ": never judged");
    if (facts.kinds[kind].box && open(kind)) lies.push_back(facts.kinds[kind].name + ": taken for open");
    if (!facts.kinds[kind].box && !open(kind)) lies.push_back(facts.kinds[kind].name + ": not taken for open");
  }
  for (const NatPair& pair : facts.pairs) {
    const std::string who = fmt::format("{} and {}", facts.kinds[pair.a].name, facts.kinds[pair.b].name);
    if (pair.led_on != must_be_led_on(facts.kinds[pair.a], facts.kinds[pair.b]))
      lies.push_back(who + (pair.led_on ? ": led onward, where a dial would do" : ": nobody leads onward"));
    if (pair.led_on && pair.took > kLedOnMax)
      lies.push_back(fmt::format("{}: led onward after {:.1f} s", who, to_seconds(pair.took)));
    if (pair.led_on) continue;
    const bool may = open(pair.a) || open(pair.b);
    if (may && !pair.a_dials && !pair.b_dials) lies.push_back(who + ": one is open, and they do not meet");
    const auto relayed = [&](std::size_t kind) { return facts.states[kind] == nat::State::relayed; };
    const auto kept = [&](std::size_t kind) {
      return kind < facts.mappings.size() && relayed(kind) && nat::can_be_punched(facts.mappings[kind]);
    };
    const bool at_home = pair.a == pair.b && facts.kinds[pair.a].shared;  // both have one outside address
    const bool may_punch = kept(pair.a) && kept(pair.b) && !at_home;
    if (may_punch && !pair.punched) lies.push_back(who + ": two holes would do, and they stay on a relay");
    if (pair.punched && !may_punch) lies.push_back(who + ": punched, where nothing should lead through");
    if (relayed(pair.a) && relayed(pair.b) && !pair.a_dials && !pair.b_dials && !pair.relayed && !pair.punched)
      lies.push_back(who + ": relays lead to both, and they do not meet");
    if (pair.relayed && pair.took > kRelayedMax)
      lies.push_back(fmt::format("{}: relayed after {:.1f} s", who, to_seconds(pair.took)));
    const bool met_before = open(pair.a) && pair.b_dials;  // by the directory: whoever was first has dialled
    if (open(pair.b) && !pair.a_dials && !met_before)
      lies.push_back(who + ": the second is open, and the first cannot dial it");
  }
  if (facts.hidden_dials > 0)
    lies.push_back(fmt::format("{} dials from one box to another, where nobody can answer", facts.hidden_dials));
  return lies;
}

}  // namespace collab::sim
