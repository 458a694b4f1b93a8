#pragma once
// Keeps what this node says at every server, for as long as it wants to have it said.

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/signal.hpp"
#include "base/task_group.hpp"
#include "directory/router.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace collab::directory {

struct PublisherOptions {
  Duration ttl_max = std::chrono::seconds(100);  ///< longer ones are cut: the window of a record is 120 s
  std::size_t publications_max = 60;             ///< an owner's quota is 64 records
  Duration put_timeout = std::chrono::seconds(5);
  Duration retry_min = std::chrono::milliseconds(500);  ///< of one server, doubled after each failure
  Duration retry_max = std::chrono::seconds(8);
  /// A claim counts no sooner after the set of servers was last seen to change: when a swarm begins, its peers see
  /// different sets, whose majorities need not meet.
  Duration settled = std::chrono::seconds(1);
};

/// One task per server: a frozen one delays nobody else. Thread safety: none; belongs to the node's loop.
class Publisher {
 public:
  /// `identity` signs; its id is that of the endpoint.
  Publisher(Clock&, Random, Log&, asio::any_io_executor, const Identity& identity, Server&, Client&, Router&,
            PublisherOptions);
  Publisher(const Publisher&) = delete;
  Publisher& operator=(const Publisher&) = delete;

  /// See Directory. Visible to this node's own readers at once.
  void publish(const std::string& key, const std::string& subkey, Bytes value, Duration ttl);
  void withdraw(const std::string& key, const std::string& subkey);
  Task<Result<>> claim(std::string key, std::string subkey, Bytes value, Duration ttl, TimePoint deadline);
  /// Puts and renews. Until cancelled.
  Task<> run();

 private:
  using Name = std::pair<std::string, std::string>;  ///< key, subkey
  struct Publication {
    SignedRecord record;
    Duration ttl{};
    TimePoint renew_at{};
    bool withdrawn = false;
  };
  /// What a server has, or has refused for good: until it restarts, and its memory is another one.
  struct Delivered {
    std::uint64_t sequence = 0;
    std::optional<std::uint64_t> instance;  ///< of that memory; empty: it tells none
  };
  struct Feed {
    std::map<Name, Delivered> delivered;
    bool running = false;
  };

  /// Who has taken, and who has refused, what is being claimed.
  struct Tally {
    std::uint64_t sequence = 0;  ///< of the first record with the claimed value
    std::set<PeerId> taken;
    std::set<PeerId> refused;
  };
  struct Count;

  std::optional<Result<>> verdict(const std::string& key, const Tally& tally) const;
  /// When the servers of this moment, if they stay, are settled.
  TimePoint settled_at(const std::string& key);
  /// Looks whether they are the same still.
  void see_servers();
  void sign(Publication& publication, Record draft);
  void renew_what_is_due();
  TimePoint next_renewal() const;
  Task<> feed(PeerId server);
  Task<> rest(PeerId server, TimePoint until);
  std::vector<SignedRecord> pending(const PeerId& server) const;
  bool delivered(const PeerId& server, const Name& name, const Publication& publication) const;
  /// Those who are to be fed and are not: servers of everything always, nodes when there is something for them.
  std::vector<PeerId> hungry();
  bool is_fed_always(const PeerId& server) const;
  /// How long to leave the server alone.
  Duration take_outcomes(const PeerId& server, const std::vector<SignedRecord>& sent, const Client::Written& written);
  void go_above(const SignedRecord& newer);

  Clock& clock_;
  Random random_;
  Log& log_;
  asio::any_io_executor executor_;
  const Identity& identity_;
  Server& server_;
  Client& client_;
  Router& router_;
  PublisherOptions options_;
  std::uint64_t first_sequence_;
  std::map<Name, Publication> publications_;
  std::map<PeerId, Feed> feeds_;
  std::map<Name, Tally> tallies_;                     ///< of claims that wait
  std::uint64_t changes_ = 0;                         ///< of what there is to put, or is put
  std::uint64_t looked_through_ = ~std::uint64_t(0);  ///< when there was nothing left to put: what had changed by then,
  TimePoint look_again_{};                            ///< and until when that is believed
  std::vector<PeerId> seen_servers_;
  TimePoint servers_since_{};
  Signal wake_;
  Signal counted_;
};

}  // namespace collab::directory
