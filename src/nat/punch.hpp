#pragma once
// TCP hole punching: two peers that nobody can dial dial each other at the same moment, and need no relay any more.

#include "base/metrics.hpp"
#include "base/task_group.hpp"
#include "nat/mapping_kind.hpp"
#include "nat/punch_wire.hpp"
#include "net/limits.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace collab::nat {

/// The row of punch.connect or punch.sync: who asks needs it as well.
net::Method punch_method(std::string_view name);

/// Which of the addresses that a peer at `host` names may be dialled: of that host only, public, and no port that
/// strangers should not poke at. Each once, at most `count_max`.
std::vector<net::Address> punchable_addresses(const std::vector<std::string>& named, const std::string& host,
                                              std::size_t count_max = wire::kPunchAddressesMax);

/// Looks for circuits to peers that nobody can dial either, and tries to replace each by a connection without a relay;
/// the lower id of a pair begins. What wins is what the connection moves to. What
/// fails three times is left alone for ten minutes, at both ends.
///
/// Both dial in the family, IPv4 or IPv6, in which both have met the relay between them; in IPv6 from the address that
/// has met it, and only where nothing translates that.
///
/// **Nobody can be made to dial a third one**: what is dialled is at the host from which the other end's connection to
/// the relay comes, as the relay says, which is asked each time. A relay in league with that end could name another
/// host: then up to `rounds` times `try_time` of connection requests go to at most `dialled_max` of its ports in ten
/// minutes, for each identity; after a refusal the next one leaves `retry_min` later at the soonest, and where somebody
/// accepts them, `strangers_max` TLS hellos go out each time. No more than `per_min` tries begin in a minute, in all.
///
/// Registers punch.connect and punch.sync. Thread safety: none; belongs to the node's loop. Outlives the endpoint's
/// calls.
class Puncher {
 public:
  struct Options {
    Duration look = std::chrono::seconds(1);  ///< how soon a circuit is noticed
    std::size_t at_once_max = 4;              ///< tries that this node takes part in,
    std::size_t asked_max = 2;                ///< and of those, begun by others: they keep nobody here from his own
    double per_min = 30;                      ///< of them that begin,
    double burst = 8;                         ///< after a quiet while
    std::size_t rounds = 3;                   ///< tries of one pair
    Duration round_pause = std::chrono::seconds(1);
    Duration try_time = std::chrono::seconds(3);  ///< so long it dials
    /// After a refusal: from `retry_min` to twice the round trip by the relay, or to `retry_max`; uniform, for equal
    /// periods of both ends would keep a bad phase for ever.
    Duration retry_min = std::chrono::milliseconds(5);
    Duration retry_max = std::chrono::milliseconds(80);
    std::size_t strangers_max = 2;                      ///< who accept a dial and are not the peer: then no more
    std::size_t dialled_max = 2;                        ///< of the addresses that the other end names
    std::size_t observers_max = 4;                      ///< asked for one try, until one has told
    std::size_t busy_max = 3;                           ///< times in a row, each after twice as long; then it counts
    Duration call_time = std::chrono::seconds(12);      ///< for one question to the other end, which asks others itself
    Duration go_time = std::chrono::seconds(8);         ///< so long the asked end waits for the other's go
    Duration prepare_time = std::chrono::seconds(5);    ///< for one's own port to be seen, and again for the relay
    Duration observer_time = std::chrono::seconds(2);   ///< for one of those who may see it
    Duration handshake_time = std::chrono::seconds(5);  ///< TLS and hellos on what two dials have become
    Duration again = std::chrono::minutes(10);          ///< before a pair that failed is tried again
    std::size_t peers_max = 1024;                       ///< that failed, and are remembered; more are not tried
  };
  /// All of it outlives it.
  struct Needs {
    asio::any_io_executor executor;
    net::PeerEndpoint& endpoint;
    net::Network& network;  ///< without circuits
    Clock& clock;
    Random random;
    Log& log;
    Metrics& metrics;
    std::function<std::vector<Observer>()> observers;
    std::function<MappingKind()> mapping;  ///< of IPv4
    std::function<bool()> only_dials;      ///< nobody can dial this node
  };

