#include "sim/call_network.hpp"

#include <functional>
#include <string>
#include <utility>

namespace collab::sim {

class CallNetwork::Peer final : public net::Endpoint {
 public:
  Peer(CallNetwork& network, const PeerId& self) : network_(network), self_(self) {}
  const PeerId& self() const override { return self_; }
  void handle(net::Method method, net::Handler handler) override { handlers_[method.name] = std::move(handler); }
  void allow_conversation(net::Method) override {}

  Task<net::Answer> call(PeerId to, std::string_view method, Frame request, TimePoint deadline) override {
    auto asked = ask(to, std::string(method), std::move(request), deadline);
    co_return co_await with_deadline(network_.world_.clock(), deadline, std::move(asked));
  }

  std::unique_ptr<net::Conversation> converse(std::string_view, const net::Topic&, std::vector<PeerId>) override {
    return nullptr;  // there are none here
  }
  net::LinkState link(const PeerId& other) const override {
    net::LinkState state;
    state.connected = state.dialled = can_reach(other) && !network_.dead_.contains(other);
    return state;
  }
  void introduce(const PeerId&, std::vector<net::Address>) override {}
  bool can_reach(const PeerId& other) const override { return network_.peers_.contains(other); }

 private:
  Task<net::Answer> ask(PeerId to, std::string method, Frame request, TimePoint deadline) {
    ++network_.calls_;
    network_.bytes_ += request->size();
    co_await network_.world_.clock().sleep_until(network_.arrival());
    const auto peer = network_.peers_.find(to);
    if (peer == network_.peers_.end() || network_.dead_.contains(to)) co_return Refusal(Errc::gone);
    const auto handler = peer->second->handlers_.find(method);
    if (handler == peer->second->handlers_.end()) co_return Refusal(Errc::bad_request, "no such method");
    net::Answer answer = co_await handler->second(self_, std::move(request), deadline);
    if (answer) network_.bytes_ += (*answer)->size();
    co_await network_.world_.clock().sleep_until(network_.arrival());
    if (network_.dead_.contains(to) || network_.dead_.contains(self_)) co_return Refusal(Errc::gone);
    co_return answer;
  }

  CallNetwork& network_;
  PeerId self_;
  std::map<std::string, net::Handler, std::less<>> handlers_;
};

CallNetwork::CallNetwork(Simulation& world, std::uint64_t seed, Duration latency_min, Duration latency_max)
    : world_(world), random_(seed), latency_min_(latency_min), latency_max_(latency_max) {}

CallNetwork::~CallNetwork() = default;

net::Endpoint& CallNetwork::add_peer(const PeerId& id) {
  return *peers_.emplace(id, std::make_unique<Peer>(*this, id)).first->second;
}

TimePoint CallNetwork::arrival() {
  const auto spread = static_cast<std::uint64_t>((latency_max_ - latency_min_).count());
  return world_.clock().now() + latency_min_ + Duration(random_.below(spread + 1));
}

}  // namespace collab::sim
