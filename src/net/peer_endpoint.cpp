#include "net/peer_endpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <set>
#include <utility>

namespace collab::net {
namespace {

constexpr Duration kAccessPeriod = std::chrono::seconds(1);
constexpr Duration kStoppedTime = std::chrono::seconds(2);  // a tick this late: the process did not run

CallServer::Needs server_needs(const PeerEndpoint::Needs& needs, Paths& paths, const MethodTable& methods) {
  return {needs.executor, needs.clock, paths, needs.access, needs.log, needs.metrics, methods};
}

Conversations::Needs talk_needs(const PeerEndpoint::Needs& needs, Paths& paths, const MethodTable& methods) {
  return {needs.executor, needs.clock, paths, needs.access, needs.metrics, methods, needs.identity.id()};
}

}  // namespace

PeerEndpoint::PeerEndpoint(const Needs& needs, EndpointOptions options)
    : needs_(needs),
      options_(std::move(options)),
      tls_(needs_.identity),
      rules_{tls_,
             [this] { return hello(); },
             [this] { return swarm_ms(); },
             [this] { return own_ms(); },
             [this](const PeerId& peer, const Hello& theirs) { return welcome(peer, theirs); },
             [this](const PeerId& peer) { return works(peer); }},
      server_(server_needs(needs_, *this, methods_), options_.calls),
      client_(needs_.executor, needs_.clock, *this, needs_.random.derive("calls"), options_.calls),
      conversations_(talk_needs(needs_, *this, methods_), options_.conversations),
      peers_(needs_.random.derive("peers"), options_.peers),
      gate_(options_.gate),
      incarnation_(needs_.random.derive("incarnation").next()),
      unix_at_start_(needs_.clock.unix_ms()),
      started_(needs_.clock.now()),
      ticked_(started_),
      access_checked_(started_),
      receive_left_(options_.receive_bytes_max),
      detached_(needs_.executor) {}

PeerEndpoint::~PeerEndpoint() {
  assert(tasks_ == nullptr && "cancel run() and wait for it before destroying an endpoint");
}

// --- time and hellos

std::int64_t PeerEndpoint::own_ms() const {
  const Duration since = needs_.clock.now() - started_;
  return unix_at_start_ + std::chrono::duration_cast<std::chrono::milliseconds>(since).count();
}

/// While nobody is connected there is no swarm time to keep steady: a calendar that was corrected, or went on while
/// this machine slept, is believed. Else a node that slept for a minute could never join again.
void PeerEndpoint::read_calendar(TimePoint now) {
  const Duration since = now - started_;
  unix_at_start_ = needs_.clock.unix_ms() - std::chrono::duration_cast<std::chrono::milliseconds>(since).count();
}

std::int64_t PeerEndpoint::swarm_ms() const {
  std::vector<std::int64_t> skews(1, 0);  // our own
  for (const auto& [serial, attached] : attached_) skews.push_back(attached.connection->skew_ms());
  const auto middle = skews.begin() + static_cast<std::ptrdiff_t>((skews.size() - 1) / 2);
  std::nth_element(skews.begin(), middle, skews.end());
  return own_ms() + std::clamp(*middle, -kSkewMaxMs, kSkewMaxMs);
}

Hello PeerEndpoint::hello() const {
  Hello hello;
  hello.features = options_.features;
  hello.software = options_.software;
  hello.run = options_.run;
  hello.incarnation = incarnation_;
  hello.roles = options_.roles;
  for (const Address& address : options_.announce.empty() ? listening() : options_.announce)
    hello.listen.push_back(to_string(address));
  return hello;
}

std::optional<Refuse> PeerEndpoint::welcome(const PeerId& peer, const Hello&) const {
  Refuse refuse;
  if (const Decision may = needs_.access.may(peer, Claim::join); !may) {
    refuse.reason = "banned";
    refuse.text = may.reason;
    return refuse;
  }
  if (leaving_) {
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
    if (listener.error() == Errc::busy)
      throw Failure(ExitCode::machine, what + "the port is taken",
                    "choose another with --listen, or end the program that has it");
    if (listener.error() == Errc::denied)
      throw Failure(ExitCode::machine, what + "not allowed", "choose a port above 1023 with --listen");
    throw Failure(ExitCode::usage, what + "this machine has no such address",
                  "give one that it has, or [::]:PORT for all");
  }
  options_.listen.clear();
}

std::vector<Address> PeerEndpoint::listening() const {
  std::vector<Address> all;
  for (const auto& listener : listeners_) all.push_back(listener->local());
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
    }
    PeerEndpoint& endpoint;
  };
  const auto body = [this](TaskGroup& tasks) -> Task<> {
    const Working working(*this, tasks);
    (void)needs_.access.refresh(needs_.clock.now());
    read_calendar(needs_.clock.now());
    for (const auto& listener : listeners_) tasks.spawn("accept", accept_loop(*listener));
    co_await tick_loop();
  };
  struct Ended {
    PeerEndpoint& endpoint;
    ~Ended() {
      while (!endpoint.attached_.empty()) endpoint.detach(endpoint.attached_.begin()->first);
      for (const auto& listener : endpoint.listeners_) listener->close();
    }
  };
  const Ended ended{*this};
  auto scope = task_scope(failed, body);
  co_await std::move(scope);
}

