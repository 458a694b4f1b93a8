#include "nat/circuit_network.hpp"

#include "base/frame.hpp"

#include <algorithm>
#include <utility>

namespace collab::nat {
namespace {

using Dialled = Result<std::unique_ptr<net::ByteStream>>;

wire::CircuitId draw_circuit_id(Random& random) {
  wire::CircuitId id{};
  for (std::size_t at = 0; at < id.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t word = random.next();
    std::memcpy(id.data() + at, &word, sizeof word);
  }
  return id;
}

wire::CircuitClass class_of(std::uint8_t number) {
  return number == static_cast<std::uint8_t>(wire::CircuitClass::bulk) ? wire::CircuitClass::bulk
                                                                       : wire::CircuitClass::signal;
}

/// Counts as asking a relay while it lives.
class Opening {
 public:
  Opening(std::map<PeerId, int>& all, const PeerId& relay) : all_(all), relay_(relay) { ++all_[relay_]; }
  ~Opening() {
    if (--all_.at(relay_) == 0) all_.erase(relay_);
  }
  Opening(const Opening&) = delete;
  Opening& operator=(const Opening&) = delete;

 private:
  std::map<PeerId, int>& all_;
  PeerId relay_;
};

}  // namespace

net::Address circuits_come_in() {
  net::Address at;
  at.host = "relay";
  at.leg = net::Leg::relay;
  return at;
}

net::Method relay_method(std::string_view name) {
  net::Method method;
  method.name = name;
  if (name == "relay.incoming") method.claim = Claim::relay;  // who brings a circuit carries others' bytes
  method.traffic = net::TrafficClass::control;
  method.request_bytes_max = 1024;
  method.answer_bytes_max = 1024;
  method.requests_per_s = 4;
  method.requests_burst = 32;
  return method;
}

/// Circuits that have come, until the endpoint takes them.
class CircuitNetwork::Arrivals final : public net::Listener {
 public:
  explicit Arrivals(CircuitNetwork& network)
      : network_(network), waiting_(network.needs_.executor, network.options_.arrivals_max) {
    network_.arrivals_ = this;
  }
  ~Arrivals() override {
    if (network_.arrivals_ == this) network_.arrivals_ = nullptr;
  }
  bool full() const { return closed_ || waiting_.size() >= network_.options_.arrivals_max; }
  void push(std::unique_ptr<net::ByteStream> stream) { (void)waiting_.try_push(std::move(stream)); }

  Task<Dialled> accept() override { return waiting_.pop(network_.needs_.clock, TimePoint::max()); }
  net::Address local() const override { return circuits_come_in(); }
  void close() override {
    closed_ = true;
    waiting_.close();
  }

