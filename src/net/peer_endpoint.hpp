#pragma once
// The production endpoint: TLS connections over a Network, one for each pair of peers.

#include "base/log.hpp"
#include "base/metrics.hpp"
#include "base/random.hpp"
#include "base/task_group.hpp"
#include "crypto/identity.hpp"
#include "net/connection.hpp"
#include "net/conversations.hpp"
#include "net/credentials.hpp"
#include "net/dials.hpp"
#include "net/limits.hpp"
#include "net/links.hpp"
#include "net/network.hpp"
#include "net/observed_host.hpp"
#include "net/peer_table.hpp"
#include "net/rpc.hpp"
#include "net/swarm_time.hpp"

#include <boost/container/flat_set.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace collab::net {

struct EndpointOptions {
  std::string run;                    ///< 1 to 64 of a-z 0-9 . _ -
  std::string software;               ///< name and version, for people; at most 64 bytes
  std::vector<std::string> features;  ///< that this node understands
  std::vector<std::string> roles;
  std::vector<Address> listen;    ///< where to accept; empty: a client, which dials only
  std::vector<Address> announce;  ///< where others may dial; empty: where it listens, as they see this host
  Duration handshake_time = std::chrono::seconds(10);
  Duration tick = std::chrono::milliseconds(250);  ///< how exactly silence and overdue work are noticed
  Gate::Options gate;
  PeerTable::Options peers;
  Links::Options links;
  CallOptions calls;
  Conversations::Options conversations;
  DialOptions dial;
  OnwardRelays onward;  ///< may be empty
  /// Beyond so many, those that this node dialled and nobody uses are closed, the longest quiet first: in a large swarm
  /// looking for others opens one to most of them. Whoever was dialled can be dialled again.
  std::size_t connections_kept = 96;
  Duration unused_after = std::chrono::seconds(25);  ///< by then the other end would have asked, if it waited for us
  double refusals_per_s = 100;  ///< streams of one peer that are refused, for whatever reason; more: it floods
  double refusals_burst = 1000;
};

