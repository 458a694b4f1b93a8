#pragma once
// One node's share of the notice board. Every node has one: it holds what the node reads as well, so a node that
// becomes a server, because others died, has most of it already.

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/random.hpp"
#include "directory/contacts.hpp"
#include "directory/key_signals.hpp"
#include "directory/server_set.hpp"
#include "directory/storage.hpp"
#include "net/endpoint.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace collab::directory {

struct ServerOptions {
  Storage::Options storage;                            ///< its rules name the run and the authority
  std::vector<PeerId> bootstrap;                       ///< servers by configuration
  Duration compare_period = std::chrono::seconds(10);  ///< between two comparisons with the other servers
  Duration compare_timeout = std::chrono::seconds(8);
  std::size_t compared_max = 8;                           ///< other servers at a time, at random
  Duration watch_bundle = std::chrono::milliseconds(50);  ///< changes that come so close share an answer
  Duration renewals_bundle = std::chrono::seconds(2);     ///< so long the first of mere renewals waits for others
  Duration watch_wait_max = std::chrono::seconds(30);
  std::size_t watches_per_peer_max = 32;  ///< more are answered `busy`
  /// The time of expiries, Unix milliseconds; swarm time when there is one. Empty: the clock's.
  std::function<std::int64_t()> unix_ms;
  /// The /24 or /48 of a connected peer, for the quota per network. Empty, or an empty answer: no such quota.
  std::function<std::string(const PeerId&)> origin;
};

/// Registers directory.put, .get, .watch and .exchange. Thread safety: none; belongs to the node's loop. Outlives every
/// call the endpoint is handling.
class Server {
 public:
  Server(net::Endpoint&, Clock&, Random, Log&, asio::any_io_executor, ServerOptions);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Forgets what expired and, while this node is among the servers, compares with the others. Until cancelled.
  Task<> run();

  /// Answers every watch that waits, and waits no more: an open question would hold its connection when the node
  /// leaves.
  void stop_waiting();

  /// Stores what this node has read or written itself, by all the rules, and wakes who waits for the key.
  Storage::Offered accept(SignedRecord record, Storage::Source source, const std::string& origin = {});
  const Storage& storage() const noexcept { return storage_; }
  KeySignals& signals() noexcept { return signals_; }
  /// Up to date at the time of the call.
  const ServerSet& servers();
  std::int64_t unix_ms() const { return options_.unix_ms ? options_.unix_ms() : clock_.unix_ms(); }
  const RecordRules& rules() const noexcept { return options_.storage.rules; }
  /// Handed out when asked; null: none. Before the node starts.
  void share(const Contacts* contacts) noexcept { contacts_ = contacts; }

 private:
  struct Watcher;

  void register_methods();
  Task<net::Answer> on_put(PeerId from, Frame request);
  Task<net::Answer> on_get(Frame request);
  Task<net::Answer> on_watch(PeerId from, Frame request, TimePoint deadline);
  Task<net::Answer> on_exchange(Frame request);
  Task<> compare_with_all();
  Task<> compare_with(PeerId other);

  net::Endpoint& net_;
  Clock& clock_;
  Random random_;
  Log& log_;
  asio::any_io_executor executor_;
  ServerOptions options_;
  Storage storage_;
  ServerSet servers_;
  KeySignals signals_;
  const Contacts* contacts_ = nullptr;
  std::uint64_t instance_;
  bool waits_ = true;
  std::map<PeerId, std::size_t> watches_;
};

}  // namespace collab::directory
