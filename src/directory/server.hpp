#pragma once
// One node's share of the notice board. Every node has one: it holds what the node reads as well, so a node that
// becomes a server, because others died, has most of it already.

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/random.hpp"
#include "directory/contacts.hpp"
#include "directory/hand_over.hpp"
#include "directory/key_signals.hpp"
#include "directory/routing_table.hpp"
#include "directory/server_set.hpp"
#include "directory/storage.hpp"
#include "net/endpoint.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace collab::directory {

/// Who keeps what, as one node sees it: a function of how many nodes it knows that can be dialled (itself too). Views
/// that differ by less than twofold are of one form or of neighbours, and neighbours understand each other: what one
/// writes the other finds. So nothing has to be agreed on, and no record is lost on the way.
enum class Form : std::uint8_t {
  whole,   ///< fewer than k: the servers of `ServerSet` keep everything
  both,    ///< fewer than 2 k: those, and the nodes nearest to a key's place; written to both, read from both
  routed,  ///< the nodes nearest to a key's place keep it
};

struct RoutingOptions {
  std::size_t k = 20;        ///< nodes of one distance that are remembered, and nodes of one answer
  std::size_t replicas = 5;  ///< nodes nearest to a key that keep it
  /// Of one key, by other peers; more are answered `busy` and find others who watch it (wire::Found::followers). Those
  /// spread the news further: so 2000 watchers of 2000 records of 300 bytes, each renewed every 10 s, cost a server 1.9
  /// MB/s, where 5 servers alone would send 24 MB/s each.
  std::size_t watches_per_key_max = 32;
  Duration silent_max = std::chrono::seconds(120);  ///< who says nothing, nor has a record, is forgotten
  Duration hand_over_period = std::chrono::seconds(5);
};

struct ServerOptions {
  RoutingOptions routing;
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

/// Registers directory.put, .get, .watch, .exchange and .find. Thread safety: none; belongs to the node's loop.
/// Outlives every call the endpoint is handling.
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
  /// What this node says of `servers` in a message: zero when it finds them by their places.
  std::uint64_t servers_hash() { return form() == Form::routed ? 0 : servers().hash(); }
  Form form() const noexcept;
  /// Whether others can dial this node, by its own record: it may be in their tables then.
  bool serves() const noexcept { return serves_; }
  RoutingTable& table() noexcept { return table_; }
  const RoutingTable& table() const noexcept { return table_; }
  const RoutingOptions& routing() const noexcept { return options_.routing; }
  const PeerId& self() const { return net_.self(); }
  Place place(const std::string& key) const { return place_of(rules().run, key); }
  /// Whether `node` is among those nearest to `key` that keep it in a large swarm.
  bool keeps(const PeerId& node, const std::string& key) const;
  /// How news of `key` come here: 0, they are put here; 1, from a node that keeps it; 2, otherwise or not at all.
  /// Watches are answered by the first two only, so nobody waits for news from himself.
  std::uint8_t distance(const std::string& key) const;
  /// This node watches `key` at one that keeps it, or no more.
  void pass_on(const std::string& key, bool passes);
  /// He has spoken to this node and says that he serves: takes him into the table when he was dialled, or his signed
  /// record says that others did, and there is room.
  void admit(RouteNode node);
  /// The `replicas` nodes nearest to a place by what this node knows, itself among them; nearest first.
  std::vector<PeerId> nearest_to(const Place&) const;
  /// What this node says of itself under "peer"; null: nothing yet.
  const SignedRecord* own_record() const;
  /// The same as it travels; empty: nothing yet. Valid until the storage changes.
  std::span<const std::byte> own_encoded() const;
  bool is_bootstrap(const PeerId& id) const { return servers_.is_bootstrap(id); }
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
  Task<net::Answer> on_find(PeerId from, Frame request);
  /// A record of key "peer" has come: its owner can be dialled now, or no more.
  void learn(const PeerId& owner);
  std::vector<net::Address> said_addresses(const PeerId& peer) const;
  void meet(const PeerId& from, std::span<const std::byte> payload, std::uint32_t records);
  std::vector<Bytes> followers(const std::string& key, const PeerId& asker);
  void forget_silent();
  bool keeps_itself(const std::string& key) const;
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
  std::map<std::string, std::map<PeerId, std::size_t>> watched_;  ///< by key, by whom
  std::set<std::string> passed_on_;
  /// Whether this node keeps a key, as long as the table stays as it was; every wake of a watch asks.
  struct Kept {
    std::uint64_t table = 0;
    bool serves = false;
    std::map<std::string, bool> keys;
  };
  mutable Kept kept_;
  RoutingTable table_;
  bool serves_ = false;
  HandOver hand_over_;
};

}  // namespace collab::directory
