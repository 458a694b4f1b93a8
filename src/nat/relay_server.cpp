#include "nat/relay_server.hpp"

#include "base/frame.hpp"
#include "nat/circuit_network.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace collab::nat {
namespace {

constexpr std::array<std::string_view, 3> kModes = {"off", "signal", "bulk"};
constexpr std::size_t kBurstBytes = wire::kCircuitFrameBytesMax;
constexpr Duration kSayTime = std::chrono::milliseconds(500);  // for a word to an end that may not read
constexpr Duration kPayAtLeast = std::chrono::milliseconds(1);

/// What `request` asks, or nothing.
template <class Question>
std::optional<Question> asked_in(const Frame& request) {
  auto message = frame::decode<wire::RelayHeader>(*request);
  if (!message) return std::nullopt;
  if (auto* question = std::get_if<Question>(&message->header)) return std::move(*question);
  return std::nullopt;
}

std::uint32_t whole_seconds(Duration time) {
  return static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::seconds>(time).count());
}

std::uint64_t ms_of(Duration time) {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
}

Frame end_because(std::string_view reason) {
  wire::End end;
  end.reason = reason;
  return frame::encode(wire::CircuitHeader(std::move(end)));
}

net::TokenBucket rate_of_all(const RelayServer::Quota& quota, TimePoint now) {
  return net::TokenBucket(quota.bytes_per_s_of_all, std::max(double(kBurstBytes), quota.bytes_per_s_of_all / 20), now);
}

/// When what comes may go, in the order in which it comes: of two directions that ask for the same rate neither
/// starves.
struct Pace {
  double bytes_per_s;
  TimePoint free{};

  TimePoint turn(std::size_t bytes, TimePoint now) {
    const Duration burst = from_seconds(double(kBurstBytes) / bytes_per_s);
    const TimePoint begins = std::max(free, now - burst);
    free = begins + from_seconds(static_cast<double>(bytes) / bytes_per_s);
    return free;
  }
};

}  // namespace

std::string_view name(RelayMode mode) noexcept {
  return kModes[static_cast<std::size_t>(mode)];
}

std::optional<RelayMode> relay_mode_named(std::string_view name) noexcept {
  const auto found = std::find(kModes.begin(), kModes.end(), name);
  if (found == kModes.end()) return std::nullopt;
  return static_cast<RelayMode>(found - kModes.begin());
}

struct RelayServer::Circuit {
  Circuit(RelayServer& server, const PeerId& from, const wire::Connect& ask, wire::CircuitClass its_class)
      : which(its_class),
        quota(server.quota(its_class)),
        pace{quota.bytes_per_s},
        asker(server.needs_.endpoint, server.needs_.topics,
              wire::circuit_topic(ask.id, from.key, wire::CircuitEnd::asker), from, its_class),
        asked(server.needs_.endpoint, server.needs_.topics,
              wire::circuit_topic(ask.id, from.key, wire::CircuitEnd::asked), PeerId{ask.peer}, its_class),
        networks{server.network_of(from), server.network_of(PeerId{ask.peer})},
        changed(server.needs_.executor) {}

  void end(std::string_view why) {
    if (over.empty()) over = why;
    changed.notify();
  }
  bool has(const PeerId& peer) const { return asker.with == peer || asked.with == peer; }
  bool touches(const std::string& network) const { return networks[0] == network || networks[1] == network; }
  std::uint64_t most_carried() const { return std::max(from_asker, from_asked); }

  wire::CircuitClass which;
  Quota quota;
  Pace pace;
  CircuitLine asker;
  CircuitLine asked;
  std::array<std::string, 2> networks;  ///< of both ends; empty: unknown
  std::uint64_t from_asker = 0;         ///< bytes
  std::uint64_t from_asked = 0;
  bool agreed = false;  ///< the asked end has taken it
  std::string over;     ///< why it ends; empty: it does not
  Signal changed;
};

