#pragma once
// Whom a node knows of those who can be dialled, dense around itself and sparse far away: the k-buckets of Kademlia
// (Maymounkov, Mazieres 2002, section 2.2). Pure: time is handed in.

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "crypto/hash.hpp"
#include "crypto/peer_id.hpp"
#include "net/address.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace collab::directory {

/// Nodes and keys lie in one space of 256 bits; how far apart two are is the exclusive or, read as a number.
using Place = Digest;

Place place_of(const PeerId& node);
/// Of all records of `key`.
Place place_of(const std::string& run, const std::string& key);
/// Whether `a` lies nearer to `place` than `b` does.
bool nearer(const Place& place, const Place& a, const Place& b) noexcept;

/// Somebody who serves the directory, and where.
struct RouteNode {
  PeerId id;
  std::vector<net::Address> addresses;  ///< numeric, 1..kListenAddressesMax; empty: whoever asks knows them already
};

/// A full bucket keeps whom it has for as long as he answers, and one network fills no bucket alone: newcomers with
/// made-up ids displace nobody. Thread safety: none; belongs to the node's loop.
class RoutingTable {
 public:
  struct Options {
    std::size_t bucket_max = 20;      ///< k
    std::size_t network_max = 5;      ///< of one bucket, from one network that is named
    unsigned failures_max = 2;        ///< in a row; then he is forgotten
    std::size_t suggested_max = 128;  ///< who wait to be asked; more are not remembered
  };
  struct Entry {
    RouteNode node;
    Bytes packed;  ///< `node` as it travels: it is named far more often than it changes
    Place place{};
    std::string network;            ///< the /24 or /48 he answers from; empty: unknown, or this one
    TimePoint heard{};              ///< when he last spoke to this node, or was added
    unsigned failures = 0;          ///< since; while there are any he is named to nobody
    bool asked = false;             ///< for whom he knows near this node: once, when he is new
    std::optional<TimePoint> told;  ///< when he had this node's own record
  };

  RoutingTable(const PeerId& self, Options options) : self_(self), place_(place_of(self)), options_(options) {}

  /// Whether `add` would take somebody that is not there yet, whatever his network.
  bool has_room_for(const PeerId&) const;
  /// Whether he is worth a dial of his own: there is room, and the table is small, he is among the nearest, or his
  /// bucket is not half full. Far away a few nodes show the way as well as many, and who comes by himself fills the
  /// rest.
  bool is_short_of(const PeerId&) const;
  /// Only those who are proven: they have spoken to this node, and were dialled by it, or by others as their own signed
  /// record says. Replaces the addresses of who is there. False: he is this node, or there is no room for him.
  bool add(RouteNode node, std::string network, TimePoint now);
  struct Suggested {
    RouteNode node;
    std::optional<PeerId> teacher;  ///< who named him; none: he himself, in a signed record
  };
  /// Somebody who may be alive, by hearsay: to be asked. False: there is no room for him, or no need.
  bool suggest(RouteNode node, std::optional<PeerId> teacher = std::nullopt);
  /// Forgets one who was suggested and gives him: number `index` of `suggested()`, which is not zero.
  Suggested take_suggested(std::size_t index);
  std::size_t suggested() const noexcept { return suggested_.size(); }

  /// False: he is not here.
  bool heard(const PeerId&, TimePoint now);
  /// A call got no answer.
  void failed(const PeerId&);
  /// He has this node's own record. False: he is not here.
  bool told(const PeerId&, TimePoint now);
  /// He has named whom he knows near this node.
  void asked(const PeerId&);
  void remove(const PeerId&);
  const Entry* find(const PeerId&) const;
  /// Of those who have not failed lately; all are sorted by their distance from `place`.
  std::vector<const Entry*> nearest(const Place& place, std::size_t count) const;
  /// Who was not heard since `before`, those who failed first, then by silence.
  std::vector<PeerId> silent_since(TimePoint before, std::size_t count) const;
  /// Those who are new, each once.
  std::vector<PeerId> take_unasked(std::size_t count);
  /// Where those lie who were added since the last time.
  std::vector<Place> take_added();
  /// How many have not failed lately. Far from this node a bucket knows only k, so of more than about 2 k it is a lower
  /// bound.
  std::size_t size() const noexcept { return sound_; }
  /// How many leading bits of its place this node shares with the farthest of its k nearest: beyond lie places of which
  /// it knows some nodes only.
  std::size_t neighbourhood() const noexcept;
  /// Whether a node as near to `place` as the k nearest to this one would be here.
  bool knows_all_near(const Place& place) const noexcept { return bucket_of(place) >= neighbourhood(); }
  /// Another number whenever `nearest` may answer something else.
  std::uint64_t version() const noexcept { return version_; }
  const std::map<PeerId, Entry>& entries() const noexcept { return entries_; }
  const Place& place() const noexcept { return place_; }

 private:
  using Entries = std::map<PeerId, Entry>;
  /// What every search looks at of everybody, side by side: entries lie apart, and in a large swarm out of the cache.
  struct Slot {
    std::uint64_t high;  ///< the first 8 bytes of his place, as a number
    bool sound;          ///< has not failed lately
    Entry* entry;
  };
  Slot& slot_of(const Entry&);
  std::size_t bucket_of(const Place&) const noexcept;
  Entry* replaceable(std::size_t bucket) const;
  bool is_crowded(std::size_t bucket, const std::string& network) const;
  void erase(Entries::iterator);

  PeerId self_;
  Place place_;
  Options options_;
  Entries entries_;
  std::array<std::vector<Slot>, 257> buckets_;  ///< by how many leading bits of their place are this node's
  std::map<PeerId, Suggested> suggested_;
  std::vector<Place> added_;
  std::size_t sound_ = 0;
  std::uint64_t version_ = 0;
};

}  // namespace collab::directory
