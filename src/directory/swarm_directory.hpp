#pragma once
// The directory as every node uses it: written to all servers of a key, read from several and merged, newest wins.

#include "directory/client.hpp"
#include "directory/directory.hpp"
#include "directory/publisher.hpp"
#include "directory/server.hpp"

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace collab::directory {

struct SwarmDirectoryOptions {
  PublisherOptions publisher;
  RouterOptions router;
  Duration poll_period = std::chrono::seconds(10);     ///< of a watched key, +- 10 %: get is the truth
  Duration lost_for = std::chrono::seconds(10);        ///< whom a connection was lost to is not watched for so long
  std::size_t polled_servers = 2;                      ///< at random
  Duration crowded_period = std::chrono::seconds(30);  ///< of a key that many watch, instead: one of them is asked
  unsigned calm_doublings = 2;                         ///< of either, in a large swarm, while a watch had all news
  Duration poll_timeout = std::chrono::seconds(5);
  Duration watch_wait = std::chrono::seconds(30);   ///< of one long poll
  Duration watch_stay = std::chrono::seconds(30);   ///< with one server, or half as long or half as long again
  Duration watch_grace = std::chrono::seconds(5);   ///< after it, for the way there and back
  Duration told_pause = std::chrono::seconds(2);    ///< at most, between long polls while puts bring the news
  Duration retry = std::chrono::milliseconds(200);  ///< after a server failed, until the next is asked
  Duration connected_window = std::chrono::seconds(15);
  Duration probe_period = std::chrono::seconds(10);     ///< contacts that are no members are tried this often,
  std::size_t probes = 4;                               ///< so many at a time, the longest untried first
  Duration contacts_period = std::chrono::seconds(60);  ///< between two exchanges and writes of contacts
  std::filesystem::path contacts_file;                  ///< empty: they are not kept
};

/// Reads through, and serves its own readers from, this node's `Server`: what reaches that by a put, a comparison or a
/// read is seen by every watch at once. Thread safety: none; belongs to the node's loop. Outlives its watches.
class SwarmDirectory final : public Directory {
 public:
  /// `workers` write the contacts file. All references outlive this object. Introduces the contacts to `net`.
  SwarmDirectory(net::Endpoint& net, Clock& clock, Random random, Log& log, asio::any_io_executor loop,
                 asio::any_io_executor workers, const Identity& identity, Server& server, Contacts& contacts,
                 SwarmDirectoryOptions options);

  /// Everything that goes on in background. Until cancelled; what is published and watched before waits for it.
  Task<> run();

  void publish(std::string key, std::string subkey, Bytes value, Duration ttl) override;
  void withdraw(const std::string& key, const std::string& subkey) override;
  Task<Result<>> claim(std::string key, std::string subkey, Bytes value, Duration ttl, TimePoint deadline) override;
  Task<Result<std::vector<Record>>> get(std::string key, TimePoint deadline) override;
  std::unique_ptr<Watch> watch(std::string key) override;
  bool connected() const override;
  TimePoint steady_since() const override;

  /// Brings records of any owner to all servers, this node's own too: once, without a word about what they answer.
  Task<> hand_on(std::vector<SignedRecord> records);
  /// Somebody of the run to ask at once, whoever he is: one such contact between two halves of a swarm joins them.
  void meet(Contact contact);
  /// Where keys are; for who measures.
  Router& router() noexcept { return router_; }

 private:
  class View;
  struct Followed {
    std::size_t watches = 0;
    bool running = false;
    std::map<PeerId, Cursor> cursors;  ///< of the servers that were asked
    std::multiset<Duration> paces;     ///< of its watches
    std::vector<Record> records;       ///< as of the last look
    std::uint64_t version = 0;         ///< visible in the storage, then,
    std::uint64_t newest = 0;          ///< and the newest change there
    std::int64_t next_expiry_ms = 0;   ///< of one of them
    std::uint64_t changes = 0;         ///< that looks have found
  };

  Followed& follow(const std::string& key);
  void unfollow(const std::string& key);
  void look(const std::string& key, Followed& followed) const;
  Task<> keep_followed(std::string key);
  Duration pace_of(const std::string& key) const;
  Task<> long_poll(std::string key);
  Task<> poll(std::string key);
  Task<bool> get_routed(std::string key, TimePoint deadline);
  void tell_failed(std::string_view event, const PeerId& server, boost::system::error_code why);
  /// Its connection broke, or it could not be dialled, a moment ago.
  bool lately_lost(const PeerId& server) const;
  std::vector<PeerId> polled(const std::string& key);
  struct Heard {
    std::size_t answered = 0;  ///< servers
    std::size_t news = 0;      ///< records that were not here yet
  };
  Task<Heard> ask(std::string key, std::vector<PeerId> servers, bool contacts, TimePoint deadline);
  Task<> ask_one(std::string key, PeerId server, bool contacts, TimePoint deadline, Heard& heard);
  Task<> rest(Duration pause);
  Task<> probe_contacts();
  Task<> probe(PeerId contact);
  std::vector<PeerId> next_probes(bool met_only);
  bool is_calm() const;
  Task<> keep_contacts();
  Task<> tell_when_unreachable();
  std::vector<Record> current(const std::string& key) const;

  net::Endpoint& net_;
  Clock& clock_;
  Random random_;
  Log& log_;
  asio::any_io_executor loop_;
  asio::any_io_executor workers_;
  Server& server_;
  Contacts& contacts_;
  SwarmDirectoryOptions options_;
  Client client_;
  Router router_;
  Publisher publisher_;
  std::map<std::string, Followed> followed_;
  std::map<PeerId, TimePoint> tried_;  ///< contacts, when they were probed last; those to be met: the beginning of time
  std::optional<TimePoint> contacts_asked_;
  Signal followed_changed_;
  KeySignals released_;
  Signal met_;
};

}  // namespace collab::directory
