#include "net/peer_endpoint.hpp"

#include "net/moved.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

namespace collab::net {
namespace {

constexpr Duration kAllPeriod = std::chrono::seconds(1);
constexpr std::size_t kAtOnceMax = 8;  // connections; of more, what one says changes little, and may wait a second
constexpr Duration kExpelledKept = std::chrono::minutes(3);  // by then no record of such a peer is left
constexpr std::size_t kExpelledMax = 1024;                   // then the next ones are missed when their records end
constexpr Duration kStoppedTime = std::chrono::seconds(2);   // a tick this late: the process did not run
constexpr std::int64_t kOtherTimeMs = 1000;  // of a newcomer: so far from the swarm's it is to be heard again
constexpr Duration kNextCircuitTime = std::chrono::seconds(6);  // for another circuit, when one ends in ten seconds

CallServer::Needs server_needs(const PeerEndpoint::Needs& needs, Paths& paths, const MethodTable& methods) {
  return {needs.executor, needs.clock, paths, needs.access, needs.log, needs.metrics, methods};
}

Conversations::Needs talk_needs(const PeerEndpoint::Needs& needs, Paths& paths, const MethodTable& methods) {
  return {needs.executor, needs.clock, paths, needs.access, needs.metrics, methods, needs.identity.id()};
}

/// Moves `Access` on, and says when its list was read.
void refresh_access(const PeerEndpoint::Needs& needs, TimePoint now, std::int64_t swarm_ms) {
  const auto reloaded = needs.access.refresh(now, swarm_ms);
  if (!reloaded) return;
  if (reloaded->problem.empty()) {
    needs.log.info("net.allow_list", {{"peers", reloaded->peers}});
  } else {
    needs.log.warn("net.allow_list_refused", {{"problem", reloaded->problem}});
  }
}

}  // namespace

PeerEndpoint::PeerEndpoint(const Needs& needs, EndpointOptions options)
    : needs_(needs),
      options_(std::move(options)),
      tls_(needs_.identity, tls_options(needs_.network)),
      rules_{
          tls_,
          [this] { return hello(); },
          [this] { return swarm_ms(); },
          [this] { return own_ms(); },
          [this](const PeerId& peer, const Hello& theirs) { return welcome(peer, theirs); },
          [this](const PeerId& peer, const ByteStream& stream) { return links_.works(peer, stream); },
          [this](const PeerId& peer, const ByteStream& stream, Side side) { return links_.moves(peer, stream, side); }},
      credentials_(*this, needs_.executor, needs_.clock, needs_.log, needs_.access),
      server_(server_needs(needs_, *this, methods_), options_.calls),
      client_(needs_.executor, needs_.clock, *this, needs_.random.derive("calls"), options_.calls),
      conversations_(talk_needs(needs_, *this, methods_), options_.conversations),
      peers_(needs_.random.derive("peers"), options_.peers),
      links_(links_needs(), options_.links),
      dials_(dials_needs(), options_.dial, options_.onward),
      gate_(options_.gate),
      time_(needs_.clock),
      incarnation_(needs_.random.derive("incarnation").next()),
      ticked_(needs_.clock.now()),
      looked_at_all_(ticked_),
      observed_host_(needs_.executor),
      detached_(needs_.executor),
      turned_away_(needs_.executor) {
  handle(renew_method(), credentials_.handler());
}

Links::Needs PeerEndpoint::links_needs() {
  return {needs_.executor, needs_.clock, needs_.log, self(), *this, *this, peers_};
}

Dials::Needs PeerEndpoint::dials_needs() {
  return {needs_.executor, needs_.clock, needs_.network, needs_.log, needs_.access,
          rules_,          links_,       peers_,         *this,      *this};
}

PeerEndpoint::~PeerEndpoint() {
  assert(tasks_ == nullptr && "cancel run() and wait for it before destroying an endpoint");
}

// --- time and hellos

std::int64_t PeerEndpoint::own_ms() const {
  return time_.own_ms();
}

bool PeerEndpoint::agree_on_time() {
  std::vector<SwarmTime::Skew> skews;
  for (const Connection* connection : links_.all())
    if (connection->knows_our_time()) skews.push_back({connection->skew_ms(), connection->side() == Side::dialled});
  return time_.agree(skews);
}

/// It was set while the first ones connected, who had judged it by what it said before. All that they say would look
/// old here, or to come, for as long as they stay. Who dials anew hears by how much it is wrong, or gets in.
void PeerEndpoint::part_for_clock() {
  needs_.log.warn("net.clock_is_off", {{"connections", links_.size()}});
  for (Connection* connection : links_.all()) connection->close("clock");
}

/// Of many connections one waits for the next second.
void PeerEndpoint::agree_soon() {
  if (links_.size() <= kAtOnceMax) (void)agree_on_time();
}

Hello PeerEndpoint::hello() const {
  Hello hello;
  hello.features = options_.features;
  hello.software = options_.software;
  hello.run = options_.run;
  for (const std::byte byte : credentials_.token()) hello.token.push_back(std::to_integer<char>(byte));
  hello.incarnation = incarnation_;
  hello.roles = options_.roles;
  for (const Address& address : options_.announce.empty() ? listening() : options_.announce)
    hello.listen.push_back(to_string(address));
  return hello;
}

std::optional<Refuse> PeerEndpoint::welcome(const PeerId& peer, const Hello& theirs) const {
  refresh_access(needs_, needs_.clock.now(), swarm_ms());  // a token that has just ended opens nothing
  const auto shown = needs_.access.show(peer, std::as_bytes(std::span(theirs.token)));
  if (const Decision may = needs_.access.may(peer, Claim::join); !may) return refuse_of(may, shown);
  if (leaving_) {
    Refuse refuse;
    refuse.reason = "busy";
    refuse.text = "this peer is leaving";
    refuse.number = 60'000;
    return refuse;
  }
  return std::nullopt;
}

// --- life

void PeerEndpoint::listen() {
  for (const Address& address : options_.listen) {
    auto listener = needs_.network.listen(address);
    if (listener) {
      listeners_.push_back(std::move(*listener));
      continue;
    }
    const std::string what = fmt::format("cannot listen at {}: ", to_string(address));
    const bool web = address.leg == Leg::wss;
    if (listener.error() == Errc::busy)
      throw Failure(
          ExitCode::machine, what + "the port is taken",
          fmt::format("choose another with {}, or end the program that has it", web ? "--wss-port" : "--listen"));
    if (listener.error() == Errc::denied)
      throw Failure(ExitCode::machine, what + "not allowed",
                    web ? "let this program have port 443 (CAP_NET_BIND_SERVICE), or leave out --wss-port"
                        : "choose a port above 1023 with --listen");
    throw Failure(ExitCode::usage, what + "this machine has no such address",
                  "give one that it has, or [::]:PORT for all");
  }
  options_.listen.clear();
}

std::vector<Address> PeerEndpoint::listening() const {
  std::vector<Address> all;
  for (const auto& listener : listeners_)
    if (listener->local().leg != Leg::relay) all.push_back(listener->local());
  return all;
}

Task<> PeerEndpoint::run() {
  listen();
  const auto failed = [this](std::string_view task, std::exception_ptr failure) {
    needs_.log.error("net.task_failed", {{"task", task}});
    std::rethrow_exception(std::move(failure));
  };
  struct Working {  // nobody starts a task in a group that is being stopped
    Working(PeerEndpoint& of, TaskGroup& tasks) : endpoint(of) { use(&tasks); }
    ~Working() { use(nullptr); }
    Working(const Working&) = delete;
    Working& operator=(const Working&) = delete;
    void use(TaskGroup* tasks) {
      endpoint.tasks_ = tasks;
      endpoint.server_.use(tasks);
      endpoint.dials_.use(tasks);
    }
    PeerEndpoint& endpoint;
  };
  const auto body = [this](TaskGroup& tasks) -> Task<> {
    const Working working(*this, tasks);
    time_.read_calendar();
    refresh_access(needs_, needs_.clock.now(), swarm_ms());
    tasks.spawn("renew", credentials_.run());
    for (const auto& listener : listeners_) tasks.spawn("accept", accept_loop(*listener));
    co_await tick_loop();
  };
  struct Ended {
    PeerEndpoint& endpoint;
    ~Ended() {
      for (const Connection* connection : endpoint.links_.all()) endpoint.detach(connection->streams().serial());
      for (const auto& listener : endpoint.listeners_) listener->close();
    }
  };
  const Ended ended{*this};
  auto scope = task_scope(failed, body);
  co_await std::move(scope);
}

Task<> PeerEndpoint::leave() {
  leaving_ = true;
  dials_.use(nullptr);
  for (const auto& listener : listeners_) listener->close();
  links_.leave();
  const TimePoint deadline = needs_.clock.now() + options_.links.drain_max + options_.links.connection.close_time;
  while (!links_.empty() && tasks_ != nullptr) {
    const bool in_time = co_await detached_.wait_until(needs_.clock, deadline);
    if (!in_time) break;
  }
}

Task<> PeerEndpoint::tick_loop() {
  for (;;) {
    co_await needs_.clock.sleep_until(needs_.clock.now() + options_.tick);
    tick(needs_.clock.now());
  }
}

void PeerEndpoint::tick(TimePoint now) {
  if (now - ticked_ > kStoppedTime)
    for (Connection* connection : links_.all()) connection->forgive_silence(now);
  ticked_ = now;
  if (links_.empty()) time_.read_calendar();
  if (now - looked_at_all_ >= kAllPeriod) look_at_all(now);
  if (links_.size() <= kAtOnceMax) look_at_observers();
  for (const std::uint64_t serial : std::exchange(lively_, {}))
    if (Connection* connection = links_.find(serial)) tick_connection(*connection, now);
  server_.tick(now);
  conversations_.tick(now);
  share_line();
}

/// What need not be exact: a full group has many connections on which nothing happens.
void PeerEndpoint::look_at_all(TimePoint now) {
  looked_at_all_ = now;
  const bool agreed = agree_on_time();
  if (!agreed) part_for_clock();
  doubt_stranded(links_.all(), now, needs_.log);
  check_access(now);
  links_.share_credit();
  for (const Connection* connection : links_.all()) look_soon(*connection);
  count_traffic();
  look_at_observers();
  close_unused(now);
  dials_.tidy();
  for (auto next = partners_.begin(); next != partners_.end();) {
    Partner& with = next->second;
    const bool active = links_.current(next->first) != nullptr || with.waiting > 0 || with.conversing > 0 ||
                        !with.refusals.full(now);  // who comes back does not begin anew
    next = active ? std::next(next) : partners_.erase(next);
  }
}

void PeerEndpoint::look_at_observers() {
  if (std::exchange(observers_changed_, false)) observed_host_.look(links_.all());
}

/// Somebody here waits on it, or a stream of either end is open.
bool PeerEndpoint::is_used(const Connection& connection) {
  const Partner& with = partner(connection.peer());
  return with.waiting > 0 || with.conversing > 0 || connection.streams().open_streams() > 0;
}

/// An endpoint that nobody can dial keeps its connections: others have no other way to it.
void PeerEndpoint::close_unused(TimePoint now) {
  if (leaving_ || links_.size() <= options_.connections_kept || listening().empty()) return;
  const auto all = links_.all();
  std::vector<Connection*> unused;
  for (Connection* connection : all) {
    // what was punched can be punched anew, by either end
    const bool may = connection->side() == Side::dialled || connection->is_punched();
    const bool ours = may && !connection->superseded && !connection->ending();
    const bool quiet = now - connection->last_received() >= options_.unused_after;
    if (ours && quiet && !is_used(*connection)) unused.push_back(connection);
  }
  const auto longer = [](const Connection* a, const Connection* b) { return a->last_received() < b->last_received(); };
  std::stable_sort(unused.begin(), unused.end(), longer);
  unused.resize(std::min(unused.size(), all.size() - options_.connections_kept));
  for (Connection* connection : unused) {
    links_.retire(*connection);
    look_soon(*connection);
  }
}

void PeerEndpoint::tick_connection(Connection& connection, TimePoint now) {
  if (connection.over()) return;
  Partner& with = partner(connection.peer());
  const Attention attention = with.conversing > 0 ? Attention::conversing
                              : with.waiting > 0  ? Attention::waiting
                                                  : Attention::idle;
  connection.tick(now, attention);
  if (connection.is_left(now)) {
    connection.drop("one of its ends is elsewhere now");
    peers_.may_dial_anew(connection.peer(), now);
  }
  if (std::exchange(with.floods, false)) {
    on_violation(connection, "call_flood");
    connection.close("call_flood");
  }
  if (connection.ends_soon() && !connection.superseded && !connection.ending()) renew(connection, now);
  links_.settle(connection, now);
  if (connection.is_lively()) look_soon(connection);
}

/// What is used goes on over another circuit; who has dialled this one looks for it.
void PeerEndpoint::renew(Connection& circuit, TimePoint now) {
  const bool in_vain = circuit.renewed && now - *circuit.renewed >= kNextCircuitTime;
  if (in_vain || !is_used(circuit)) return links_.retire(circuit);
  look_soon(circuit);
  if (circuit.renewed) return;
  circuit.renewed = now;
  dials_.renew(circuit);
}

void PeerEndpoint::check_access(TimePoint now) {
  refresh_access(needs_, now, swarm_ms());
  for (Connection* connection : links_.all()) {
    const Decision may = needs_.access.may(connection->peer(), Claim::join);
    if (may) continue;
    connection->turn_away(refuse_of(may, {}));
    if (may.why == Denial::token && without_token_.size() < kExpelledMax) without_token_[connection->peer()] = now;
  }
  std::erase_if(without_token_, [&](const auto& entry) { return now - entry.second > kExpelledKept; });
}

/// A peer whose token has expired here may have shown a newer one to others. One that was connected would have told us.
bool PeerEndpoint::expelled(const PeerId& peer) const {
  const Denial why = needs_.access.may(peer, Claim::join).why;
  return why == Denial::banned || (why == Denial::token && without_token_.contains(peer));
}

void PeerEndpoint::count_traffic() {
  constexpr std::array<const char*, kClasses> kNames = {"control", "latency", "bulk"};
  const Traffic total = links_.traffic();
  const auto count = [&](const char* direction, std::size_t i, std::uint64_t now, std::uint64_t& before) {
    if (now == before) return;
    needs_.metrics.add("collab_bytes_total", static_cast<double>(now - before),
                       {{"direction", direction}, {"class", kNames[i]}});
    before = now;
  };
  for (std::size_t i = 0; i < kClasses; ++i) {
    count("sent", i, total.sent[i], counted_.sent[i]);
    count("received", i, total.received[i], counted_.received[i]);
  }
}

// --- connections

Task<> PeerEndpoint::accept_loop(Listener& listener) {
  for (;;) {
    auto stream = co_await listener.accept();
    if (!stream || tasks_ == nullptr) co_return;
    auto entry = gate_.enter((*stream)->remote().host, needs_.clock.now());
    if (!entry.place) {
      refused(entry.bound, Refusal(Errc::busy, "no room for another connection"));
      continue;
    }
    tasks_->spawn("admit", admit(std::move(*stream), std::move(*entry.place)));
  }
}

Task<> PeerEndpoint::admit(std::unique_ptr<ByteStream> stream, Gate::Place place) {
  Gate::Place held = std::move(place);
  const TimePoint deadline = needs_.clock.now() + options_.handshake_time;
  auto opening = open_accepted(rules_, std::move(stream));
  auto opened = co_await with_deadline(needs_.clock, deadline, std::move(opening));
  if (!opened) {
    refused(opened.error().code == Errc::late ? "handshake_late" : "handshake", opened.error());
    co_return;
  }
  held.establish();
  if ((*opened)->moves.empty()) {
    co_await serve(attach(std::move(*opened), std::move(held)));
  } else {
    co_await move(std::move(*opened), std::move(held));
  }
}

void PeerEndpoint::refused(std::string_view reason, const Refusal& why) {
  needs_.metrics.add("collab_refused_total", 1, {{"reason", std::string(reason)}});
  needs_.log.debug("net.refused", {{"reason", reason}, {"why", why.reason}});
}

/// Its number; `serve` comes next.
std::uint64_t PeerEndpoint::attach(std::unique_ptr<Opened> opened, std::optional<Gate::Place> place) {
  Connection& connection = links_.attach(std::move(opened));
  if (place) places_.emplace(connection.streams().serial(), std::move(*place));
  look_soon(connection);
  met(connection);
  if (connection.is_circuit() && connection.side() == Side::accepted) dials_.in_return(connection);
  return connection.streams().serial();
}

/// What follows from a connection, or from where it goes now.
void PeerEndpoint::met(Connection& connection) {
  credentials_.met(connection.peer());
  const bool other_time = std::abs(connection.skew_ms() + time_.own_ms() - swarm_ms()) > kOtherTimeMs;
  if (other_time && !connection.knows_our_time()) connection.probe(needs_.clock.now());
  learn(connection);
  if (!connection.is_circuit()) {
    dials_.met(connection.peer());
    peers_.at(connection.peer(), needs_.clock.now()).direct_at = needs_.clock.now();
  }
  observers_changed_ = true;
  if (!observed_host_.host()) observed_host_.look(links_.all());
}

/// Returns when that is done, or given up. When the old way breaks before both have left it, the new one is lost with
/// it: then who has dialled it does so again, for the other end perhaps cannot.
Task<> PeerEndpoint::move(std::unique_ptr<Opened> opened, std::optional<Gate::Place> place) {
  const PeerId peer = opened->channel.peer();
  const bool again = opened->side == Side::dialled && !opened->punched;
  Address at = opened->stream->remote();
  const auto serial = links_.move(std::move(opened));
  if (!serial) {
    if (again) dials_.again(peer, std::move(at));
    co_return;
  }
  look_soon(*links_.find(*serial));
  const unsigned before = links_.find(*serial)->moves();
  const auto goes_on = [&] {
    const Connection* connection = links_.find(*serial);
    return connection != nullptr && connection->is_moving();
  };
  while (goes_on()) co_await detached_.wait();
  const Connection* connection = links_.find(*serial);
  if (connection == nullptr) {
    if (again) dials_.again(peer, std::move(at));
  } else if (connection->moves() == before) {
    needs_.log.info("net.move_given_up", {{"peer", peer.short_text()}, {"path", connection->path()}});
  } else {
    places_.erase(*serial);  // of the stream that it has left
    if (place) places_.emplace(*serial, std::move(*place));
    needs_.log.info("net.moved", {{"peer", peer.short_text()}, {"path", connection->path()}});
  }
}

Task<> PeerEndpoint::on_dialled(std::unique_ptr<Opened> opened) {
  if (!opened->moves.empty()) co_return co_await move(std::move(opened));
  tasks_->spawn("connection", serve(attach(std::move(opened))));
}

void PeerEndpoint::on_new_path(Connection& connection) {
  detached_.notify();
  if (connection.is_circuit()) return;  // it stays
  met(connection);
  on_change(connection.peer());
}

void PeerEndpoint::detach(std::uint64_t serial) {
  const Connection* const connection = links_.find(serial);
  const auto left =
      connection != nullptr && connection->is_doubted() ? std::optional(connection->peer()) : std::nullopt;
  links_.detach(serial);
  // what still dials goes where it was, and where nobody is takes its time
  if (const KnownPeer* known = left ? peers_.find(*left) : nullptr) dials_.elsewhere(*left, known->addresses);
  places_.erase(serial);
  observers_changed_ = true;
  detached_.notify();
}

/// Where the peer listens. Who comes through a relay, or was punched, was not dialled, or in vain: what it says of
/// itself is no news.
void PeerEndpoint::learn(const Connection& connection) {
  if (connection.is_circuit() || connection.is_punched()) return;
  std::vector<Address> addresses;
  for (const std::string& text : connection.theirs().listen) {
    auto address = parse_numeric_address(text);
    if (!address) continue;
    if (address->leg == Leg::relay) continue;
    if (address->host == "::" || address->host == "0.0.0.0") address->host = connection.remote().host;
    addresses.push_back(std::move(*address));
  }
  if (!addresses.empty()) peers_.introduce(connection.peer(), std::move(addresses), needs_.clock.now());
}

Task<> PeerEndpoint::serve(std::uint64_t serial) {
  struct Served {
    PeerEndpoint& endpoint;
    std::uint64_t serial;
    ~Served() { endpoint.detach(serial); }
  };
  const Served served{*this, serial};
  co_await links_.find(serial)->run();
}

void PeerEndpoint::on_superseded(Connection& connection) {
  look_soon(connection);
  conversations_.leave(connection.streams());
}

void PeerEndpoint::on_change(const PeerId& peer) {
  dials_.changed(peer);
  agree_soon();
}

void PeerEndpoint::on_heard(Connection& connection) {
  links_.heard(connection);
}

/// Few relays carry tensors: who asks for them, or brings them, has to come by such a one, or without.
bool PeerEndpoint::is_for_relays(TrafficClass traffic, const OpenHead& head) const {
  const auto* topic = std::get_if<OpenTopic>(&head);
  const MethodRow* row = methods_.find(topic != nullptr ? topic->protocol : std::get<OpenCall>(head).method);
  return traffic != TrafficClass::bulk && (row == nullptr || row->method.traffic != TrafficClass::bulk);
}

Accepted PeerEndpoint::on_open(Connection& connection, StreamHandle stream, TrafficClass traffic, OpenHead head,
                               std::size_t message_bytes) {
  const auto* topic = std::get_if<OpenTopic>(&head);
  const bool in_vain = !connection.brings_tensors() && !is_for_relays(traffic, head);
  Accepted accepted = in_vain ? Accepted(Refusal(Errc::denied, "not through a relay"))
                      : topic != nullptr
                          ? conversations_.on_open(connection.streams(), stream, traffic, *topic, message_bytes)
                          : server_.on_open(connection.streams(), stream, traffic, std::get<OpenCall>(head),
                                            message_bytes, connection.rtt());
  if (accepted && traffic == TrafficClass::bulk) links_.carries_bulk(connection);
  if (accepted) return accepted;
  Partner& with = partner(connection.peer());
  const TimePoint now = needs_.clock.now();
  if (!with.refusals.take(now)) {
    with.floods = true;  // closed at the next tick, not within its own callback
    look_soon(connection);
    with.refusals = TokenBucket(options_.refusals_per_s, options_.refusals_burst, now);
  }
  return accepted;
}

void PeerEndpoint::on_violation(Connection& connection, std::string_view rule) {
  const std::string reason(rule);
  needs_.metrics.add("collab_refused_total", 1, {{"reason", reason}});
  needs_.log.warn("net.violation", {{"peer", connection.peer().short_text()}, {"rule", reason}});
  (void)needs_.access.block(connection.peer());
}

void PeerEndpoint::on_trouble(Connection& connection, std::string_view reason) {
  needs_.metrics.add("collab_refused_total", 1, {{"reason", std::string(reason)}});
  needs_.log.info("net.trouble", {{"peer", connection.peer().short_text()}, {"reason", reason}});
}

void PeerEndpoint::on_goaway(Connection& connection, const std::string& reason) {
  needs_.log.debug("net.goaway", {{"peer", connection.peer().short_text()}, {"reason", reason.substr(0, 64)}});
  links_.said_goodbye(connection);
}

void PeerEndpoint::on_refused(Connection& connection, const Refusal& why) {
  needs_.log.warn("net.turned_away", {{"peer", connection.peer().short_text()}, {"why", why.reason}});
  peers_.failed(connection.peer(), why, needs_.clock.now());
  if (why.code == Errc::denied) turned_away_.notify();
}

// --- streams that were opened elsewhere

Task<OpenResult> PeerEndpoint::greet(std::unique_ptr<ByteStream> stream, Side side, PeerId expected,
                                     TimePoint deadline) {
  OpeningRules rules = rules_;
  rules.connected = {};  // who does this has his reasons, connected or not
  auto opening = side == Side::dialled ? open_dialled(rules, std::move(stream), expected, dials_.next_attempt())
                                       : open_accepted(rules, std::move(stream));
  auto opened = co_await with_deadline(needs_.clock, deadline, std::move(opening));
  if (opened && (*opened)->channel.peer() != expected) co_return Refusal(Errc::denied, "somebody else is there");
  co_return opened;
}

Task<bool> PeerEndpoint::adopt(std::unique_ptr<Opened> opened) {
  if (tasks_ == nullptr || leaving_) co_return false;
  auto entry = gate_.enter(opened->stream->remote().host, needs_.clock.now());
  if (!entry.place) {
    refused(entry.bound, Refusal(Errc::busy, "no room for another connection"));
    co_return false;
  }
  entry.place->establish();
  if (!opened->moves.empty()) {
    co_await move(std::move(opened), std::move(*entry.place));
    co_return true;
  }
  const bool dialled = opened->side == Side::dialled;
  const std::uint64_t serial = attach(std::move(opened), std::move(entry.place));
  if (dialled) links_.find(serial)->probe(needs_.clock.now());  // the other end uses it once it has heard something
  tasks_->spawn("connection", serve(serial));
  co_return true;
}

Multiplexer* PeerEndpoint::find(std::uint64_t serial) {
  Connection* connection = links_.find(serial);
  return connection == nullptr || connection->over() ? nullptr : &connection->streams();
}

Duration PeerEndpoint::rtt_least(std::uint64_t serial) const {
  const Connection* connection = links_.find(serial);
  return connection == nullptr ? Duration::zero() : connection->rtt_least();
}

PeerEndpoint::Partner& PeerEndpoint::partner(const PeerId& peer) {
  if (const auto known = partners_.find(peer); known != partners_.end()) return known->second;
  const TokenBucket refusals(options_.refusals_per_s, options_.refusals_burst, needs_.clock.now());
  return partners_.emplace(peer, Partner{0, 0, refusals, false}).first->second;
}

void PeerEndpoint::waits(const PeerId& peer, int change) {
  partner(peer).waiting += change;
  if (change > 0) look_soon(peer);
}

void PeerEndpoint::converses(const PeerId& peer, int change) {
  partner(peer).conversing += change;
  if (change > 0) look_soon(peer);
}

void PeerEndpoint::share_line() {
  links_.share_line(conversations_.flows());
}

void PeerEndpoint::probe(const PeerId& peer) {
  if (Connection* connection = links_.current(peer)) connection->probe(needs_.clock.now());
}

void PeerEndpoint::look_soon(const PeerId& peer) {
  if (const Connection* connection = links_.current(peer)) look_soon(*connection);
}

// --- Endpoint

void PeerEndpoint::handle(Method method, Handler handler) {
  assert(tasks_ == nullptr && "before the node starts");
  methods_.add(std::move(method), std::move(handler));
}

void PeerEndpoint::allow_conversation(Method protocol) {
  assert(tasks_ == nullptr && "before the node starts");
  methods_.add(std::move(protocol), Handler());
}

Task<Answer> PeerEndpoint::call(PeerId to, std::string_view method, Frame request, TimePoint deadline) {
  const MethodRow* row = methods_.find(method);
  Method known;
  if (row != nullptr) known = row->method;
  if (row == nullptr) {
    known.name = method;
    known.answer_bytes_max = kMessageBytesMax;
  }
  if (to != self()) co_return co_await client_.call(to, std::move(known), std::move(request), deadline);
  if (row == nullptr || !row->handler) co_return Refusal(Errc::bad_request, "no such method");
  auto answer = row->handler(to, std::move(request), deadline);
  co_return co_await with_deadline(needs_.clock, deadline, std::move(answer));
}

std::unique_ptr<Conversation> PeerEndpoint::converse(std::string_view protocol, const Topic& topic,
                                                     std::vector<PeerId> members) {
  return conversations_.open(protocol, topic, std::move(members));
}

LinkState PeerEndpoint::link(const PeerId& peer) const {
  return links_.state(peer);
}

void PeerEndpoint::introduce(const PeerId& peer, std::vector<Address> addresses) {
  const auto is_relay = [](const Address& address) { return address.leg == Leg::relay; };
  std::erase_if(addresses, is_relay);  // not the peer's own place
  if (peer == self()) return;
  const KnownPeer* known = peers_.find(peer);
  std::vector<Address> news = addresses;
  const auto is_old = [&](const Address& one) {
    return std::find(known->addresses.begin(), known->addresses.end(), one) != known->addresses.end();
  };
  if (known != nullptr) std::erase_if(news, is_old);
  Connection* const current = links_.current(peer);
  if (current != nullptr && known != nullptr && has_left(*current, known->addresses, addresses)) {
    current->doubt(needs_.clock.now());
    look_soon(*current);
  }
  peers_.introduce(peer, std::move(addresses), needs_.clock.now());
  dials_.elsewhere(peer, std::move(news));
}

void PeerEndpoint::introduce_relays(const PeerId& peer, std::vector<Address> relays) {
  if (peer != self()) peers_.introduce_relays(peer, std::move(relays), needs_.clock.now());
}

bool PeerEndpoint::can_reach(const PeerId& peer) const {
  if (const Connection* current = links_.current(peer); current != nullptr && current->carries_tensors()) return true;
  const KnownPeer* known = peers_.find(peer);
  return known != nullptr && !known->addresses.empty();
}

std::vector<PeerId> PeerEndpoint::tensor_relays() const {
  std::vector<PeerId> relays;
  if (!options_.onward) return relays;
  for (const Address& at : options_.onward()) relays.push_back(at.relay);
  return relays;
}

std::vector<PeerId> PeerEndpoint::connected() const {
  return links_.connected();
}

std::optional<std::int64_t> PeerEndpoint::skew_ms(const PeerId& peer) const {
  const Connection* connection = links_.current(peer);
  return connection == nullptr ? std::nullopt : std::optional(connection->skew_ms());
}

std::string_view PeerEndpoint::way_out() const {
  std::string_view barest;
  for (const Connection* connection : links_.all()) {
    if (connection->side() != Side::dialled || connection->is_circuit() || connection->is_punched()) continue;
    const std::string_view path = connection->path();
    if (barest.empty() || path.size() < barest.size()) barest = path;  // what is added to the way is added to its name
    if (path == "tcp") return path;
  }
  return barest;
}

std::optional<Address> PeerEndpoint::remote_of(const PeerId& peer) const {
  const Connection* connection = links_.current(peer);
  if (connection == nullptr || connection->is_circuit() || connection->is_punched()) return std::nullopt;
  return connection->remote();
}

std::optional<Address> PeerEndpoint::local_of(const PeerId& peer) const {
  const Connection* connection = links_.current(peer);
  if (connection == nullptr || connection->is_circuit() || connection->is_punched()) return std::nullopt;
  return connection->local();
}

std::optional<PeerId> PeerEndpoint::relay_of(const PeerId& peer) const {
  const Connection* connection = links_.current(peer);
  if (connection == nullptr || !connection->is_circuit()) return std::nullopt;
  return connection->remote().relay;
}

}  // namespace collab::net
