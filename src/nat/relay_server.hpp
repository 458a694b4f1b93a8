#pragma once
// The relaying half: who can be dialled leads others to those who cannot, within quotas.

#include "base/log.hpp"
#include "base/metrics.hpp"
#include "base/signal.hpp"
#include "nat/circuit.hpp"
#include "net/limits.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace collab::nat {

/// What a node does for others.
enum class RelayMode : std::uint8_t { off, signal, bulk };
std::string_view name(RelayMode) noexcept;
std::optional<RelayMode> relay_mode_named(std::string_view name) noexcept;

/// Leads to those who have a reservation; and with `RelayMode::bulk` also onward, to whom it can dial itself: for those
/// whose network lets them out to few places, which are not that peer's. What it carries it does not look at: of a
/// frame it reads only what is around the circuit's bytes.
///
/// Memory: a reservation is some hundred bytes. Of a circuit's direction what the sender may have unread here (half a
/// mebibyte for all its circuits of one class) and what the other end has not taken, a mebibyte at most; a pump reads
/// no more meanwhile. Thread safety: none; belongs to the node's loop. Outlives the endpoint's calls.
class RelayServer {
 public:
  struct Quota {
    std::uint64_t bytes_max = 0;  ///< each way
    Duration life{};
    double bytes_per_s = 0;          ///< of one circuit, both ways together
    double bytes_per_s_of_all = 0;   ///< of all in this class
    std::size_t of_peer_max = 0;     ///< circuits that begin or end at one peer,
    std::size_t of_network_max = 0;  ///< in one network, whose user may call itself many peers,
    std::size_t all_max = 0;         ///< and in all
  };
  struct Options {
    RelayMode mode = RelayMode::signal;
    Quota signal{std::uint64_t(1) << 20U, std::chrono::minutes(2), 256e3, 2.5e6, 16, 32, 64};
    /// Of a peer as many as a group has, and of a home three such peers: one that is led to some owners only would hold
    /// up all the others.
    Quota bulk{std::uint64_t(4) << 30U, std::chrono::minutes(30), 2.5e6, 25e6, 16, 48, 64};
    std::size_t reservations_max = 128;
    std::size_t reservations_of_address_max = 8;
    Duration ttl = std::chrono::hours(1);            ///< of a reservation
    Duration accept_time = std::chrono::seconds(5);  ///< for the peer that is asked whether a circuit may come
    Duration notice = std::chrono::seconds(10);      ///< before a planned end
    Duration look = std::chrono::milliseconds(100);  ///< how soon it is noticed that an end is gone
    Duration sweep = std::chrono::seconds(1);        ///< the same of a reservation
    Duration busy_retry = std::chrono::seconds(10);  ///< what `busy` advises
  };
  /// All of it outlives it.
  struct Needs {
    asio::any_io_executor executor;
    net::Endpoint& endpoint;
    Clock& clock;
    Log& log;
    Metrics& metrics;
    OpenTopics& topics;
    /// Where the connection of a peer comes from; nothing while it is not connected, or only by a circuit.
    std::function<std::optional<std::string>(const PeerId&)> host_of;
    std::function<bool()> can_be_dialled;  ///< else there is nothing to offer
  };

  RelayServer(Needs needs, const Options& options);
  RelayServer(const RelayServer&) = delete;
  RelayServer& operator=(const RelayServer&) = delete;

  /// Carries, until cancelled. Before and after it grants nothing.
  Task<> run();

  std::size_t reservations() const noexcept { return reservations_.size(); }
  std::size_t circuits() const noexcept { return circuits_.size(); }

 private:
  struct Reservation {
    TimePoint until;
    std::string network;  ///< that it counts for
  };
  struct Circuit;

  std::optional<Refusal> refuses(const PeerId& from) const;
  net::Answer on_reserve(const PeerId& from, const Frame& request);
  net::Answer on_release(const PeerId& from, const Frame& request);
  Task<net::Answer> on_connect(PeerId from, Frame request, TimePoint deadline);
  net::Answer on_whence(const PeerId& from, const Frame& request) const;
  bool is_reserved(const PeerId& peer) const;
  bool leads_onward(const wire::Connect& ask) const;
  std::optional<wire::CircuitClass> choose(std::uint8_t wanted, const PeerId& asker, const PeerId& asked) const;
  bool has_room(wire::CircuitClass which, const PeerId& asker, const PeerId& asked) const;
  std::string network_of(const PeerId& peer) const;
  const Quota& quota(wire::CircuitClass which) const;
  Task<bool> is_welcome(const Circuit& circuit, const wire::CircuitId& id, TimePoint deadline);

  Task<> carry(std::shared_ptr<Circuit> circuit);
  Task<> pump(Circuit& circuit, bool from_asker);
  Task<> watch(Circuit& circuit);
  Task<> pay(Circuit& circuit, std::size_t bytes);
  Task<> say_to_both(Circuit& circuit, Frame frame);
  void sweep();
  void count();

  Needs needs_;
  Options options_;
  TaskGroup* tasks_ = nullptr;
  std::map<PeerId, Reservation> reservations_;
  std::set<std::shared_ptr<Circuit>> circuits_;
  net::TokenBucket signal_rate_;
  net::TokenBucket bulk_rate_;
  Signal reserved_;  ///< by the first one
};

}  // namespace collab::nat
