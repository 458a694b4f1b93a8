#include "worker.hpp"

#include "averaging/all_reduce.hpp"
#include "base/frame.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "board.hpp"
#include "bulk.hpp"
#include "child.hpp"
#include "cli/program.hpp"
#include "matchmaking/wire.hpp"
#include "net/peer_endpoint.hpp"
#include "net/tcp.hpp"
#include "node/runtime.hpp"
#include "pass_peer.hpp"
#include "plain_network.hpp"
#include "relay_peer.hpp"
#include "seeker.hpp"
#include "state_peer.hpp"
#include "statistics.hpp"
#include "workload.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <vector>

namespace collab::bench {
namespace {

using nlohmann::json;

constexpr auto kMeetTime = std::chrono::seconds(30);
constexpr auto kLookAgain = std::chrono::milliseconds(10);
constexpr std::uint16_t kNobodysPort = 1;
constexpr auto kLookForLost = std::chrono::milliseconds(1);

/// The peer of `index`. A key from a seed, not a secret: it lives on the loopback of one machine for one measurement,
/// and equal keys mean equal ranks, so that equal seeds give equal bytes everywhere.
Identity identity_of(std::uint64_t seed, std::size_t index) {
  Random random = Random(seed).derive(fmt::format("identity {}", index));
  Identity::Seed secret{};
  for (unsigned char& byte : secret) byte = static_cast<unsigned char>(random.below(256));
  return Identity::generate(secret);
}

std::uint64_t peak_memory_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

std::uint64_t descriptors() {
  const auto end = std::filesystem::directory_iterator();
  return static_cast<std::uint64_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), end)) - 1;
}

struct Setup {
  Workload workload;
  std::size_t index = 0;
  std::string host;
  LogLevel log_level = LogLevel::warn;
};

struct Round {
  std::uint64_t number = 0;
  matchmaking::Group group;
};

class Peer {
 public:
  explicit Peer(const Setup& setup);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  json introduction();
  void meet(const json& others);
  void prepare(const json& order);
  json go();
  json settle();
  json result() const;
  json unchanged() const;
  void watch() {
    runtime_.on_loop([this] { services_->spawn("watch", watch_links()); });
  }
  json lost(const json& order);
  json seek(const json& order);
  void make_inputs(const json& order);
  json pass(const json& order);
  json carry(const json& order);
  void ready(const json& order);
  json fetch(const json& order);
  void board();
  json write(const json& order);
  json seen();
  json spent();
  json error() const { return {{"max_relative_error", max_relative_error(setup_.workload, round_.number, values_)}}; }

 private:
  net::Network& network() {
    if (setup_.workload.plaintext) return plain_network_;
    return network_;
  }
  net::EndpointOptions endpoint_options() const;
  std::vector<net::Address> by_relay() const;
  Task<Result<>> connect(std::vector<net::Address> addresses, std::size_t everybody);
  Task<> watch_links();
  Task<Result<averaging::Outcome>> average(averaging::RoundReport& report);
  std::uint64_t bytes_sent();
  void start_directory();

  Setup setup_;
  CodecMap codecs_;
  std::vector<float> values_;
  Log log_;
  Metrics metrics_;
  Identity identity_;
  Access access_;
  node::Runtime runtime_;
  net::TcpNetwork network_;
  PlainNetwork plain_network_;
  RelayPeer relay_;
  std::unique_ptr<net::PeerEndpoint> endpoint_;
  std::unique_ptr<Seeker> seeker_;
  std::unique_ptr<Bulk> bulk_;
  bool seeks_ = false;  // its services run from the first search on: they would cost a measured round
  std::unique_ptr<Board> board_;
  std::unique_ptr<PassPeer> passes_;  // once inputs were asked for: their groups
  std::unique_ptr<StatePeer> state_;
  bool answers_joiners_ = false;
  std::unique_ptr<TaskGroup> services_;
  std::unique_ptr<TaskGroup> serving_;  // rounds that groupmates still need
  std::vector<PeerId> ids_;             // of everybody, by index
  std::map<PeerId, Duration> lost_at_;
  TimePoint declared_at_{};
  TimePoint begun_at_{};
  Round round_;
  double cpu_before_ = 0;
  TimePoint spent_since_{};
  double cpu_spent_ = 0;
  std::uint64_t bytes_before_ = 0;
};

