#pragma once
// The serving half of nat.dial_back: knocks at the asker's own door.

#include "base/log.hpp"
#include "nat/wire.hpp"
#include "net/endpoint.hpp"
#include "net/limits.hpp"
#include "net/network.hpp"
#include "net/tls_context.hpp"

#include <functional>
#include <map>
#include <optional>
#include <string>

namespace collab::nat {

/// Whether `expected` answers at `to`: a TLS handshake that proves the key, then good-bye; no hello is said.
/// Errors: `late`, `gone`, `denied` (somebody else is there), `bad_request` (no TLS of ours).
Task<Result<>> knock(net::Network& network, Clock& clock, const net::TlsContext& tls, net::Address to, PeerId expected,
                     TimePoint deadline);

/// Whether a dial-back server may be asked for this port: not one of a service that strangers should not poke at.
bool may_knock_at(std::uint16_t port) noexcept;

/// The row of nat.dial_back: who asks needs it as well as who answers.
net::Method dial_back_method();

/// Registers nat.dial_back. Thread safety: none; belongs to the node's loop. Outlives the endpoint's calls.
class DialBackServer {
 public:
  struct Options {
    Duration knock_time = std::chrono::seconds(5);
    double per_min = 60;           ///< in all
    double of_peer_per_min = 12;   ///< the first ones at once
    std::size_t of_peer_max = 2;   ///< at a time
    std::size_t peers_max = 4096;  ///< whose rate is remembered
    /// Whether this node's own dials show what others' would; empty: they do. Else nobody gets a verdict, but `busy`.
    std::function<bool()> may_judge = {};
  };
  /// `host_of`: where the connection of a peer comes from; nothing while it is not connected.
  using HostOf = std::function<std::optional<std::string>(const PeerId&)>;

  DialBackServer(net::Endpoint& endpoint, net::Network& network, Clock& clock, Log& log, const net::TlsContext& tls,
                 HostOf host_of, Options options);
  DialBackServer(const DialBackServer&) = delete;
  DialBackServer& operator=(const DialBackServer&) = delete;

 private:
  struct Asker {
    net::TokenBucket rate;
    std::size_t at_once = 0;
  };

  Task<net::Answer> on_dial_back(PeerId from, Frame request, TimePoint deadline);
  Asker* admit(const PeerId& from, TimePoint now);

  net::Network& network_;
  Clock& clock_;
  Log& log_;
  const net::TlsContext& tls_;
  HostOf host_of_;
  Options options_;
  net::TokenBucket rate_;
  std::map<PeerId, Asker> askers_;
};

}  // namespace collab::nat
