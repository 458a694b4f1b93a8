#pragma once
// Asks the home router to let others in, for as long as this node lives. What it promises is a hope: only a dial-back
// (reachability.hpp) makes it an address that others are told.

#include "base/log.hpp"
#include "base/random.hpp"
#include "base/signal.hpp"
#include "nat/gateway.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace collab::nat {

/// What a router promised.
struct Mapping {
  Protocol by = Protocol::natpmp;
  std::string router;  ///< its inside address
  std::uint16_t inside_port = 0;
  std::uint16_t outside_port = 0;
  std::string outside_host;   ///< as the router says; empty: it says nothing that is an address
  std::uint32_t lease_s = 0;  ///< renewed at half of it; 0: until it is removed
  bool operator==(const Mapping&) const = default;
};

/// Why one protocol brought nothing.
struct NoMapping {
  Protocol by = Protocol::natpmp;
  GatewayRefusal why;
};

struct MappingStatus {
  enum class Phase : std::uint8_t {
    off,        ///< by wish, or this node listens nowhere that a router could lead to
    no_router,  ///< the default route leads to no private router: nothing to map
    asking,     ///< at most 8 s
    mapped,
    refused,  ///< by each protocol, as `trials` tell; asked again after a while, and at once when the router changes
  };
  Phase phase = Phase::off;
  std::string router;  ///< who is asked; empty: nobody
  std::optional<Mapping> mapping;
  std::vector<NoMapping> trials;  ///< by protocol, of the last time
};

/// "NAT-PMP is not answered, and UPnP is spoken by nobody in this network".
std::string describe(const std::vector<NoMapping>& trials);

/// Why a mapping cannot lead here although the router made it: its outside address is private, or not the one that
/// others see (`observed`; empty: nobody has said). Nothing: as far as one can tell, it does.
std::optional<std::string> second_nat(const Mapping& mapping, std::string_view observed);

/// The reply to `asked`, as far as it makes sense: a lease that is longer than asked for counts as asked for. Errors:
/// `nonsense` for another inside port, a port that nobody would dial, or a lease of no time.
GatewayResult<MapReply> check(const MapRequest& asked, const MapReply& reply);

/// Whether a router that told `epoch_s` has restarted, `before_s` having been told `since` ago (RFC 6886, 3.6).
bool has_restarted(std::uint32_t before_s, Duration since, std::uint32_t epoch_s);

/// Thread safety: none; belongs to the node's loop.
class PortMapping {
 public:
  struct Needs {
    Clock& clock;
    Random random;
    Log& log;
    asio::any_io_executor executor;
    asio::any_io_executor workers;  ///< for the note
    Gateways gateways;
    /// Where the default route leads to, if that is private.
    std::function<std::optional<std::string>()> router;
  };
  struct Options {
    std::uint16_t port = 0;      ///< the listener's; 0: nothing is mapped
    std::filesystem::path note;  ///< remembers a mapping that only we can end; empty: no such mapping is asked for
    Duration lease = std::chrono::seconds(3600);
    Duration natpmp_time = std::chrono::seconds(2);   ///< all in all
    Duration upnp_time = std::chrono::seconds(8);     ///< all in all
    Duration request_time = std::chrono::seconds(2);  ///< one question, once a router is found
    Duration remove_time = std::chrono::seconds(1);
    Duration look = std::chrono::minutes(2);           ///< how often it is asked whether the mapping is still there
    Duration look_at_route = std::chrono::seconds(5);  ///< how soon another router is noticed
    Duration again = std::chrono::minutes(15);         ///< ± 20 %, after a refusal
    unsigned other_ports_max = 4;                      ///< tried when ours is taken
  };

  PortMapping(Needs needs, Options options);
  PortMapping(const PortMapping&) = delete;
  PortMapping& operator=(const PortMapping&) = delete;

  /// Maps and renews, until cancelled or `remove` is called.
  Task<> run();
  /// Takes the mapping back, within `remove_time`; `run` ends.
  Task<> remove();

  const MappingStatus& status() const noexcept { return status_; }
  /// Notified after each change of `status`, and when a mapping was made anew.
  Signal& changed() noexcept { return changed_; }

 private:
  using Phase = MappingStatus::Phase;
  struct Attempt;

  void become(Phase phase);
  Task<> ask_router(std::string router);
  Task<> try_gateway(Gateway& gateway, Attempt& attempt);
  Task<GatewayResult<MapReply>> ask_for_port(Gateway& gateway, TimePoint end);
  void accept(Mapping mapping);
  void settle(const Attempt& attempt);
  Task<> keep(std::string router);
  Task<bool> renew();
  Task<bool> is_still_there();
  TimePoint next_look() const;
  std::uint16_t wish();
  std::uint16_t any_port();
  Gateway& gateway_of(Protocol protocol);
  MapRequest mapped() const;
  Task<> read_note();
  Task<bool> write_note(std::optional<MapRequest> permanent);
  Task<> remove_leftover(Gateway& gateway, TimePoint end);

  Needs needs_;
  Options options_;
  MappingStatus status_;
  std::optional<MapRequest> pending_;   ///< asked for, not in `status_` yet
  std::optional<MapRequest> leftover_;  ///< of an earlier run, which could not remove it
  Protocol pending_by_ = Protocol::natpmp;
  std::optional<std::uint32_t> epoch_s_;
  TimePoint epoch_at_{};
  TimePoint renew_at_ = TimePoint::max();
  TimePoint ends_at_ = TimePoint::max();  ///< of the lease
  TimePoint look_at_ = TimePoint::max();
  TimePoint again_at_ = TimePoint::max();
  bool leaving_ = false;
  Signal changed_;
  Signal wake_;  ///< of `run`, which waits in one place at a time, and of the protocols that it asks
};

}  // namespace collab::nat
