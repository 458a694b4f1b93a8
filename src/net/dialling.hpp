#pragma once
// A connection to a peer that may be at several addresses (RFC 8305, in short).

#include "net/opening.hpp"

#include <functional>
#include <vector>

namespace collab::net {

struct DialOptions {
  Duration stagger = std::chrono::milliseconds(250);  ///< before the next address is tried as well
  Duration attempt_time = std::chrono::seconds(10);   ///< for one address, and for one handshake
  std::size_t at_once_max = 3;                        ///< of each leg
  Duration bare_time = std::chrono::seconds(5);       ///< for bare TCP, before WebSockets are tried as well,
  Duration web_time = std::chrono::seconds(2);        ///< and for those, before relays that lead onward
};

/// Relays that lead on to whom we cannot dial ourselves, of `Leg::onward`. Asked when all else is in vain.
using OnwardRelays = std::function<std::vector<Address>()>;

/// Tries `addresses`, IPv6 first, until somebody answers who is `expected` and agrees to connect. One that accepts and
/// then says nothing holds up no other. What is still under way when the first agrees is given up. Those of WebSockets
/// cost more, so their turn comes when all others have failed, or `bare_time` has passed. Circuits through relays begin
/// at once; one that is ready waits `stagger` for those under way that lead there without a relay. Those of `onward`
/// (may be empty) come last. Errors: `gone` when no address answers, else the last answer's refusal; a proxy's
/// (net/proxy.hpp) when nobody who is there has answered.
Task<OpenResult> dial_any(Network& network, Clock& clock, const OpeningRules& rules, std::vector<Address> addresses,
                          std::optional<PeerId> expected, std::uint64_t attempt, DialOptions options,
                          OnwardRelays onward = {});

}  // namespace collab::net
