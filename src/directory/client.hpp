#pragma once
// What a node says to servers and learns from their answers, call by call.

#include "base/clock.hpp"
#include "base/log.hpp"
#include "directory/contacts.hpp"
#include "directory/server.hpp"
#include "directory/wire.hpp"
#include "net/endpoint.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace collab::directory {

/// Where a reader stands in one server's changes of one key. The default is the beginning.
struct Cursor {
  std::uint64_t instance = 0;
  std::uint64_t since = 0;
  bool operator==(const Cursor&) const = default;
};

/// Everything that is read goes into the node's own `Server` by the same rules as what is put there; servers that an
/// answer names as well. Thread safety: none; belongs to the node's loop.
class Client {
 public:
  Client(net::Endpoint& net, Clock& clock, Random random, Server& server, Contacts& contacts)
      : net_(net), clock_(clock), random_(random), server_(server), contacts_(contacts) {}
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// The servers but this node, those that can be reached, in random order.
  std::vector<PeerId> others();

  struct Read {
    Cursor next;
    bool more = false;
    std::size_t records = 0;    ///< on the page,
    std::size_t news = 0;       ///< of which so many were not here yet
    std::uint8_t distance = 0;  ///< of the server from the key's keepers: `Server::distance`
  };
  struct Question {
    std::string key;
    Cursor from;
    Duration wait{};        ///< for a change; zero: answer at once
    bool contacts = false;  ///< ask for some too
    bool tells = false;     ///< what is here already, when that is much
  };
  /// One page. Errors: those of `Endpoint::call`; `bad_request` for an answer that no correct server gives.
  Task<Result<Read>> read(PeerId server, Question question, TimePoint deadline);

  struct Written {
    std::vector<wire::Outcome> outcomes;  ///< as many as were put
    std::vector<SignedRecord> newer;      ///< for outcomes of code 1, in order
  };
  /// `records`: 1..kPutRecordsMax. Errors: as `read`.
  Task<Result<Written>> put(PeerId server, std::vector<SignedRecord> records, TimePoint deadline);

  struct Search {
    std::string key;                      ///< empty: nodes only
    Place place{};                        ///< of an empty key
    bool values = false;                  ///< the records of `key` too
    std::size_t nodes = wire::kNodesMax;  ///< to be named, at most
  };
  struct Nearby {
    bool serves = false;
    std::vector<RouteNode> nodes;
    std::vector<PeerId> followers;  ///< introduced to the endpoint
    std::size_t records = 0;
    Cursor next;
    bool more = false;  ///< to be read from `next` on
  };
  /// The nodes that `node` knows nearest, and what it has. Says who this node is, when that may be news. Who answers
  /// and serves is admitted to the routing table. Errors: as `read`.
  Task<Result<Nearby>> find(RouteNode node, Search search, TimePoint deadline);
  /// Whether its last call failed, lately.
  bool failing(const PeerId& node) const { return failing_.contains(node); }
  /// Who knows of many nodes while this one knows few; once.
  std::optional<PeerId> take_guide() { return std::exchange(guide_, std::nullopt); }

  /// Records of servers that `server` did not name when it last answered, now to be put there; each is given once per
  /// answer.
  std::vector<SignedRecord> take_lacking(const PeerId& server, std::size_t count_max);
  bool connected(const PeerId& server) const { return net_.link(server).connected; }
  /// Of `server`'s memory, by its last answer: a restarted one has another, and nothing of what was put there. Empty:
  /// not known.
  std::optional<std::uint64_t> instance_of(const PeerId& server) const;
  /// When another node last answered.
  std::optional<TimePoint> answered_at() const noexcept { return answered_at_; }

 private:
  /// Takes `count` records of `key` off `payload`; those that are here already are looked at no further. Errors:
  /// `bad_request`.
  Result<std::vector<SignedRecord>> fresh_records(std::span<const std::byte>& payload, std::size_t count,
                                                  std::string_view key) const;
  /// Takes `known` servers off `payload` and finds out which ones `server` lacks. False: malformed.
  bool take_named(const PeerId& server, std::span<const std::byte>& payload, std::uint32_t known,
                  std::uint64_t its_hash);
  void take_contacts(const std::vector<wire::KnownPeer>& contacts);
  /// What a call's end says about whoever was called.
  void judge(const PeerId& node, const net::Answer& answer);
  void take_guide_from(const PeerId& node, std::uint32_t nodes);
  void take_instance(const PeerId& server, std::uint64_t instance);
  Bytes known_of(const std::string& key) const;
  Frame encode_search(const RouteNode& node, Search search);

  net::Endpoint& net_;
  Clock& clock_;
  Random random_;
  Server& server_;
  Contacts& contacts_;
  std::map<PeerId, std::set<PeerId>> lacking_;
  std::map<PeerId, std::uint64_t> instances_;
  std::optional<TimePoint> answered_at_;
  std::map<PeerId, TimePoint> failing_;
  std::optional<PeerId> guide_;
};

}  // namespace collab::directory