RelayServer::RelayServer(Needs needs, const Options& options)
    : needs_(std::move(needs)),
      options_(options),
      signal_rate_(rate_of_all(options.signal, needs_.clock.now())),
      bulk_rate_(rate_of_all(options.bulk, needs_.clock.now())),
      reserved_(needs_.executor) {
  const auto reserve = [this](PeerId from, Frame request, TimePoint) -> Task<net::Answer> {
    co_return on_reserve(from, request);
  };
  const auto release = [this](PeerId from, Frame request, TimePoint) -> Task<net::Answer> {
    co_return on_release(from, request);
  };
  const auto connect = [this](PeerId from, Frame request, TimePoint deadline) {
    return on_connect(from, std::move(request), deadline);
  };
  const auto whence = [this](PeerId from, Frame request, TimePoint) -> Task<net::Answer> {
    co_return on_whence(from, request);
  };
  needs_.endpoint.handle(relay_method("relay.whence"), whence);
  needs_.endpoint.handle(relay_method("relay.reserve"), reserve);
  needs_.endpoint.handle(relay_method("relay.release"), release);
  needs_.endpoint.handle(relay_method("relay.connect"), connect);
}

Task<> RelayServer::run() {
  struct Working {
    Working(RelayServer& of, TaskGroup& tasks) : server(of) { server.tasks_ = &tasks; }
    ~Working() { server.tasks_ = nullptr; }
    Working(const Working&) = delete;
    Working& operator=(const Working&) = delete;
    RelayServer& server;
  };
  const auto body = [this](TaskGroup& tasks) -> Task<> {
    const Working working(*this, tasks);
    for (;;) {
      while (reservations_.empty()) (void)co_await reserved_.wait();
      co_await needs_.clock.sleep_until(needs_.clock.now() + options_.sweep);
      sweep();
    }
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
}

/// Those who hang up lose their reservation.
void RelayServer::sweep() {
  if (reservations_.empty()) return;
  const bool may_lead = needs_.can_be_dialled();
  const auto is_over = [&](const auto& entry) { return !may_lead || !is_reserved(entry.first); };
  if (std::erase_if(reservations_, is_over) > 0) count();
}

void RelayServer::count() {
  needs_.metrics.set("collab_relay_reservations", static_cast<double>(reservations_.size()));
  needs_.metrics.set("collab_relay_circuits", static_cast<double>(circuits_.size()));
}

const RelayServer::Quota& RelayServer::quota(wire::CircuitClass which) const {
  return which == wire::CircuitClass::bulk ? options_.bulk : options_.signal;
}

std::optional<Refusal> RelayServer::refuses(const PeerId& from) const {
  if (options_.mode == RelayMode::off || tasks_ == nullptr) return Refusal(Errc::denied, "this peer relays nothing");
  if (!needs_.can_be_dialled()) return Refusal(Errc::denied, "nobody can dial this peer, so it leads nowhere");
  if (!is_direct(needs_.endpoint.link(from))) return Refusal(Errc::denied, "no circuit over a circuit");
  return std::nullopt;
}

// --- reservations

bool RelayServer::is_reserved(const PeerId& peer) const {
  const auto found = reservations_.find(peer);
  return found != reservations_.end() && needs_.clock.now() < found->second.until &&
         is_direct(needs_.endpoint.link(peer));
}

/// To whom others can dial: who asks would be at his place himself, were it not for the network between.
bool RelayServer::leads_onward(const wire::Connect& ask) const {
  return options_.mode == RelayMode::bulk && ask.best_class == static_cast<std::uint8_t>(wire::CircuitClass::bulk) &&
         needs_.endpoint.can_reach(PeerId{ask.peer});
}

net::Answer RelayServer::on_reserve(const PeerId& from, const Frame& request) {
  const auto ask = asked_in<wire::Reserve>(request);
  if (!ask) return Refusal(Errc::bad_request);
  if (auto why = refuses(from)) return std::move(*why);
  const std::string network = network_of(from);
  if (network.empty()) return Refusal(Errc::gone);
  if (!reservations_.contains(from)) {
    sweep();
    const auto counted = [&](const auto& entry) { return entry.second.network == network; };
    const auto of_network = std::count_if(reservations_.begin(), reservations_.end(), counted);
    if (reservations_.size() >= options_.reservations_max ||
        static_cast<std::size_t>(of_network) >= options_.reservations_of_address_max)
      return Refusal(Errc::busy, "no room for another reservation", ms_of(options_.busy_retry));
    needs_.log.info("relay.reserved", {{"peer", from.short_text()}});
  }
  const Duration wished = ask->ttl_s == 0 ? options_.ttl : Duration(std::chrono::seconds(ask->ttl_s));
  const Duration ttl = std::min(options_.ttl, wished);
  reservations_[from] = Reservation{needs_.clock.now() + ttl, network};
  reserved_.notify();
  count();
  wire::Reserved granted;
  granted.ttl_s = whole_seconds(ttl);
  granted.best_class = static_cast<std::uint8_t>(options_.mode == RelayMode::bulk ? wire::CircuitClass::bulk
                                                                                  : wire::CircuitClass::signal);
  return frame::encode(wire::RelayHeader(granted));
}

net::Answer RelayServer::on_release(const PeerId& from, const Frame& request) {
  if (!asked_in<wire::Release>(request)) return Refusal(Errc::bad_request);
  wire::Released done;
  done.held = reservations_.erase(from) > 0;
  count();
  return frame::encode(wire::RelayHeader(done));
}

// --- circuits

/// Only to the other end of a circuit that both have agreed to: where somebody is, is nobody else's business.
net::Answer RelayServer::on_whence(const PeerId& from, const Frame& request) const {
  const auto ask = asked_in<wire::Whence>(request);
  if (!ask) return Refusal(Errc::bad_request);
  const PeerId other{ask->peer};
  const auto joins = [&](const auto& circuit) { return circuit->agreed && circuit->has(from) && circuit->has(other); };
  if (other == from || std::none_of(circuits_.begin(), circuits_.end(), joins))
    return Refusal(Errc::denied, "no circuit of these two is carried here");
  wire::Comes comes;
  comes.host = needs_.host_of(other).value_or(std::string());
  if (comes.host.empty()) return Refusal(Errc::gone);
  return frame::encode(wire::RelayHeader(std::move(comes)));
}

/// Empty: where it comes from is not known.
std::string RelayServer::network_of(const PeerId& peer) const {
  const auto host = needs_.host_of(peer);
  return host ? net::network_of(*host) : std::string();
}

bool RelayServer::has_room(wire::CircuitClass which, const PeerId& asker, const PeerId& asked) const {
  const auto count = [&](const auto& counts) {
    const auto of_class = [&](const auto& circuit) { return circuit->which == which && counts(*circuit); };
    return static_cast<std::size_t>(std::count_if(circuits_.begin(), circuits_.end(), of_class));
  };
  const Quota& quota = this->quota(which);
  if (count([](const Circuit&) { return true; }) >= quota.all_max) return false;
  const auto has_room_for = [&](const PeerId& end) {
    const std::string network = network_of(end);
    return count([&](const Circuit& circuit) { return circuit.has(end); }) < quota.of_peer_max &&
           (network.empty() ||
            count([&](const Circuit& circuit) { return circuit.touches(network); }) < quota.of_network_max);
  };
  return has_room_for(asker) && has_room_for(asked);
}

/// The best that is wanted, offered and free; nothing: all is taken.
std::optional<wire::CircuitClass> RelayServer::choose(std::uint8_t wanted, const PeerId& asker,
                                                      const PeerId& asked) const {
  const bool bulk = options_.mode == RelayMode::bulk && wanted == static_cast<std::uint8_t>(wire::CircuitClass::bulk);
  if (bulk && has_room(wire::CircuitClass::bulk, asker, asked)) return wire::CircuitClass::bulk;
  if (has_room(wire::CircuitClass::signal, asker, asked)) return wire::CircuitClass::signal;
  return std::nullopt;
}

Task<net::Answer> RelayServer::on_connect(PeerId from, Frame request, TimePoint deadline) {
  const auto ask = asked_in<wire::Connect>(request);
  if (!ask) co_return Refusal(Errc::bad_request);
  if (auto why = refuses(from)) co_return std::move(*why);
  const PeerId to{ask->peer};
  if (to == from || to == needs_.endpoint.self()) co_return Refusal(Errc::denied, "no circuit leads to oneself");
  const bool onward = !is_reserved(to);
  if (onward && !leads_onward(*ask)) co_return Refusal(Errc::gone, "that peer has no reservation here");
  const auto which = choose(ask->best_class, from, to);
  if (!which || (onward && *which != wire::CircuitClass::bulk))
    co_return Refusal(Errc::busy, "no room for another circuit", ms_of(options_.busy_retry));
  for (const wire::CircuitEnd end : {wire::CircuitEnd::asker, wire::CircuitEnd::asked})
    if (needs_.topics.contains(wire::circuit_topic(ask->id, from.key, end)))
      co_return Refusal(Errc::bad_request, "such a circuit is open already");
  struct Place {  // counts from the question on
    std::set<std::shared_ptr<Circuit>>& all;
    std::shared_ptr<Circuit> circuit;
    ~Place() { all.erase(circuit); }
  };
  auto circuit = std::make_shared<Circuit>(*this, from, *ask, *which);
  {
    circuits_.insert(circuit);
    const Place place{circuits_, circuit};
    const bool welcome = co_await is_welcome(*circuit, ask->id, deadline);
    if (!welcome) co_return Refusal(Errc::gone, "that peer does not take the circuit");
  }
  if (tasks_ == nullptr) co_return Refusal(Errc::denied, "this peer relays nothing");
  circuit->agreed = true;
  wire::Joined joined;
  joined.circuit_class = static_cast<std::uint8_t>(*which);
  joined.bytes_max = circuit->quota.bytes_max;
  joined.life_s = whole_seconds(circuit->quota.life);
  circuits_.insert(circuit);
  count();
  needs_.log.info("relay.circuit",
                  {{"from", from.short_text()}, {"to", to.short_text()}, {"class", name(RelayMode(int(*which) + 1))}});
  tasks_->spawn("relay.circuit", carry(std::move(circuit)));
  co_return frame::encode(wire::RelayHeader(joined));
}

Task<bool> RelayServer::is_welcome(const Circuit& circuit, const wire::CircuitId& id, TimePoint deadline) {
  wire::Incoming incoming;
  incoming.from = circuit.asker.with.key;
  incoming.id = id;
  incoming.circuit_class = static_cast<std::uint8_t>(circuit.which);
  const TimePoint until = std::min(deadline, needs_.clock.now() + options_.accept_time);
  const auto answer = co_await needs_.endpoint.call(circuit.asked.with, "relay.incoming",
                                                    frame::encode(wire::RelayHeader(incoming)), until);
  co_return answer.has_value();
}

Task<> RelayServer::carry(std::shared_ptr<Circuit> circuit) {
  struct Gone {
    RelayServer& server;
    std::shared_ptr<Circuit> circuit;
    ~Gone() {
      server.circuits_.erase(circuit);
      server.count();
    }
  };
  const Gone gone{*this, circuit};
  const auto body = [&](TaskGroup& tasks) -> Task<> {
    tasks.spawn("relay.pump", pump(*circuit, true));
    tasks.spawn("relay.pump", pump(*circuit, false));
    co_await watch(*circuit);
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
  needs_.log.info("relay.circuit_ended", {{"from", circuit->asker.with.short_text()},
                                          {"to", circuit->asked.with.short_text()},
                                          {"why", circuit->over},
                                          {"bytes", circuit->from_asker + circuit->from_asked}});
  co_await say_to_both(*circuit, end_because(circuit->over));
}

Task<> RelayServer::say_to_both(Circuit& circuit, Frame frame) {
  for (CircuitLine* line : {&circuit.asker, &circuit.asked})
    if (line->stands()) (void)co_await line->send(frame, needs_.clock.now() + kSayTime);  // who does not read misses it
}

/// Until it is over, for whatever reason.
Task<> RelayServer::watch(Circuit& circuit) {
  const TimePoint ends_at = needs_.clock.now() + circuit.quota.life;
  bool noticed = false;
  while (circuit.over.empty()) {
    const TimePoint now = needs_.clock.now();
    if (!circuit.asker.stands() || !circuit.asked.stands()) {
      circuit.end("gone");
    } else if (now >= ends_at) {
      circuit.end("quota");
    } else if (!noticed && (now + options_.notice >= ends_at ||
                            circuit.most_carried() > circuit.quota.bytes_max - circuit.quota.bytes_max / 4)) {
      noticed = true;
      wire::Notice notice;
      notice.left_ms = static_cast<std::uint32_t>(ms_of(std::min(options_.notice, ends_at - now)));
      co_await say_to_both(circuit, frame::encode(wire::CircuitHeader(notice)));
    } else {
      (void)co_await circuit.changed.wait_until(needs_.clock, now + options_.look);
    }
  }
}

/// Until both the circuit's rate and that of all allow them.
Task<> RelayServer::pay(Circuit& circuit, std::size_t bytes) {
  const TimePoint turn = circuit.pace.turn(bytes, needs_.clock.now());
  if (turn > needs_.clock.now()) co_await needs_.clock.sleep_until(turn);
  net::TokenBucket& all = circuit.which == wire::CircuitClass::bulk ? bulk_rate_ : signal_rate_;
  while (!all.take(needs_.clock.now(), static_cast<double>(bytes))) {
    const Duration wait = std::max(kPayAtLeast, all.wait(static_cast<double>(bytes)));
    co_await needs_.clock.sleep_until(needs_.clock.now() + wait);
  }
}

Task<> RelayServer::pump(Circuit& circuit, bool from_asker) {
  CircuitLine& from = from_asker ? circuit.asker : circuit.asked;
  CircuitLine& to = from_asker ? circuit.asked : circuit.asker;
  std::uint64_t& carried = from_asker ? circuit.from_asker : circuit.from_asked;
  const std::string_view label = name(RelayMode(int(circuit.which) + 1));
  for (;;) {
    const auto frame = co_await from.receive(TimePoint::max());
    if (!frame) co_return circuit.end("closed");
    const auto message = frame::decode<wire::CircuitHeader>(**frame);
    if (!message || message->payload.size() > wire::kCarryBytesMax) co_return circuit.end("closed");
    if (!std::holds_alternative<wire::Carry>(message->header))
      co_return circuit.end("closed");           // an End; notice we give
    const std::size_t bytes = (*frame)->size();  // also what is around the payload goes on as it is
    if (carried + bytes > circuit.quota.bytes_max) co_return circuit.end("quota");
    carried += bytes;
    co_await pay(circuit, bytes);
    for (bool sent = false; !sent;) {
      const TimePoint until = needs_.clock.now() + kSayTime;
      const auto said = co_await to.send(*frame, until);
      const bool waited = needs_.clock.now() >= until;  // else that `late` is the other end's word
      if (!said && (said.error() != Errc::late || !waited)) co_return circuit.end("gone");
      sent = said.has_value();  // else the other end does not read: neither do we
    }
    needs_.metrics.add("collab_relayed_bytes_total", static_cast<double>(message->payload.size()),
                       {{"class", std::string(label)}});
  }
}

}  // namespace collab::nat