Log::Options log_options(const Setup& setup) {
  Log::Options options;
  options.stderr_level = setup.log_level;
  options.node = fmt::format("peer {}", setup.index);
  return options;
}

Access::Options access_options(const Identity& identity) {
  Access::Options options;
  options.own = identity.id();
  return options;
}

Peer::Peer(const Setup& setup)
    : setup_(setup),
      codecs_(setup.workload.codecs()),
      values_(setup.workload.values()),
      log_(log_options(setup)),
      identity_(identity_of(setup.workload.seed, setup.index)),
      access_(access_options(identity_)),
      network_(runtime_.loop(), runtime_.clock()),
      plain_network_(network_),
      relay_({runtime_.loop(), runtime_.clock(), Random(setup_.index).derive("circuits"), log_, network()}, metrics_) {
  const auto start = [this] {
    net::PeerEndpoint::Needs needs{runtime_.loop(), runtime_.clock(), relay_.network(), Random(setup_.index), log_,
                                   metrics_,        identity_,        access_};
    endpoint_ = std::make_unique<net::PeerEndpoint>(needs, endpoint_options());
    endpoint_->allow_conversation(averaging::round_protocol());
    relay_.use(*endpoint_, setup_.index == kRelay && setup_.workload.relayed, setup_.workload.relay_bits_per_s);
    const Seeker::Needs seeks{*endpoint_,
                              runtime_.clock(),
                              log_,
                              identity_,
                              runtime_.loop(),
                              identity_of(setup_.workload.seed, 0).id(),
                              setup_.workload.peers};
    seeker_ = std::make_unique<Seeker>(seeks, setup_.index);
    board_ = std::make_unique<Board>(seeker_->directory(), runtime_.clock(), identity_.id());
    bulk_ = std::make_unique<Bulk>(*endpoint_, runtime_.clock());
    const StatePeer::Needs gives{*endpoint_, runtime_.clock(), log_, runtime_.loop(), runtime_.workers()};
    state_ = std::make_unique<StatePeer>(gives, setup_.workload);
    endpoint_->listen();
    services_ = std::make_unique<TaskGroup>(runtime_.loop(), rethrow);
    serving_ = std::make_unique<TaskGroup>(runtime_.loop(), rethrow);
    services_->spawn("endpoint", endpoint_->run());
    relay_.start(*services_);
  };
  runtime_.on_loop(start);
}

Peer::~Peer() {
  if (passes_) runtime_.call(passes_->stop());
  runtime_.call(serving_->stop());
  runtime_.call(seeker_->stop());
  runtime_.call(services_->stop());
  const auto release = [this] {
    serving_.reset();
    services_.reset();
    passes_.reset();
    state_.reset();
    board_.reset();
    seeker_.reset();
    bulk_.reset();
    endpoint_.reset();
  };
  runtime_.on_loop(release);
}

net::EndpointOptions Peer::endpoint_options() const {
  net::EndpointOptions options;
  options.run = "bench";
  options.software = "collab-bench";
  net::Address any_port;
  any_port.host = setup_.host;
  options.listen.push_back(any_port);
  options.listen.push_back(nat::circuits_come_in());
  if (setup_.workload.relayed) options.onward = [this] { return by_relay(); };
  return options;
}

json Peer::introduction() {
  std::string address;
  runtime_.on_loop([&] { address = net::to_string(endpoint_->listening().front()); });
  return {{"id", identity_.id().text()}, {"address", address}};
}

/// Where a circuit begins.
std::vector<net::Address> Peer::by_relay() const {
  net::Address at;
  at.leg = net::Leg::onward;
  at.relay = ids_.at(kRelay);
  return std::vector<net::Address>(1, at);
}