Task<> PeerEndpoint::leave() {
  leaving_ = true;
  for (const auto& listener : listeners_) listener->close();
  GoawayHead head;
  head.reason = "leaving";
  for (auto& [serial, attached] : attached_) {
    attached.connection->streams().send_connection_frame(FrameType::goaway, encode_head(head));
    supersede(*attached.connection);
  }
  const TimePoint deadline = needs_.clock.now() + options_.drain_max + options_.connection.close_time;
  while (!attached_.empty() && tasks_ != nullptr) {
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
    for (auto& [serial, attached] : attached_) attached.connection->forgive_silence(now);
  ticked_ = now;
  if (attached_.empty()) read_calendar(now);
  if (now - access_checked_ >= kAccessPeriod) check_access(now);
  for (auto& [serial, attached] : attached_) tick_connection(*attached.connection, now);
  server_.tick(now);
  conversations_.tick(now);
  count_traffic();
  std::erase_if(partners_, [now](const auto& entry) {
    const Partner& partner = entry.second;
    return partner.current == nullptr && !partner.dialling && partner.waiting == 0 && partner.conversing == 0 &&
           partner.refusals.full(now);  // who comes back does not begin anew
  });
}

void PeerEndpoint::tick_connection(Connection& connection, TimePoint now) {
  if (connection.over()) return;
  const Partner& with = partner(connection.peer());
  const Attention attention = with.conversing > 0 ? Attention::conversing
                              : with.waiting > 0  ? Attention::waiting
                                                  : Attention::idle;
  connection.tick(now, attention);
  if (std::exchange(partner(connection.peer()).floods, false)) {
    on_violation(connection, "call_flood");
    connection.close("call_flood");
  }
  if (!connection.superseded || still_needed(connection, now)) return;
  const Duration drained = now - *connection.superseded;
  const bool quiet = connection.streams().open_streams() == 0 && (leaving_ || drained >= options_.drain_min);
  if (quiet || drained >= options_.drain_max) connection.close(leaving_ ? "leaving" : "duplicate");
}

void PeerEndpoint::check_access(TimePoint now) {
  access_checked_ = now;
  if (const auto reloaded = needs_.access.refresh(now)) {
    if (reloaded->problem.empty()) {
      needs_.log.info("net.allow_list", {{"peers", reloaded->peers}});
    } else {
      needs_.log.warn("net.allow_list_refused", {{"problem", reloaded->problem}});
    }
  }
  for (auto& [serial, attached] : attached_) {
    const Decision may = needs_.access.may(attached.connection->peer(), Claim::join);
    if (!may) attached.connection->close("not allowed any more: " + may.reason);
  }
}

void PeerEndpoint::count_traffic() {
  constexpr std::array<const char*, kClasses> kNames = {"control", "latency", "bulk"};
  Traffic total = finished_;
  for (const auto& [serial, attached] : attached_) {
    const Traffic& traffic = attached.connection->streams().traffic();
    for (std::size_t i = 0; i < kClasses; ++i) {
      total.sent[i] += traffic.sent[i];
      total.received[i] += traffic.received[i];
    }
  }
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
  const std::uint64_t serial = attach(std::move(*opened)).streams().serial();
  co_await serve(serial);
}

void PeerEndpoint::refused(std::string_view reason, const Refusal& why) {
  needs_.metrics.add("collab_refused_total", 1, {{"reason", std::string(reason)}});
  needs_.log.debug("net.refused", {{"reason", reason}, {"why", why.reason}});
}

Connection& PeerEndpoint::attach(std::unique_ptr<Opened> opened) {
  const std::uint64_t serial = next_serial_++;
  Attached& fresh = attached_[serial];
  fresh.since = needs_.clock.now();
  ConnectionOwner& owner = *this;
  fresh.connection = std::make_unique<Connection>(needs_.executor, needs_.clock, owner, serial, std::move(opened),
                                                  options_.connection);
  Connection& connection = *fresh.connection;
  fresh.credit = std::min(receive_left_ / 4, options_.receive_of_connection_max);
  receive_left_ -= fresh.credit;
  if (fresh.credit > 0) connection.streams().widen_connection(TrafficClass::bulk, fresh.credit);

  Connection* old = current(connection.peer());
  if (old == nullptr || (connection.confirmed() && is_better(connection, *old))) {
    use(connection);
  } else {
    supersede(connection);
    old->probe(needs_.clock.now());  // why would the peer dial again?
  }
  learn(connection);
  observe_self();
  const bool dialled = connection.side() == Side::dialled;
  needs_.log.info("net.connected", {{"peer", connection.peer().short_text()},
                                    {"side", dialled ? "dialled" : "accepted"},
                                    {"software", connection.theirs().software}});
  return connection;
}

/// Who dialled may have given up meanwhile: only now may its connection take another's place.
void PeerEndpoint::on_heard(Connection& connection) {
  const Connection* old = current(connection.peer());
  if (old == nullptr || old == &connection || !attached_.at(connection.streams().serial()).spare) return;
  if (is_better(connection, *old)) use(connection);
}

/// Of two connections of a pair both ends keep the same one: that which the lower id dialled; of two that one end
/// dialled the later; after a restart of the peer only the new one means anything. One whose other end seems gone
/// loses.
bool PeerEndpoint::is_better(const Connection& fresh, const Connection& old) const {
  if (old.over() || old.is_doubtful(needs_.clock.now()) || fresh.theirs().incarnation != old.theirs().incarnation)
    return true;
  if (fresh.side() == old.side()) return fresh.attempt() > old.attempt();
  const bool we_are_lower = self() < fresh.peer();
  return (fresh.side() == Side::dialled) == we_are_lower;
}

/// New streams go there from now on. What had the place before drains, and comes back should this one break first.
void PeerEndpoint::use(Connection& connection) {
  Partner& with = partner(connection.peer());
  Connection* old = std::exchange(with.current, &connection);
  connection.superseded.reset();
  attached_.at(connection.streams().serial()).spare = false;
  if (old != nullptr) supersede(*old);
  with.changed.notify();
}

void PeerEndpoint::supersede(Connection& connection) {
  if (connection.superseded) return;
  connection.superseded = needs_.clock.now();
  attached_.at(connection.streams().serial()).spare = true;
  Partner& with = partner(connection.peer());
  if (with.current == &connection) with.current = nullptr;
  conversations_.leave(connection.streams());
}

/// When the connection in use is gone, the best of the others serves: the same one at both ends.
bool PeerEndpoint::promote_spare(const PeerId& peer) {
  if (leaving_) return false;
  Connection* best = nullptr;
  for (auto& [serial, attached] : attached_) {
    Connection& connection = *attached.connection;
    if (!attached.spare || connection.ending() || connection.peer() != peer) continue;
    const bool surer = best == nullptr || connection.confirmed() > best->confirmed();
    if (surer || (connection.confirmed() == best->confirmed() && is_better(connection, *best))) best = &connection;
  }
  if (best != nullptr) use(*best);
  return best != nullptr;
}

/// Whether there is a connection that another would only duplicate.
bool PeerEndpoint::works(const PeerId& peer) {
  Connection* connection = current(peer);
  if (connection == nullptr || connection->ending() || connection->is_doubtful(needs_.clock.now())) return false;
  connection->probe(needs_.clock.now());  // else the next dial knows better
  return true;
}

/// Whether this spare takes over from one whose other end is gone, or may have to.
bool PeerEndpoint::still_needed(Connection& spare, TimePoint now) {
  Connection* old = current(spare.peer());
  if (leaving_ || old == nullptr || !attached_.at(spare.streams().serial()).spare) return false;
  if (old->last_received() >= *spare.superseded) return false;
  if (!old->is_doubtful(now)) return true;  // it has been asked
  supersede(*old);
  old->drop("the peer has another connection");
  return promote_spare(spare.peer());
}

/// Where the peer listens.
void PeerEndpoint::learn(const Connection& connection) {
  std::vector<Address> addresses;
  for (const std::string& text : connection.theirs().listen) {
    auto address = parse_numeric_address(text);
    if (!address) continue;
    if (address->host == "::" || address->host == "0.0.0.0") address->host = connection.remote().host;
    addresses.push_back(std::move(*address));
  }
  if (!addresses.empty()) peers_.introduce(connection.peer(), std::move(addresses), needs_.clock.now());
}

void PeerEndpoint::observe_self() {
  std::map<std::string, std::set<std::string>> named_by;  // hosts of the tellers, so that one machine is one voice
  for (const auto& [serial, attached] : attached_)
    if (const auto seen = parse_numeric_address(attached.connection->theirs().observed))
      named_by[seen->host].insert(attached.connection->remote().host);
  const auto fewer = [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); };
  const auto most = std::max_element(named_by.begin(), named_by.end(), fewer);
  if (most != named_by.end() && (most->second.size() >= 2 || named_by.size() == 1)) observed_host_ = most->first;
}

