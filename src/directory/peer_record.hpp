#pragma once
// What every node publishes about itself, under key "peer" with an empty subkey: the run's list of members.

#include "base/bytes.hpp"
#include "base/duration.hpp"
#include "base/error.hpp"
#include "base/message.hpp"
#include "directory/record.hpp"
#include "net/address.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace collab::directory {

inline constexpr std::string_view kPeerKey = "peer";
inline constexpr Duration kMembersPace = std::chrono::milliseconds(500);  ///< who only follows who is there
inline constexpr std::size_t kListenAddressesMax = 8;
inline constexpr std::size_t kRelaysMax = 3;
inline constexpr std::size_t kNameBytesMax = 64;

struct PeerRecord {
  std::vector<net::Address> listen;  ///< where it may be dialled, numeric; at most `kListenAddressesMax`
  bool reachable = false;            ///< others have dialled it: it may serve the directory and own segments
  bool directory = false;            ///< serves the directory whatever its hash: a bootstrap node
  std::string role;                  ///< "full", "client", "auxiliary", "monitor", "coordinator"; for people
  std::string name;                  ///< the user's, for the dashboard
  std::string software;              ///< program and version
  std::uint64_t incarnation = 0;     ///< new at each start
  std::vector<net::Address> relays;  ///< that lead to it, of a peer that nobody dials; at most `kRelaysMax`
  bool punchable = false;            ///< of such a peer: another one such may get through to it without a relay
  bool relays_tensors = false;       ///< leads those whose network lets them out to few places to whoever it can dial
};

/// The value of its record. Errors: `bad_request` when a text or the whole is too long for a record, or a host is a
/// name.
Result<Bytes> encode(const PeerRecord&);
/// From any bytes; what is for people comes fit for a terminal (base/text.hpp `printable`). Errors: `bad_request` for
/// what `encode` cannot have made, an unusable address among it.
Result<PeerRecord> decode_peer_record(std::span<const std::byte> value);

namespace wire {

/// The value on the wire: a frame without payload. base/frame.hpp has the rules of its evolution.
struct PeerV1 {
  std::vector<std::string> listen;  ///< `host:port`, `[v6]:port`
  bool reachable = false;
  bool directory = false;
  std::string role;
  std::string name;
  std::string software;
  std::uint64_t incarnation = 0;
  std::vector<std::string> relays;  ///< `relay://host:port/ID`; apart from `listen`, which older readers read whole
  bool punchable = false;
  bool relays_tensors = false;
  MESSAGE_MAP(listen, reachable, directory, role, name, software, incarnation, relays, punchable, relays_tensors)
};
using PeerHeader = std::variant<PeerV1>;

}  // namespace wire
}  // namespace collab::directory