/// Whoever has the smaller index dials. Two that are to meet by a relay do not find each other.
void Peer::meet(const json& others) {
  std::vector<net::Address> to_dial;
  const auto introduce = [&] {
    for (std::size_t i = 0; i < others.size(); ++i) {
      const PeerId id = PeerId::parse(others[i].at("id").get<std::string>()).value();
      ids_.push_back(id);
      if (i == setup_.index) continue;
      net::Address address = net::parse_address(others[i].at("address").get<std::string>()).value();
      const bool hidden = setup_.workload.relayed && i != kRelay && setup_.index != kRelay;
      if (hidden) address = net::Address{"127.0.0.1", kNobodysPort};
      endpoint_->introduce(id, {address});
      if (i > setup_.index && !hidden) to_dial.push_back(address);
    }
  };
  runtime_.on_loop(introduce);
  const std::size_t connections = setup_.workload.relayed && setup_.index != kRelay ? 1 : others.size() - 1;
  if (const auto met = runtime_.call(connect(to_dial, connections)); !met)
    throw Failure(ExitCode::machine, "the peers cannot reach each other on this machine: " + met.error().message(),
                  "--log-level debug says what happened");
}

Task<Result<>> Peer::connect(std::vector<net::Address> addresses, std::size_t everybody) {
  Clock& clock = runtime_.clock();
  const TimePoint deadline = clock.now() + kMeetTime;
  for (const net::Address& address : addresses) {
    const auto reached = co_await endpoint_->connect(address, deadline);
    if (!reached) co_return reached.error().code;
  }
  while (endpoint_->connected().size() < everybody) {
    if (clock.now() > deadline) co_return Errc::late;
    co_await clock.sleep_until(clock.now() + kLookAgain);
  }
  co_return Result<>();
}

void Peer::prepare(const json& order) {
  const auto bytes = from_hex(order.at("begin").get<std::string>()).value();
  const auto message = frame::decode<matchmaking::wire::Header>(std::as_bytes(std::span(bytes))).value();
  round_.group = matchmaking::wire::from_wire(std::get<matchmaking::wire::Begin>(message.header)).value();
  round_.number = order.at("round").get<std::uint64_t>();
  fill(setup_.workload, setup_.index, round_.number, values_);
  bytes_before_ = bytes_sent();
}

Task<Result<averaging::Outcome>> Peer::average(averaging::RoundReport& report) {
  averaging::Context context{*endpoint_, runtime_.clock(), log_, identity_, *serving_};
  averaging::AllReduceOptions options;
  options.values_are_finite = true;  // as those of a trainer are
  const std::uint64_t weight = weight_of(setup_.index);
  Work work;
  co_return co_await averaging::all_reduce(context, round_.group, codecs_, values_, weight, std::move(work), options,
                                           report);
}

json Peer::go() {
  cpu_before_ = cpu_seconds();
  const TimePoint started = runtime_.clock().now();
  averaging::RoundReport report;
  const auto outcome = runtime_.call(average(report));
  const double seconds = to_seconds(runtime_.clock().now() - started);
  if (!outcome) return {{"failed", outcome.error().message()}, {"reason", static_cast<int>(report.reason)}};
  double counted = 1;
  for (const auto& peer : report.peers) counted = std::min(counted, peer.counted);
  return {{"seconds", seconds},
          {"exchange_s", report.exchange_s},
          {"commit_s", report.commit_s},
          {"apply_s", report.apply_s},
          {"counted", counted},
          {"views", report.views},
          {"predicted_s", report.predicted_s}};
}

json Peer::settle() {
  runtime_.call(serving_->join());
  return {{"cpu_s", cpu_seconds() - cpu_before_}, {"bytes_sent", bytes_sent() - bytes_before_}};
}

std::uint64_t Peer::bytes_sent() {
  std::uint64_t sum = 0;
  const auto count = [&] {
    for (const PeerId& id : ids_) sum += id == identity_.id() ? 0 : endpoint_->link(id).bytes_sent;
  };
  runtime_.on_loop(count);
  return sum;
}

json Peer::result() const {
  return {{"digest", to_hex(digest_of(values_))},
          {"peak_memory_bytes", peak_memory_bytes()},
          {"descriptors", descriptors()}};
}

json Peer::unchanged() const {
  std::vector<float> inputs(values_.size());
  fill(setup_.workload, setup_.index, round_.number, inputs);
  const bool equal = std::memcmp(inputs.data(), values_.data(), inputs.size() * sizeof(float)) == 0;
  return {{"unchanged", equal}};
}

/// On the loop.
void Peer::start_directory() {
  if (!std::exchange(seeks_, true)) seeker_->start(*services_, endpoint_->listening().front());
}

