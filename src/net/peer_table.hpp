#pragma once
// What is remembered about peers while there is no connection to them.

#include "base/clock.hpp"
#include "base/random.hpp"
#include "crypto/peer_id.hpp"
#include "net/address.hpp"

#include <boost/container/flat_map.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace collab::net {

struct KnownPeer {
  std::vector<Address> addresses;
  std::vector<Address> relays;  ///< that lead to it
  bool bare_in_vain = false;    ///< when it was dialled last, something else than bare TCP led there
  TimePoint direct_at{};        ///< when there was last a connection without a relay
  TimePoint lost_at{};          ///< when the last connection or dial failed
  TimePoint back_at{};          ///< when there was a connection again, after one was lost; zero: none was
  TimePoint retry_at{};         ///< no dial before this
  unsigned failures = 0;        ///< dials that failed; forgotten when a connection lasts, not when one is made
  Refusal refused = Refusal(Errc::gone);  ///< why the last one failed: the answer until `retry_at`
  TimePoint used{};
  Duration rtt{};
  Duration rtt_deviation{};
  double up_bytes_per_s = 0;
  double down_bytes_per_s = 0;
  std::uint64_t bytes_sent = 0;  ///< payload over connections that are over
  std::uint64_t bytes_received = 0;
  std::uint64_t bulk_bytes = 0;
};

class PeerTable {
 public:
  struct Options {
    Duration back_off_min = std::chrono::milliseconds(500);  ///< doubled by each failure, ± 50 %
    Duration back_off_max = std::chrono::seconds(60);
    Duration back_off_heard_of = std::chrono::seconds(5);    ///< at most, once somebody tells of the peer again
    Duration connected_for_good = std::chrono::seconds(60);  ///< then earlier failures are forgotten
    std::size_t peers_max = 4096;                            ///< beyond it, the one not used for longest is forgotten
    std::size_t addresses_max = 8;                           ///< of one peer; more are cut off
  };

  PeerTable(Random random, const Options& options) : random_(random), options_(options) {}

  /// Makes an entry when there is none.
  KnownPeer& at(const PeerId& peer, TimePoint now);
  const KnownPeer* find(const PeerId& peer) const;

  /// Replaces the addresses. Other ones than before may be dialled at once.
  void introduce(const PeerId& peer, std::vector<Address> addresses, TimePoint now);
  void introduce_relays(const PeerId& peer, std::vector<Address> relays, TimePoint now);
  void failed(const PeerId& peer, Refusal why, TimePoint now);
  /// It was connected and is silent. That takes seconds to be noticed, so what failed before makes the next dial no
  /// later: perhaps a router has forgotten the connection, or either end has another address.
  void fell_silent(const PeerId& peer, TimePoint now);
  /// It, or this machine, is elsewhere: what failed before says nothing.
  void may_dial_anew(const PeerId& peer, TimePoint now);
  /// No relay leads there now: tried again later as well, and no word of whether the peer lives.
  void no_circuit(const PeerId& peer, Refusal why, TimePoint now);
  /// A connection that began at `since` is over.
  void lost(const PeerId& peer, TimePoint since, TimePoint now);
  bool may_dial(const PeerId& peer, TimePoint now) const;

 private:
  void take(const PeerId& peer, std::vector<Address> KnownPeer::*known, std::vector<Address> fresh, TimePoint now);

  Random random_;
  Options options_;
  boost::container::flat_map<PeerId, std::unique_ptr<KnownPeer>> peers_;
};

}  // namespace collab::net