/// Lives on one loop. `run()` is its life: nothing is accepted, dialled or answered before and after.
class PeerEndpoint final : public Endpoint,
                           private ConnectionOwner,
                           private LinksUser,
                           private DialsUser,
                           private Paths {
 public:
  /// What it needs of its node; all of it outlives the endpoint. `random` is for ids and back-off, not for keys.
  struct Needs {
    asio::any_io_executor executor;
    Clock& clock;
    Network& network;
    Random random;
    Log& log;
    Metrics& metrics;
    const Identity& identity;
    Access& access;  ///< refreshed here, every second
  };

  PeerEndpoint(const Needs& needs, EndpointOptions options);
  ~PeerEndpoint() override;

  /// Opens the ports. Throws `Failure(machine)` when one cannot be had, `Failure(usage)` for a foreign address.
  void listen();
  /// Where it listens, with the ports that the system chose; not where circuits come in.
  std::vector<Address> listening() const;
  /// Accepts, dials, pings and answers until cancelled. Listens first, when nobody called `listen()`.
  Task<> run();
  /// Says goodbye, lets streams finish for at most `links.drain_max`, closes all connections. Call it before cancelling
  /// `run()`.
  Task<> leave();

  /// First contact: whoever answers at `address`. Who is connected already stays as connected as before. Errors:
  /// `gone`, `late`; `denied`, `busy` with the peer's own words (another version or run, a clock that is off, banned).
  Task<boost::system::result<PeerId, Refusal>> connect(Address address, TimePoint deadline) {
    return dials_.connect(std::move(address), deadline);
  }

  /// TLS and hellos on a stream that was opened elsewhere, with `expected` at its other end: `side` says who is its TLS
  /// client. Not a connection until it is adopted; without that it closes when it is let go, and the other end, if it
  /// is connected otherwise, does not use it before it has heard something after the hellos. Errors: as of
  /// `open_dialled`; `late`.
  Task<OpenResult> greet(std::unique_ptr<ByteStream> stream, Side side, PeerId expected, TimePoint deadline);
  /// From now on a connection as any other, with a place at the gate as those who dial here; or the way of one that
  /// there was, then it waits until that has moved. False: there is no place, or this node is not running, or leaving.
  Task<bool> adopt(std::unique_ptr<Opened> opened);

  /// Milliseconds since 1970 as the swarm agrees: own steady clock plus the median skew of the connected peers.
  std::int64_t swarm_ms() const override { return time_.swarm_ms(); }
  /// The time this peer takes for the swarm's minus our clock, to half a round trip; none while not connected.
  std::optional<std::int64_t> skew_ms(const PeerId& peer) const;
  /// See ObservedHost.
  const std::optional<std::string>& observed_host() const noexcept { return observed_host_.host(); }
  /// Notified when that is another one than before: others see this node elsewhere.
  Signal& moved() noexcept { return observed_host_.moved(); }
  /// Asks for a sign of life on the connection to `peer`, if there is one. Dials nobody.
  void probe(const PeerId& peer);
  Credentials& credentials() noexcept { return credentials_; }
  /// Whether `peer` is out of the run, for everybody: the authority has banned it, or the token that it has shown here
  /// was revoked or expired while it was connected, and it has shown no other since. Not who is blocked here, nor a
  /// stranger: others may admit them.
  bool expelled(const PeerId& peer) const;
  /// Notified when a peer, connected until then, has ended that because it does not admit this node any more.
  Signal& turned_away() noexcept { return turned_away_; }
  const MethodTable& methods() const noexcept { return methods_; }
  std::vector<PeerId> connected() const;
  /// Where its connection comes from, or goes to; none while not connected, through a relay only, or punched: then a
  /// hole in a router leads there, which says nothing about where others find it.
  std::optional<Address> remote_of(const PeerId& peer) const;
  /// This end of the same connection.
  std::optional<Address> local_of(const PeerId& peer) const;
  /// Who carries the circuit that leads to it; none while there is none, or something better.
  std::optional<PeerId> relay_of(const PeerId& peer) const;
  /// `ByteStream::path` of what this node has dialled and is connected to, the barest there is; empty: nothing.
  std::string_view way_out() const;

  const PeerId& self() const override { return needs_.identity.id(); }
  void handle(Method method, Handler handler) override;
  void allow_conversation(Method protocol) override;
  Task<Answer> call(PeerId to, std::string_view method, Frame request, TimePoint deadline) override;
  std::unique_ptr<Conversation> converse(std::string_view protocol, const Topic& topic,
                                         std::vector<PeerId> members) override;
  LinkState link(const PeerId& peer) const override;
  Caps caps() const override { return needs_.network.caps(); }
  void introduce(const PeerId& peer, std::vector<Address> addresses) override;
  void introduce_relays(const PeerId& peer, std::vector<Address> relays) override;
  std::vector<PeerId> tensor_relays() const override;
  bool can_reach(const PeerId& peer) const override;

 private:
  /// A peer with whom something happens now.
  struct Partner {
    int waiting = 0;
    int conversing = 0;
    TokenBucket refusals;  ///< that it may still cause
    bool floods = false;   ///< it caused more; until its connection is closed for that
  };

  // of ConnectionOwner
  void on_heard(Connection&) override;
  Accepted on_open(Connection&, StreamHandle, TrafficClass, OpenHead head, std::size_t message_bytes) override;
  void on_violation(Connection&, std::string_view rule) override;
  void on_trouble(Connection&, std::string_view reason) override;
  void on_skew(Connection&) override { agree_soon(); }
  void on_goaway(Connection&, const std::string& reason) override;
  void on_refused(Connection&, const Refusal& why) override;
  void on_new_path(Connection&) override;
  // of LinksUser
  void on_superseded(Connection&) override;
  void on_change(const PeerId&) override;
  // of DialsUser
  Task<> on_dialled(std::unique_ptr<Opened> opened) override;
  // of Paths
  Task<Reached> reach(PeerId peer, TimePoint deadline) override { return dials_.reach(peer, deadline, false); }
  Task<Reached> reach_for_tensors(PeerId peer, TimePoint deadline) override {
    return dials_.reach(peer, deadline, true);
  }
  Multiplexer* find(std::uint64_t serial) override;
  Duration rtt_least(std::uint64_t serial) const override;
  void waits(const PeerId& peer, int change) override;
  void converses(const PeerId& peer, int change) override;
  void share_line() override;

  std::int64_t own_ms() const override;
  Links::Needs links_needs();
  Dials::Needs dials_needs();
  Hello hello() const;
  std::optional<Refuse> welcome(const PeerId& peer, const Hello& theirs) const;
  Partner& partner(const PeerId& peer);
  bool is_for_relays(TrafficClass traffic, const OpenHead& head) const;

  Task<> accept_loop(Listener& listener);
  Task<> admit(std::unique_ptr<ByteStream> stream, Gate::Place place);
  Task<> serve(std::uint64_t serial);
  Task<> tick_loop();
  void tick(TimePoint now);
  /// Asked for time and again, so what the peers' clocks say is not looked up each time.
  bool agree_on_time();
  void part_for_clock();
  void agree_soon();
  void look_at_all(TimePoint now);
  void look_at_observers();
  void tick_connection(Connection& connection, TimePoint now);
  bool is_used(const Connection& connection);
  void renew(Connection& circuit, TimePoint now);
  void look_soon(const Connection& connection) { lively_.insert(connection.streams().serial()); }
  void look_soon(const PeerId& peer);
  void check_access(TimePoint now);
  void close_unused(TimePoint now);
  void count_traffic();

  std::uint64_t attach(std::unique_ptr<Opened> opened, std::optional<Gate::Place> place = std::nullopt);
  void met(Connection& connection);
  Task<> move(std::unique_ptr<Opened> opened, std::optional<Gate::Place> place = std::nullopt);
  void detach(std::uint64_t serial);
  void learn(const Connection& connection);
  void refused(std::string_view reason, const Refusal& why);

  Needs needs_;
  EndpointOptions options_;
  TlsContext tls_;
  OpeningRules rules_;
  MethodTable methods_;
  Credentials credentials_;
  CallServer server_;
  CallClient client_;
  Conversations conversations_;
  PeerTable peers_;
  Links links_;
  Dials dials_;
  Gate gate_;
  std::map<std::uint64_t, Gate::Place> places_;  ///< of connections whose stream was accepted
  SwarmTime time_;

  TaskGroup* tasks_ = nullptr;  ///< while run() runs
  bool leaving_ = false;
  std::map<PeerId, Partner> partners_;
  std::vector<std::unique_ptr<Listener>> listeners_;  ///< what has come and nobody took ends while the rest is there
  std::uint64_t incarnation_;
  TimePoint ticked_;
  TimePoint looked_at_all_;
  /// Connections that each tick looks at; at the others one in `kAllPeriod` does.
  boost::container::flat_set<std::uint64_t> lively_;
  std::map<PeerId, TimePoint> without_token_;  ///< were connected when their token ended, and when that was
  ObservedHost observed_host_;
  bool observers_changed_ = false;  ///< since it looked
  Traffic counted_;                 ///< of connections, in the metrics already
  Signal detached_;                 ///< or goes another way
  Signal turned_away_;
};

}  // namespace collab::net
