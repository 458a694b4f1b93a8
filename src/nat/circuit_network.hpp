#pragma once
// A network on which also those can be dialled whom nobody can dial: through relays.

#include "base/channel.hpp"
#include "base/log.hpp"
#include "base/random.hpp"
#include "nat/circuit.hpp"
#include "net/network.hpp"

#include <functional>
#include <map>
#include <memory>

namespace collab::nat {

/// Wraps a node's network, and belongs under its endpoint. `dial_peer` of a relay's address asks the relay for a
/// circuit: for words, or for tensors too to whom it leads onward. A listener at an address of that leg,
/// `circuits_come_in()`, accepts those that the relays bring. All else passes through. There is no circuit over a
/// circuit: whoever asks, or is asked, has to be connected to the relay without one.
///
/// Thread safety: none; belongs to the node's loop. Outlives the endpoint.
class CircuitNetwork final : public net::Network {
 public:
  struct Options {
    Duration connect_time = std::chrono::seconds(8);  ///< for a relay's answer; it waits 5 s for the other end
    std::size_t arrivals_max = 16;                    ///< that the endpoint has not accepted yet; more: `busy`
  };
  /// All of it outlives it.
  struct Needs {
    asio::any_io_executor executor;
    Clock& clock;
    Random random;  ///< for ids
    Log& log;
    net::Network& network;
  };
  /// Whether a relay may bring circuits: this node has a reservation there, or whoever comes could dial it as well.
  using Trusts = std::function<bool(const PeerId& relay)>;

  CircuitNetwork(const Needs& needs, Options options) : needs_(needs), options_(options) {}

  /// Registers relay.incoming and relay.circuit. Before the endpoint runs, once.
  void use(net::Endpoint& endpoint, Trusts trusts);
  /// Circuits are dialled and ended in order while this runs, until cancelled: inside of the endpoint's life.
  Task<> run();

  Task<Result<std::unique_ptr<net::ByteStream>>> dial(net::Address to, TimePoint deadline) override;
  /// Errors of a circuit: `gone` (the relay is not there, or has no reservation of that peer), `busy`, `denied`,
  /// `late`.
  Task<Result<std::unique_ptr<net::ByteStream>>> dial_peer(net::Address to, std::optional<PeerId> expected,
                                                           TimePoint deadline) override;
  Result<std::unique_ptr<net::Listener>> listen(const net::Address& at) override;
  Result<std::unique_ptr<net::LocalPort>> local_port(const std::string& host) override {
    return needs_.network.local_port(host);
  }
  net::Caps caps() const override { return needs_.network.caps(); }
  const net::ChannelEngines* channel_engines() const noexcept override { return needs_.network.channel_engines(); }

  /// What is open here, of the node's own circuits and of those that it relays.
  OpenTopics& topics() noexcept { return topics_; }

 private:
  class Arrivals;

  Task<Result<std::unique_ptr<net::ByteStream>>> open_circuit(net::Address by, PeerId to, TimePoint deadline);
  Task<net::Answer> on_incoming(PeerId from, Frame request);

  Needs needs_;
  Options options_;
  net::Endpoint* endpoint_ = nullptr;
  Trusts trusts_;
  TaskGroup* tasks_ = nullptr;
  OpenTopics topics_;
  std::map<PeerId, int> opening_;  ///< circuits that are being asked for, by relay
  Arrivals* arrivals_ = nullptr;
};

/// Where an endpoint listens to take circuits.
net::Address circuits_come_in();
/// The row of relay.connect, relay.incoming, relay.reserve, relay.release or relay.whence: who asks needs it as well.
net::Method relay_method(std::string_view name);

}  // namespace collab::nat
