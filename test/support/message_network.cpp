#include "support/message_network.hpp"

#include <boost/asio/co_spawn.hpp>

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <utility>

namespace collab::test {

using net::TrafficClass;

struct MessageNetwork::InFlight {
  PeerId from, to;
  TrafficClass traffic = TrafficClass::control;
  std::string protocol;
  Digest topic{};
  Digest occasion{};
  Frame frame;
  TimePoint arrives{};
};

class MessageNetwork::Talk final : public net::Conversation {
 public:
  Talk(MessageNetwork& network, Peer& owner, std::string protocol, const net::Topic& topic);
  ~Talk() override;
  Task<Result<>> send(PeerId to, TrafficClass, Frame, TimePoint) override;
  Task<Result<net::Envelope>> receive(TimePoint deadline) override;
  void add_member(PeerId) override {}  // every link is pinged here
  void remove_member(PeerId) override {}
  bool closed_by(const PeerId& peer) const override { return refused_.contains(peer); }
  void refused(const PeerId& by) { refused_.insert(by); }
  void deliver(TrafficClass traffic, net::Envelope envelope) {
    inbox_[static_cast<std::size_t>(traffic)].push_back(std::move(envelope));
    arrived_.notify();
  }

 private:
  MessageNetwork& network_;
  Peer& owner_;
  std::string protocol_;
  Digest topic_;
  Digest occasion_;
  std::array<std::deque<net::Envelope>, 3> inbox_;
  std::set<PeerId> refused_;  // by them: theirs is closed
  Signal arrived_;
};

class MessageNetwork::Peer final : public net::Endpoint {
 public:
  Peer(MessageNetwork& network, const PeerId& self) : network_(network), self_(self) {}
  const PeerId& self() const override { return self_; }
  void handle(net::Method method, net::Handler handler) override { handlers_[method.name] = std::move(handler); }
  void allow_conversation(net::Method) override {}

  Task<net::Answer> call(PeerId to, std::string_view method, Frame request, TimePoint deadline) override {
    const std::string name(method);
    ++network_.asked_[{to, name}];
    if (!can_reach(to)) co_return Refusal(Errc::gone, "no address of this peer is known");  // at once, as the real one
    auto asked = ask(to, name, std::move(request), deadline);
    co_return co_await with_deadline(network_.world_.clock(), deadline, std::move(asked));
  }

  std::unique_ptr<net::Conversation> converse(std::string_view protocol, const net::Topic& topic,
                                              std::vector<PeerId>) override {
    return std::make_unique<Talk>(network_, *this, std::string(protocol), topic);
  }

  net::LinkState link(const PeerId& other) const override {
    net::LinkState state;
    const auto dead = network_.dead_.find(other);
    const TimePoint now = network_.world_.clock().now();
    state.connected = dead == network_.dead_.end() || now < dead->second + network_.options_.lost_after;
    state.dialled = state.connected;
    if (!state.connected) state.lost_at = dead->second + network_.options_.lost_after;
    state.rtt = network_.options_.latency_min + network_.options_.latency_max;
    state.rtt_deviation = network_.options_.latency_max - network_.options_.latency_min;
    state.rtt_least = 2 * network_.options_.latency_min;
    const auto silent = silent_since_.find(other);
    state.last_received = silent == silent_since_.end() ? now : silent->second;
    return state;
  }
  void introduce(const PeerId&, std::vector<net::Address>) override {}
  bool can_reach(const PeerId& other) const override { return network_.peers_.contains(other); }

  Task<net::Answer> ask(PeerId to, std::string name, Frame request, TimePoint deadline) {
    const Lane there(self_, to, TrafficClass::latency);
    const Lane back(to, self_, TrafficClass::latency);
    co_await network_.world_.clock().sleep_until(network_.arrival(there, request->size()));
    while (network_.held(self_, to)) co_await network_.moved_.wait();
    const auto found = network_.peers_.find(to);
    if (found == network_.peers_.end() || network_.dead_.contains(to)) co_return Refusal(Errc::gone);
    const auto handler = found->second->handlers_.find(name);
    if (handler == found->second->handlers_.end()) co_return Refusal(Errc::bad_request, "no such method");
    net::Answer answer = co_await handler->second(self_, std::move(request), deadline);
    const std::size_t bytes = answer ? (*answer)->size() : 16;
    co_await network_.world_.clock().sleep_until(network_.arrival(back, bytes));
    while (network_.held(to, self_)) co_await network_.moved_.wait();
    if (network_.dead_.contains(to) || network_.dead_.contains(self_)) co_return Refusal(Errc::gone);
    co_return answer;
  }

