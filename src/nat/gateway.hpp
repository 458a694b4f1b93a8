#pragma once
// What a home router can be asked by one protocol: real in natpmp.* and upnp.*, scripted in tests.

#include "base/clock.hpp"
#include "base/task.hpp"

#include <boost/assert/source_location.hpp>
#include <boost/system/result.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace collab::nat {

enum class Protocol : std::uint8_t {
  natpmp,  ///< RFC 6886
  upnp,    ///< UPnP IGD
};
std::string_view name(Protocol) noexcept;

/// Why a router did not do what it was asked.
struct GatewayRefusal {
  enum class Why : std::uint8_t {
    silent,          ///< nothing came back in time
    absent,          ///< the router says that it does not speak this, or nobody who does was found
    taken,           ///< the outside port belongs to somebody else (718)
    only_permanent,  ///< it knows no leases (725)
    refused,         ///< it speaks the protocol, and does not map ports for us
    nonsense,        ///< an answer that no correct router gives
    gone,            ///< it has forgotten the mapping
  };
  GatewayRefusal() = default;                    ///< what a result without an error answers when asked for it
  GatewayRefusal(Why reason, std::string words)  // NOLINT(google-explicit-constructor)
      : why(reason), text(std::move(words)) {}

  Why why = Why::silent;
  std::string text;  ///< a phrase for a person, from "it": "is switched off in the router"
};
[[noreturn]] void throw_exception_from_error(const GatewayRefusal&, const boost::source_location&);

template <class T>
using GatewayResult = boost::system::result<T, GatewayRefusal>;

/// TCP only, and only to this machine.
struct MapRequest {
  std::uint16_t inside_port = 0;
  std::uint16_t outside_port = 0;
  std::uint32_t lease_s = 0;  ///< 0: until it is removed
};

/// What the router says that it did; unchecked.
struct MapReply {
  std::uint16_t inside_port = 0;
  std::uint16_t outside_port = 0;
  std::uint32_t lease_s = 0;
};

/// What the router says about itself; unchecked.
struct Sight {
  std::string outside_host;              ///< its address on the other side
  std::optional<std::uint32_t> epoch_s;  ///< how long it has kept its mappings; none: it does not tell
};

/// One router, by one protocol. Each question ends by its deadline, and an answer that comes later is dropped; one that
/// is asked meanwhile waits until the one before has its answer. Thread safety: none; belongs to the node's loop.
class Gateway {
 public:
  virtual ~Gateway() = default;
  virtual Protocol protocol() const noexcept = 0;
  /// First of all, and whenever the default route has changed. `router`: where that leads to.
  virtual Task<GatewayResult<Sight>> find(std::string router, TimePoint deadline) = 0;
  virtual Task<GatewayResult<MapReply>> map(MapRequest request, TimePoint deadline) = 0;
  /// Whether what was mapped is still there, as far as the protocol can tell. `gone`: it is not.
  virtual Task<GatewayResult<Sight>> look(MapRequest mapped, TimePoint deadline) = 0;
  /// Removes what leads from the outside port to this machine's inside port, and nothing else. True when it is removed.
  virtual Task<bool> unmap(MapRequest mapped, TimePoint deadline) = 0;
};
using Gateways = std::vector<std::unique_ptr<Gateway>>;

/// Both protocols, each on a thread of its own. `executor`: the node's loop, which outlives them.
Gateways real_gateways(const asio::any_io_executor& executor, Clock& clock);

}  // namespace collab::nat