/// By the steady clock, as lost().
json Peer::seek(const json& order) {
  const auto search = [&]() -> Task<Result<matchmaking::Group>> {
    Clock& clock = runtime_.clock();
    start_directory();
    co_await clock.sleep_until(clock.now() + from_seconds(order.at("after").get<double>()));
    declared_at_ = clock.now();
    auto group = co_await seeker_->find_group(order.at("round").get<std::uint64_t>());
    begun_at_ = clock.now();
    co_return group;
  };
  const auto group = runtime_.call(search());
  if (!group) return {{"failed", group.error().message()}};
  return {{"declared_at", to_seconds(declared_at_.time_since_epoch())},
          {"begun_at", to_seconds(begun_at_.time_since_epoch())},
          {"group", to_hex(group->id)},
          {"members", group->roster.size()}};
}

void Peer::make_inputs(const json& order) {
  round_.number = order.at("round").get<std::uint64_t>();
  fill(setup_.workload, setup_.index, round_.number, values_);
  const auto start = [&] {
    start_directory();
    if (passes_) return;
    const averaging::Context context{*endpoint_, runtime_.clock(), log_, identity_, *serving_};
    const matchmaking::Context searches{*endpoint_, runtime_.clock(), seeker_->directory(), log_};
    passes_ = std::make_unique<PassPeer>(context, searches, codecs_);
  };
  runtime_.on_loop(start);
}

json Peer::pass(const json& order) {
  PassOrder pass;
  pass.number = round_.number;
  pass.radices = order.at("radices").get<std::vector<std::uint32_t>>();
  pass.peers = ids_;
  pass.weight = weight_of(setup_.index);
  pass.weight_max = weight_of(setup_.workload.peers - 1);
  const auto figures = runtime_.call(passes_->pass(std::move(pass), values_));
  if (!figures) return {{"failed", figures.error().message()}};
  return {{"rounds", figures->rounds}, {"rounds_full", figures->rounds_full}};
}

json Peer::carry(const json& order) {
  BulkOrder bulk;
  bulk.run = order.at("run").get<std::uint64_t>();
  bulk.other = ids_.at(order.at("other").get<std::size_t>());
  bulk.sends = order.at("sends").get<bool>();
  bulk.receives = order.at("receives").get<bool>();
  bulk.length = from_seconds(order.at("seconds").get<double>());
  bulk.ask_every = from_seconds(order.at("ask_every").get<double>());
  bulk.frame_bytes = order.at("frame_bytes").get<std::size_t>();
  const double cpu_before = cpu_seconds();
  const auto bytes_received = [this, other = bulk.other] {
    std::uint64_t bytes = 0;
    runtime_.on_loop([&] { bytes = endpoint_->link(other).bytes_received; });
    return bytes;
  };
  const std::uint64_t bytes_before = bytes_received();
  const auto figures = runtime_.call(bulk_->run(bulk));
  if (!figures) return {{"failed", figures.error().message()}};
  return {{"bytes", figures->bytes},
          {"seconds", figures->seconds},
          {"bytes_in_all", bytes_received() - bytes_before},
          {"cpu_s", cpu_seconds() - cpu_before},
          {"answers", figures->answers}};
}

void Peer::ready(const json& order) {
  const bool gives = order.at("gives").get<bool>();
  runtime_.on_loop([&] {
    if (!std::exchange(answers_joiners_, true)) state_->start(*services_, gives);
  });
  spent();
}

json Peer::fetch(const json& order) {
  std::vector<PeerId> donors;
  for (const json& index : order.at("donors")) donors.push_back(ids_.at(index.get<std::size_t>()));
  const auto fetched = runtime_.call(state_->fetch(std::move(donors)));
  if (!fetched) return {{"failed", fetched.error().message()}};
  return {
      {"bytes", fetched->bytes}, {"seconds", fetched->seconds}, {"donors", fetched->donors}, {"whole", fetched->whole}};
}

void Peer::board() {
  runtime_.on_loop([&] {
    start_directory();
    services_->spawn("board", board_->watch());
  });
  spent();
}

json Peer::write(const json& order) {
  const auto records = order.at("records").get<std::size_t>();
  const auto posted = runtime_.call(board_->post(records, from_seconds(order.at("every").get<double>())));
  if (!posted) return {{"failed", posted.error().message()}};
  json written_at = json::array();
  for (const auto& [version, at] : board_->written()) written_at.push_back({version, at});
  return {{"stored_s", posted->stored_s},
          {"found_s", posted->found_s},
          {"missing", posted->missing},
          {"written_at", written_at}};
}

