#pragma once
// What stands between a home and the internet: an address translator (RFC 4787, RFC 5382 for TCP), as a pure object.

#include "base/clock.hpp"
#include "net/address.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace collab::sim {

/// Who shares an outside port: what goes to anybody, to one address, or to one address and port.
enum class NatMapping : std::uint8_t {
  none,  ///< nothing is translated, as behind a firewall: for one machine, whose address is the box's
  endpoint_independent,
  address_dependent,
  symmetric
};
/// Who may come in through a port that is mapped.
enum class NatFilter : std::uint8_t {
  none,              ///< anybody
  address,           ///< addresses that something was sent to
  address_and_port,  ///< only where something was sent to
};
std::string_view name(NatMapping mapping) noexcept;
std::string_view name(NatFilter filter) noexcept;
/// What becomes of a SYN that may not come in.
enum class NatClosed : std::uint8_t {
  drops,   ///< silence
  resets,  ///< a reset, of the filter's or of the router's own system
};

struct NatOptions {
  NatMapping mapping = NatMapping::endpoint_independent;
  NatFilter filter = NatFilter::address_and_port;
  NatClosed closed = NatClosed::drops;
  bool hairpin = false;                           ///< machines inside reach each other by their outside addresses
  bool only_443 = false;                          ///< nothing leaves to another port
  Duration lifetime = std::chrono::seconds(120);  ///< of a mapping that nothing passes
};

/// Thread safety: none. Memory: a mapping for each that lives, and those that ended since the last call.
class NatBox {
 public:
  /// `outside`: its public address.
  NatBox(std::string outside, NatOptions options) : outside_(std::move(outside)), options_(options) {}

  const std::string& outside() const noexcept { return outside_; }
  const NatOptions& options() const noexcept { return options_; }

  /// Something leaves `from` (inside) for `to`: as whom `to` sees it. Nothing: the box lets it not out.
  std::optional<net::Address> out(const net::Address& from, const net::Address& to, TimePoint now);
  /// Something comes from `from` to the box's `port`: where it belongs inside. Nothing: dropped.
  std::optional<net::Address> in(std::uint16_t port, const net::Address& from, TimePoint now);
  /// Whether the mapping of `port` is still there; bytes that pass keep it so.
  bool passes(std::uint16_t port, TimePoint now);
  /// Switched off and on: a new address, no mappings.
  void reboot(std::string outside);
  std::size_t mappings() const noexcept { return by_port_.size(); }

 private:
  struct Mapping {
    net::Address inside;
    net::Address key;  ///< whom it is for; parts that do not matter are empty
    TimePoint used{};
    std::map<net::Address, TimePoint> sent_to;
  };

  bool alive(const Mapping& mapping, TimePoint now) const { return now - mapping.used <= options_.lifetime; }
  void forget(TimePoint now);
  bool lets_in(const Mapping& mapping, const net::Address& from) const;

  std::string outside_;
  NatOptions options_;
  std::map<std::uint16_t, Mapping> by_port_;
  std::map<std::pair<net::Address, net::Address>, std::uint16_t> ports_;  // by inside and key
  std::uint16_t next_port_ = 20000;
  TimePoint forgot_{};
};

}  // namespace collab::sim
