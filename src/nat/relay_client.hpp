#pragma once
// Places at relays, for a node that nobody can dial.

#include "base/log.hpp"
#include "base/random.hpp"
#include "base/signal.hpp"
#include "nat/relay_wire.hpp"
#include "net/endpoint.hpp"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace collab::nat {

/// Keeps reservations at relays of different networks, the nearest first, for as long as they are wanted; replaces one
/// whose relay hangs up, or falls silent: nobody else would notice that for long, and nobody is led here meanwhile.
/// Thread safety: none; belongs to the node's loop.
class RelayClient {
 public:
  struct Options {
    std::size_t reservations = 2;
    Duration look = std::chrono::milliseconds(500);  ///< how soon it is noticed that a relay hung up
    Duration silence = std::chrono::seconds(4);      ///< then a sign of life is asked for, and awaited as long
    Duration call_time = std::chrono::seconds(5);
    Duration again = std::chrono::minutes(1);          ///< before a relay that refused is asked again, at most
    Duration silent_again = std::chrono::seconds(10);  ///< the same of one that fell silent: it may be the only one
    std::size_t refused_max = 1024;                    ///< that are remembered
  };
  /// Who could be one.
  struct Candidate {
    PeerId peer;
    net::Address at;  ///< bare TCP
  };
  /// All of it outlives it.
  struct Needs {
    asio::any_io_executor executor;
    net::Endpoint& endpoint;
    Clock& clock;
    Random random;
    Log& log;
    std::function<std::vector<Candidate>()> candidates;
    std::function<bool()> wanted;
    std::function<void(const PeerId&)> probe;  ///< asks for a sign of life on the connection that there is
  };

  RelayClient(Needs needs, const Options& options);
  RelayClient(const RelayClient&) = delete;
  RelayClient& operator=(const RelayClient&) = delete;

  /// Until cancelled. Does nothing while they are not wanted, until `look_again`.
  Task<> run();
  /// Whether they are wanted may have changed.
  void look_again() { again_.notify(); }
  /// Where others dial this node: one for each reservation, the nearest relay first.
  std::vector<net::Address> addresses() const;
  bool has(const PeerId& relay) const { return held_.contains(relay); }
  std::size_t size() const noexcept { return held_.size(); }
  /// Notified when `addresses()` has changed.
  Signal& changed() noexcept { return changed_; }

 private:
  struct Held {
    net::Address at;
    TimePoint renew_at;
    TimePoint until;
    TimePoint probed_at{};  ///< since when nothing came
  };

  Task<> look();
  Task<> reserve(Candidate at);
  Task<> release_all();
  void drop_lost();
  bool fell_silent(const PeerId& relay, Held& held);
  void refuse_until(const PeerId& relay, TimePoint until);
  std::optional<Candidate> choose();

  Needs needs_;
  Options options_;
  std::map<PeerId, Held> held_;
  std::map<PeerId, TimePoint> refused_;  ///< until when
  Signal changed_;
  Signal again_;
};

}  // namespace collab::nat