json Peer::seen() {
  json seen_at = json::array();
  const auto look = [&] {
    for (const PeerId& id : ids_) {
      json versions = json::array();
      if (const auto found = board_->seen().find(id); found != board_->seen().end())
        for (const auto& [version, at] : found->second) versions.push_back({version, at});
      seen_at.push_back(std::move(versions));
    }
  };
  runtime_.on_loop(look);
  return {{"seen_at", seen_at}};
}

json Peer::spent() {
  const TimePoint since = std::exchange(spent_since_, runtime_.clock().now());
  const double before = std::exchange(cpu_spent_, cpu_seconds());
  return {{"seconds", to_seconds(spent_since_ - since)}, {"cpu_s", cpu_spent_ - before}};
}

/// By the machine's steady clock, which all its processes share.
json Peer::lost(const json& order) {
  const PeerId id = ids_.at(order.at("peer").get<std::size_t>());
  json lost_at;
  const auto look = [&] {
    if (const auto found = lost_at_.find(id); found != lost_at_.end()) lost_at = to_seconds(found->second);
  };
  runtime_.on_loop(look);
  return {{"lost_at", lost_at}};
}

/// Notes when each connection ends for the first time: what the endpoint remembers is its last failed dial.
Task<> Peer::watch_links() {
  Clock& clock = runtime_.clock();
  for (;;) {
    const TimePoint now = clock.now();
    for (const PeerId& id : ids_)
      if (id != identity_.id() && !endpoint_->link(id).connected) lost_at_.emplace(id, now.time_since_epoch());
    co_await clock.sleep_until(now + kLookForLost);
  }
}

Setup read_setup(const json& order) {
  Setup setup;
  setup.index = order.at("index").get<std::size_t>();
  setup.host = order.at("host").get<std::string>();
  setup.log_level = cli::parse_log_level(order.at("log_level").get<std::string>());
  setup.workload.peers = order.at("peers").get<std::size_t>();
  setup.workload.tensors = order.at("tensors").get<std::size_t>();
  setup.workload.floats = order.at("floats").get<std::size_t>();
  setup.workload.codec = order.at("codec").get<std::string>();
  setup.workload.seed = order.at("seed").get<std::uint64_t>();
  setup.workload.plaintext = order.at("plaintext").get<bool>();
  setup.workload.relayed = order.at("relayed").get<bool>();
  setup.workload.relay_bits_per_s = order.at("relay_bits_per_s").get<double>();
  return setup;
}

json obey(Peer& peer, const json& order) {
  const auto what = order.at("order").get<std::string>();
  if (what == "go") return peer.go();
  if (what == "settle") return peer.settle();
  if (what == "result") return peer.result();
  if (what == "unchanged") return peer.unchanged();
  if (what == "seek") return peer.seek(order);
  if (what == "pass") return peer.pass(order);
  if (what == "carry") return peer.carry(order);
  if (what == "lost") return peer.lost(order);
  if (what == "fetch") return peer.fetch(order);
  if (what == "write") return peer.write(order);
  if (what == "seen") return peer.seen();
  if (what == "spent") return peer.spent();
  if (what == "error") return peer.error();
  if (what == "meet") {
    peer.meet(order.at("others"));
  } else if (what == "inputs") {
    peer.make_inputs(order);
  } else if (what == "ready") {
    peer.ready(order);
  } else if (what == "board") {
    peer.board();
  } else if (what == "watch") {
    peer.watch();
  } else if (what == "round") {
    peer.prepare(order);
  } else {
    throw std::logic_error("unknown order " + what);
  }
  return json::object();
}

}  // namespace

int run_worker() {
  std::signal(SIGPIPE, SIG_IGN);         // the parent that reads our answers may die first
  ::prctl(PR_SET_NAME, "collab-bench");  // else profilers call us by what was executed, "exe"
  std::string line;
  if (!read_order(line)) return 0;
  Peer peer(read_setup(json::parse(line)));
  answer(peer.introduction().dump());
  while (read_order(line)) answer(obey(peer, json::parse(line)).dump());
  return 0;
}

}  // namespace collab::bench