  MessageNetwork& network_;
  PeerId self_;
  std::map<std::string, net::Handler> handlers_;
  std::map<std::pair<std::string, Digest>, Talk*> talks_;
  std::vector<std::shared_ptr<InFlight>> unread_;  // about topics that nobody has opened here
  std::set<std::pair<std::string, Digest>> closed_;
  std::set<std::pair<std::string, Digest>> taken_;  // occasions of what is or was open
  std::map<PeerId, TimePoint> silent_since_;
};

MessageNetwork::Talk::Talk(MessageNetwork& network, Peer& owner, std::string protocol, const net::Topic& topic)
    : network_(network),
      owner_(owner),
      protocol_(std::move(protocol)),
      topic_(topic.id),
      occasion_(topic.occasion),
      arrived_(network.world_.executor()) {
  owner_.talks_[{protocol_, topic_}] = this;
  if (topic.occasion != Digest{}) owner_.taken_.emplace(protocol_, topic.occasion);
  for (auto& flight : std::exchange(owner_.unread_, {})) network_.arrive(std::move(flight));
}

MessageNetwork::Talk::~Talk() {
  owner_.talks_.erase({protocol_, topic_});
  owner_.closed_.insert({protocol_, topic_});
}

Task<Result<>> MessageNetwork::Talk::send(PeerId to, TrafficClass traffic, Frame frame, TimePoint) {
  const auto dead = network_.dead_.find(to);
  const TimePoint now = network_.world_.clock().now();
  if (dead != network_.dead_.end() && now >= dead->second + network_.options_.lost_after) co_return Errc::gone;
  const auto found = network_.peers_.find(to);
  if (found == network_.peers_.end()) co_return Errc::gone;
  if (found->second->closed_.contains({protocol_, topic_})) co_return Errc::stale;
  if (network_.dead_.contains(owner_.self())) co_return Result<>();
  auto flight = std::make_shared<InFlight>();
  flight->from = owner_.self();
  flight->to = to;
  flight->traffic = traffic;
  flight->protocol = protocol_;
  flight->topic = topic_;
  flight->occasion = occasion_;
  flight->arrives = network_.arrival({owner_.self(), to, traffic}, frame->size());
  flight->frame = std::move(frame);
  network_.in_flight_.spawn("carry", network_.carry(std::move(flight)));
  co_return Result<>();
}

Task<Result<net::Envelope>> MessageNetwork::Talk::receive(TimePoint deadline) {
  for (;;) {
    for (auto& queue : inbox_) {
      if (queue.empty()) continue;
      net::Envelope envelope = std::move(queue.front());
      queue.pop_front();
      co_return envelope;
    }
    const bool in_time = co_await arrived_.wait_until(network_.world_.clock(), deadline);
    const bool empty = std::all_of(inbox_.begin(), inbox_.end(), [](const auto& queue) { return queue.empty(); });
    if (!in_time && empty) co_return Errc::late;
  }
}

MessageNetwork::MessageNetwork(sim::Simulation& world, std::uint64_t seed, LinkOptions options)
    : world_(world),
      random_(seed),
      options_(options),
      moved_(world.executor()),
      in_flight_(world.executor(), rethrow) {}

MessageNetwork::~MessageNetwork() {
  const auto stop = [this]() -> Task<> { co_await in_flight_.stop(); };
  world_.run(stop());
}

net::Endpoint& MessageNetwork::add_peer(const PeerId& id) {
  return *peers_.emplace(id, std::make_unique<Peer>(*this, id)).first->second;
}

void MessageNetwork::kill(const PeerId& id) {
  dead_.emplace(id, world_.clock().now());
  for (auto& [other, state] : peers_) state->silent_since_.emplace(id, world_.clock().now());
  moved_.notify();
}

void MessageNetwork::revive(const PeerId& id) {
  dead_.erase(id);
  for (auto& [other, state] : peers_) state->silent_since_.erase(id);
  moved_.notify();
}

void MessageNetwork::freeze(const PeerId& id, bool mute) {
  frozen_[id] = mute;
  for (auto& [other, state] : peers_) {
    state->silent_since_.emplace(id, world_.clock().now());
    if (other == id) continue;
    peers_.at(id)->silent_since_.emplace(other, world_.clock().now());
  }
}

void MessageNetwork::thaw(const PeerId& id) {
  frozen_.erase(id);
  for (auto& [other, state] : peers_) state->silent_since_.erase(id);
  peers_.at(id)->silent_since_.clear();
  moved_.notify();
}

void MessageNetwork::partition(std::set<PeerId> side) {
  side_ = std::move(side);
  for (auto& [a, state] : peers_) {
    for (auto& [b, other] : peers_) {
      if (side_.contains(a) != side_.contains(b)) state->silent_since_.emplace(b, world_.clock().now());
    }
  }
}

void MessageNetwork::heal() {
  side_.clear();
  for (auto& [a, state] : peers_) {
    std::erase_if(state->silent_since_, [&](const auto& entry) { return !dead_.contains(entry.first); });
  }
  moved_.notify();
}

bool MessageNetwork::held(const PeerId& from, const PeerId& to) const {
  const auto sender = frozen_.find(from);
  if (sender != frozen_.end() && sender->second) return true;
  return frozen_.contains(to) || side_.contains(from) != side_.contains(to);
}

TimePoint MessageNetwork::arrival(const Lane& lane, std::size_t bytes) {
  const auto spread = static_cast<std::uint64_t>((options_.latency_max - options_.latency_min).count());
  const Duration latency = options_.latency_min + Duration(random_.below(spread + 1));
  auto& [line_free, last_arrival] = lanes_[lane];
  line_free = std::max(line_free, world_.clock().now());
  if (options_.bytes_per_s > 0) line_free += from_seconds(static_cast<double>(bytes) / options_.bytes_per_s);
  last_arrival = std::max(last_arrival + Duration(1), line_free + latency);
  return last_arrival;
}

bool MessageNetwork::lost_with_sender(const Lane& lane) {
  const auto dead = dead_.find(std::get<0>(lane));
  if (dead == dead_.end()) return false;
  auto cut = cuts_.find(lane);
  if (cut == cuts_.end()) {
    // of what a dying peer has in flight a prefix arrives, of a different length on each lane
    const auto latest = static_cast<std::uint64_t>(options_.latency_max.count());
    cut = cuts_.emplace(lane, dead->second + Duration(random_.below(latest + 1))).first;
  }
  return world_.clock().now() > cut->second;
}

Task<> MessageNetwork::carry(std::shared_ptr<InFlight> flight) {
  co_await world_.clock().sleep_until(flight->arrives);
  while (held(flight->from, flight->to)) co_await moved_.wait();
  if (dead_.contains(flight->to)) co_return;
  if (lost_with_sender({flight->from, flight->to, flight->traffic})) co_return;
  mix(flight->from.key[0] + 256U * flight->from.key[1]);
  mix(flight->to.key[0] + 256U * flight->to.key[1]);
  mix(flight->frame->size());
  mix(static_cast<std::uint64_t>(world_.clock().now().time_since_epoch().count()));
  ++delivered_;
  arrive(std::move(flight));
}

void MessageNetwork::arrive(std::shared_ptr<InFlight> flight) {
  Peer& to = *peers_.at(flight->to);
  const auto about = std::make_pair(flight->protocol, flight->topic);
  if (const auto talk = to.talks_.find(about); talk != to.talks_.end())
    return talk->second->deliver(flight->traffic, {flight->from, flight->frame});
  const bool refused = to.closed_.contains(about) || to.taken_.contains({flight->protocol, flight->occasion});
  if (!refused) return to.unread_.push_back(std::move(flight));
  const auto& talks = peers_.at(flight->from)->talks_;
  if (const auto sender = talks.find(about); sender != talks.end()) sender->second->refused(flight->to);
}

}  // namespace collab::test