Task<> PeerEndpoint::serve(std::uint64_t serial) {
  struct Served {
    PeerEndpoint& endpoint;
    std::uint64_t serial;
    ~Served() { endpoint.detach(serial); }
  };
  const Served served{*this, serial};
  co_await attached_.at(serial).connection->run();
}

void PeerEndpoint::detach(std::uint64_t serial) {
  const auto found = attached_.find(serial);
  if (found == attached_.end()) return;
  Connection& connection = *found->second.connection;
  connection.drop("the endpoint ended");
  connection.streams().lose();
  const TimePoint now = needs_.clock.now();
  const PeerId peer = connection.peer();
  KnownPeer& known = peers_.at(peer, now);
  const Traffic& traffic = connection.streams().traffic();
  for (std::size_t i = 0; i < kClasses; ++i) {
    known.bytes_sent += traffic.sent[i];
    known.bytes_received += traffic.received[i];
    finished_.sent[i] += traffic.sent[i];
    finished_.received[i] += traffic.received[i];
  }
  known.rtt = connection.rtt();
  known.rtt_deviation = connection.rtt_deviation();
  known.up_bytes_per_s = connection.up_bytes_per_s();
  known.down_bytes_per_s = connection.down_bytes_per_s();
  peers_.lost(peer, found->second.since, now);
  if (connection.fell_silent()) peers_.failed(peer, Refusal(Errc::gone, "it fell silent"), now);
  receive_left_ += found->second.credit;
  needs_.log.info("net.disconnected", {{"peer", peer.short_text()}, {"reason", connection.reason()}});
  Partner& with = partner(peer);
  if (with.current == &connection) with.current = nullptr;
  attached_.erase(found);
  observe_self();
  if (with.current == nullptr) (void)promote_spare(peer);
  with.changed.notify();
  detached_.notify();
}