 private:
  CircuitNetwork& network_;
  Channel<std::unique_ptr<net::ByteStream>> waiting_;
  bool closed_ = false;
};

void CircuitNetwork::use(net::Endpoint& endpoint, Trusts trusts) {
  endpoint_ = &endpoint;
  trusts_ = std::move(trusts);
  endpoint.allow_conversation(circuit_protocol());
  const auto incoming = [this](PeerId from, Frame request, TimePoint) { return on_incoming(from, std::move(request)); };
  endpoint.handle(relay_method("relay.incoming"), incoming);
}

Task<> CircuitNetwork::run() {
  struct Working {
    Working(CircuitNetwork& of, TaskGroup& tasks) : network(of) { network.tasks_ = &tasks; }
    ~Working() { network.tasks_ = nullptr; }
    Working(const Working&) = delete;
    Working& operator=(const Working&) = delete;
    CircuitNetwork& network;
  };
  const auto body = [this](TaskGroup& tasks) -> Task<> {
    const Working working(*this, tasks);
    co_await needs_.clock.sleep_until(TimePoint::max());
  };
  auto scope = task_scope(rethrow, body);
  co_await std::move(scope);
}

Result<std::unique_ptr<net::Listener>> CircuitNetwork::listen(const net::Address& at) {
  if (at.leg != net::Leg::relay) return needs_.network.listen(at);
  return std::make_unique<Arrivals>(*this);
}

Task<Dialled> CircuitNetwork::dial(net::Address to, TimePoint deadline) {
  return dial_peer(std::move(to), std::nullopt, deadline);
}

Task<Dialled> CircuitNetwork::dial_peer(net::Address to, std::optional<PeerId> expected, TimePoint deadline) {
  if (!net::is_relayed(to.leg)) co_return co_await needs_.network.dial_peer(std::move(to), expected, deadline);
  if (endpoint_ == nullptr || tasks_ == nullptr) co_return Errc::gone;
  const PeerId& self = endpoint_->self();
  if (!expected || *expected == self || to.relay == self || *expected == to.relay) co_return Errc::bad_request;
  if (opening_.contains(*expected)) co_return Errc::gone;  // it is to be a relay itself, which needs no circuit
  co_return co_await open_circuit(std::move(to), *expected, deadline);
}

Task<Dialled> CircuitNetwork::open_circuit(net::Address by, PeerId to, TimePoint deadline) {
  const Opening opening(opening_, by.relay);
  if (!endpoint_->can_reach(by.relay)) co_return Errc::gone;  // where it is tells its own record, and no stranger's
  wire::Connect ask;
  ask.peer = to.key;
  ask.id = draw_circuit_id(needs_.random);
  const auto wanted = by.leg == net::Leg::onward ? wire::CircuitClass::bulk : wire::CircuitClass::signal;
  ask.best_class = static_cast<std::uint8_t>(wanted);
  const Digest topic = wire::circuit_topic(ask.id, endpoint_->self().key, wire::CircuitEnd::asker);
  const auto line = std::make_shared<CircuitLine>(*endpoint_, topics_, topic, by.relay, wire::CircuitClass::signal);
  const TimePoint until = std::min(deadline, needs_.clock.now() + options_.connect_time);
  const auto answer =
      co_await endpoint_->call(by.relay, "relay.connect", frame::encode(wire::RelayHeader(std::move(ask))), until);
  if (!answer) {
    needs_.log.debug("relay.no_circuit",
                     {{"relay", by.relay.short_text()}, {"peer", to.short_text()}, {"why", answer.error().reason}});
    co_return make_error_code(answer.error().code);
  }
  const auto message = frame::decode<wire::RelayHeader>(**answer);
  const auto* joined = message ? std::get_if<wire::Joined>(&message->header) : nullptr;
  if (joined == nullptr) co_return Errc::bad_request;
  if (tasks_ == nullptr || !line->stands()) co_return Errc::gone;
  line->traffic = traffic_of(class_of(joined->circuit_class));
  if (wanted == wire::CircuitClass::bulk && line->traffic != net::TrafficClass::bulk) co_return Errc::busy;
  const TimePoint ends_at = needs_.clock.now() + std::chrono::seconds(joined->life_s);
  co_return std::make_unique<CircuitStream>(line, needs_.clock, tasks_, ends_at);
}

Task<net::Answer> CircuitNetwork::on_incoming(PeerId from, Frame request) {
  const auto message = frame::decode<wire::RelayHeader>(*request);
  const auto* ask = message ? std::get_if<wire::Incoming>(&message->header) : nullptr;
  if (ask == nullptr) co_return Refusal(Errc::bad_request);
  if (!trusts_(from) || !is_direct(endpoint_->link(from)))
    co_return Refusal(Errc::denied, "this peer has no reservation there");
  const Digest topic = wire::circuit_topic(ask->id, ask->from, wire::CircuitEnd::asked);
  if (ask->from == endpoint_->self().key || topics_.contains(topic))
    co_return Refusal(Errc::bad_request, "such a circuit is open already");
  if (tasks_ == nullptr || arrivals_ == nullptr || arrivals_->full())
    co_return Refusal(Errc::busy, "no room for another circuit", 1000);
  auto line = std::make_shared<CircuitLine>(*endpoint_, topics_, topic, from, class_of(ask->circuit_class));
  arrivals_->push(std::make_unique<CircuitStream>(std::move(line), needs_.clock, tasks_, TimePoint::max()));
  wire::Joined yes;
  yes.circuit_class = ask->circuit_class;
  co_return frame::encode(wire::RelayHeader(yes));
}

}  // namespace collab::nat