  Puncher(Needs needs, const Options& options);
  Puncher(const Puncher&) = delete;
  Puncher& operator=(const Puncher&) = delete;

  /// Until cancelled. Before and after it takes part in nothing, and while `only_dials` is false it does nothing, until
  /// `look_again`.
  Task<> run();
  void look_again() { again_.notify(); }

  /// Tries that go on, of both sides.
  std::size_t going_on() const noexcept { return busy_.size(); }

 private:
  /// A fresh local port, as what it is seen, and where from it will be dialled.
  struct Prepared {
    std::unique_ptr<net::LocalPort> port;
    Sighting sighting;
  };
  /// The asked half, from its answer until the try is over.
  struct Waiting {
    explicit Waiting(const asio::any_io_executor& executor) : changed(executor) {}
    std::uint64_t attempt = 0;
    bool go = false;
    Duration way{};
    Prepared prepared;
    std::vector<net::Address> theirs;
    Signal changed;
  };
  /// What the other end answered, and how long the answer was on its way, both ways together.
  struct Agreed {
    std::vector<std::string> addresses;
    Duration way{};
  };
  /// Whom, as which side of TLS, from which port, and how long a round trip by the relay takes.
  struct Aim {
    PeerId peer;
    net::Side side;
    net::LocalPort& port;
    Duration way;
  };
  struct Tried {
    std::size_t rounds = 0;
    std::size_t busy = 0;    ///< in a row
    TimePoint not_before{};  ///< the other end was busy
    TimePoint until{};       ///< then it is forgotten
  };
  class Place;
  enum class Outcome : std::uint8_t { punched, failed, refused, busy };

  std::optional<std::string> own_host(const PeerId& peer) const;
  MappingKind mapping_at(const std::string& host) const;
  bool may_punch(const PeerId& peer) const;
  bool is_left_alone(const PeerId& peer);
  void note_try(const PeerId& peer, std::size_t rounds = 1);
  void note_busy(const PeerId& peer, std::uint64_t ms);
  std::unique_ptr<Place> enter(const PeerId& peer, bool asked);

  void look();
  Task<> punch(PeerId peer, std::unique_ptr<Place> place);
  Task<Outcome> try_once(PeerId peer);
  Task<boost::system::result<Agreed, Refusal>> ask(PeerId peer, std::uint64_t attempt, net::Address own);
  Task<> say_go(PeerId peer, std::uint64_t attempt, Duration way);

  Task<net::Answer> on_connect(PeerId from, Frame request);
  net::Answer on_sync(const PeerId& from, const Frame& request);
  std::optional<Refusal> refuses(const PeerId& from, const wire::Ask& ask);
  Task<> answer(PeerId from, std::shared_ptr<Waiting> waiting, std::unique_ptr<Place> place);

  Task<Result<Prepared>> prepare(PeerId peer);
  Task<Result<std::string>> host_of(PeerId peer);
  Duration way_of(const PeerId& peer, Duration told) const;
  Task<bool> shoot(Aim aim, std::vector<net::Address> at);
  Task<std::unique_ptr<net::Opened>> dial(Aim aim, net::Address to);

  Needs needs_;
  Options options_;
  TaskGroup* tasks_ = nullptr;
  std::set<PeerId> busy_;
  std::size_t asked_ = 0;  // of those, how many have asked us
  net::TokenBucket rate_;
  std::map<PeerId, std::shared_ptr<Waiting>> waiting_;
  std::map<PeerId, Tried> tried_;
  PeerId looked_at_{};  ///< last: the next ones come first
  Signal again_;
};

}  // namespace collab::nat