Accepted PeerEndpoint::on_open(Connection& connection, StreamHandle stream, TrafficClass traffic, OpenHead head,
                               std::size_t message_bytes) {
  const auto* topic = std::get_if<OpenTopic>(&head);
  Accepted accepted = topic != nullptr ? conversations_.on_open(connection.streams(), stream, traffic, *topic)
                                       : server_.on_open(connection.streams(), stream, traffic,
                                                         std::get<OpenCall>(head), message_bytes, connection.rtt());
  if (accepted) return accepted;
  Partner& with = partner(connection.peer());
  const TimePoint now = needs_.clock.now();
  if (!with.refusals.take(now)) {
    with.floods = true;  // closed at the next tick, not within its own callback
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
  supersede(connection);
  attached_.at(connection.streams().serial()).spare = false;
  if (current(connection.peer()) == nullptr) (void)promote_spare(connection.peer());
}

// --- dialling

Task<Reached> PeerEndpoint::reach(PeerId peer, TimePoint deadline) {
  for (bool dialled = false;; dialled = true) {
    Partner& with = partner(peer);
    if (with.current != nullptr) co_return &with.current->streams();
    const TimePoint now = needs_.clock.now();
    if (now >= deadline) co_return Refusal(Errc::late);
    if (!with.dialling) {
      if (tasks_ == nullptr || leaving_) co_return Refusal(Errc::gone, "this node is not running");
      const KnownPeer* known = peers_.find(peer);
      if (dialled && known != nullptr) co_return known->refused;
      if (known == nullptr || known->addresses.empty())
        co_return Refusal(Errc::gone, "no address of this peer is known");
      if (!peers_.may_dial(peer, now)) co_return known->refused;
      with.dialling = true;
      tasks_->spawn("dial", dial(peer, known->addresses, next_attempt_++));
    }
    const WaitsFor waits(*this, peer);
    while (with.dialling && with.current == nullptr) {
      const bool in_time = co_await with.changed.wait_until(needs_.clock, deadline);
      if (!in_time && with.current == nullptr) co_return Refusal(Errc::late);
    }
  }
}

Task<> PeerEndpoint::dial(PeerId peer, std::vector<Address> addresses, std::uint64_t attempt) {
  struct Dialling {
    Partner& with;
    ~Dialling() {
      with.dialling = false;
      with.changed.notify();
    }
  };
  const Dialling dialling{partner(peer)};
  auto opened =
      co_await dial_any(needs_.network, needs_.clock, rules_, std::move(addresses), peer, attempt, options_.dial);
  if (tasks_ == nullptr || leaving_) co_return;   // too late: leave() has said goodbye to all
  if (opened && (*opened)->redundant) co_return;  // the peer has dialled us meanwhile
  if (opened) {
    tasks_->spawn("connection", serve(attach(std::move(*opened)).streams().serial()));
    co_return;
  }
  Refusal why = opened.error();
  if (why.code == Errc::late) why = Refusal(Errc::gone, "it does not answer");  // `late` is for the caller's deadline
  needs_.log.debug("net.dial_failed", {{"peer", peer.short_text()}, {"why", why.reason}});
  peers_.failed(peer, std::move(why), needs_.clock.now());
}

Task<boost::system::result<PeerId, Refusal>> PeerEndpoint::connect(Address address, TimePoint deadline) {
  if (tasks_ == nullptr || leaving_) co_return Refusal(Errc::gone, "this node is not running");
  std::vector<Address> addresses(1, std::move(address));
  auto dialling = dial_any(needs_.network, needs_.clock, rules_, std::move(addresses), std::nullopt, next_attempt_++,
                           options_.dial);
  auto opened = co_await with_deadline(needs_.clock, deadline, std::move(dialling));
  if (!opened) co_return opened.error();
  if (tasks_ == nullptr || leaving_) co_return Refusal(Errc::gone, "this node is not running");
  if ((*opened)->redundant) co_return (*opened)->channel.peer();
  Connection& connection = attach(std::move(*opened));
  const PeerId peer = connection.peer();
  tasks_->spawn("connection", serve(connection.streams().serial()));
  co_return peer;
}

Multiplexer* PeerEndpoint::find(std::uint64_t serial) {
  const auto found = attached_.find(serial);
  return found == attached_.end() || found->second.connection->over() ? nullptr : &found->second.connection->streams();
}

PeerEndpoint::Partner& PeerEndpoint::partner(const PeerId& peer) {
  const TokenBucket refusals(options_.refusals_per_s, options_.refusals_burst, needs_.clock.now());
  return partners_.try_emplace(peer, needs_.executor, refusals).first->second;
}

void PeerEndpoint::waits(const PeerId& peer, int change) {
  partner(peer).waiting += change;
}

void PeerEndpoint::converses(const PeerId& peer, int change) {
  partner(peer).conversing += change;
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

std::unique_ptr<Conversation> PeerEndpoint::converse(std::string_view protocol, const Digest& topic,
                                                     std::vector<PeerId> members) {
  return conversations_.open(protocol, topic, std::move(members));
}

Connection* PeerEndpoint::current(const PeerId& peer) const {
  const auto found = partners_.find(peer);
  return found == partners_.end() ? nullptr : found->second.current;
}

LinkState PeerEndpoint::link(const PeerId& peer) const {
  LinkState state;
  if (const KnownPeer* known = peers_.find(peer)) {
    state.lost_at = known->lost_at;
    state.rtt = known->rtt;
    state.rtt_deviation = known->rtt_deviation;
    state.up_bytes_per_s = known->up_bytes_per_s;
    state.down_bytes_per_s = known->down_bytes_per_s;
    state.bytes_sent = known->bytes_sent;
    state.bytes_received = known->bytes_received;
  }
  const Connection* connection = current(peer);
  if (connection == nullptr) return state;
  state.connected = true;
  state.last_received = connection->last_received();
  if (connection->rtt() > Duration::zero()) {
    state.rtt = connection->rtt();
    state.rtt_deviation = connection->rtt_deviation();
  }
  if (connection->up_bytes_per_s() > 0) state.up_bytes_per_s = connection->up_bytes_per_s();
  if (connection->down_bytes_per_s() > 0) state.down_bytes_per_s = connection->down_bytes_per_s();
  const Traffic& traffic = connection->streams().traffic();
  for (std::size_t i = 0; i < kClasses; ++i) {
    state.bytes_sent += traffic.sent[i];
    state.bytes_received += traffic.received[i];
  }
  return state;
}

void PeerEndpoint::introduce(const PeerId& peer, std::vector<Address> addresses) {
  if (peer != self()) peers_.introduce(peer, std::move(addresses), needs_.clock.now());
}

bool PeerEndpoint::can_reach(const PeerId& peer) const {
  if (current(peer) != nullptr) return true;
  const KnownPeer* known = peers_.find(peer);
  return known != nullptr && !known->addresses.empty();
}

std::vector<PeerId> PeerEndpoint::connected() const {
  std::vector<PeerId> all;
  for (const auto& [peer, with] : partners_)
    if (with.current != nullptr) all.push_back(peer);
  return all;
}

std::optional<Address> PeerEndpoint::remote_of(const PeerId& peer) const {
  const Connection* connection = current(peer);
  return connection == nullptr ? std::nullopt : std::optional(connection->remote());
}

}  // namespace collab::net
