#pragma once
// Every message about circuits through relays, version 1. This file is the protocol's specification; base/frame.hpp has
// the frame around it and the rules of evolution.
//
//   method           claim   asked of                request    answer
//   relay.reserve    join    who can be dialled      Reserve    Reserved
//   relay.release    join    the same                Release    Released
//   relay.connect    join    the same                Connect    Joined
//   relay.incoming   relay   who is led to           Incoming   Joined
//   relay.whence     join    who carries a circuit   Whence     Comes
//
// A circuit is two conversations of protocol relay.circuit, each between the relay and one end, about
// `circuit_topic(id, asker, end)`. What an end says in `Carry` the relay says to the other end, as it is: inside runs
// what runs on a bare TCP connection, TLS and hello from end to end, so a relay sees sizes and times, and can pose as
// nobody.
//
// There is no voucher that a third party could verify: whoever dials through a relay meets the peer's own key behind
// it.

#include "base/message.hpp"
#include "crypto/hash.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>

namespace collab::nat::wire {

using CircuitId = std::array<unsigned char, 32>;
using PeerKey = std::array<unsigned char, 32>;

/// In one message: the most, and what is soon gone on a slow line. What costs per message is most of what a relay does
/// with short ones.
inline constexpr std::size_t kCarryBytesMax = std::size_t(64) << 10U;
inline constexpr std::size_t kCarryBytesMin = std::size_t(16) << 10U;
/// Of all messages of a circuit, payload and what is around it.
inline constexpr std::size_t kCircuitFrameBytesMax = kCarryBytesMax + 1024;

/// What a relay does for a circuit.
enum class CircuitClass : std::uint8_t {
  signal,  ///< a little, for minutes: words between peers
  bulk,    ///< much, for half an hour: where an operator allows it
};

/// "Lead others to me." For as long as this connection lives.
struct Reserve {
  std::uint32_t ttl_s = 0;  ///< wished; 0: as long as the relay gives
  MESSAGE_MAP(ttl_s)
};
struct Reserved {
  std::uint32_t ttl_s = 0;      ///< until it has to be renewed, by asking again
  std::uint8_t best_class = 0;  ///< CircuitClass: the most that a circuit gets here
  MESSAGE_MAP(ttl_s, best_class)
};

struct Release {
  std::string reason;  ///< for the relay's log; at most 64 bytes
  MESSAGE_MAP(reason)
};
struct Released {
  bool held = false;  ///< there was one
  MESSAGE_MAP(held)
};

/// "Lead me to this peer." Refused as `gone` when it has no reservation here, and is not led to onward either (class
/// bulk is wanted and offered, and it can be dialled from here); `denied` over a circuit or to oneself; `busy` (with
/// milliseconds until a retry makes sense) when a quota is used up.
struct Connect {
  PeerKey peer{};
  CircuitId id{};               ///< random: one for each circuit of this asker
  std::uint8_t best_class = 0;  ///< CircuitClass: the most that is wanted; one that the relay does not know: signal
  MESSAGE_MAP(peer, id, best_class)
};
/// Both ends have agreed; what the circuit may do.
struct Joined {
  std::uint8_t circuit_class = 0;
  std::uint64_t bytes_max = 0;  ///< each way
  std::uint32_t life_s = 0;
  MESSAGE_MAP(circuit_class, bytes_max, life_s)
};

/// The relay to the one whom it leads to: somebody comes. It says yes or refuses within 5 s.
struct Incoming {
  PeerKey from{};
  CircuitId id{};
  std::uint8_t circuit_class = 0;
  MESSAGE_MAP(from, id, circuit_class)
};

/// One end of a circuit to who carries it: "From where does the other end come?" So whoever is about to dial what the
/// other end names can tell whether it is its own. Refused as `denied` when no circuit of these two is carried here.
struct Whence {
  PeerKey peer{};
  MESSAGE_MAP(peer)
};
struct Comes {
  std::string host;  ///< numeric, as the relay sees it; at most 64 bytes
  MESSAGE_MAP(host)
};

using RelayHeader = std::variant<Reserve, Reserved, Release, Released, Connect, Joined, Incoming, Whence, Comes>;

/// Bytes of the circuit: the payload, at most `kCarryBytesMax`.
struct Carry {
  std::uint8_t kind = 0;  ///< 0
  MESSAGE_MAP(kind)
};
/// From the relay: it will end the circuit, in order; who still needs the other end better asks for another one.
struct Notice {
  std::uint32_t left_ms = 0;
  MESSAGE_MAP(left_ms)
};
/// Nothing comes any more.
struct End {
  std::string reason;  ///< "closed", "quota", "gone" or "relay"; at most 64 bytes
  MESSAGE_MAP(reason)
};
using CircuitHeader = std::variant<Carry, Notice, End>;

enum class CircuitEnd : std::uint8_t { asker, asked };
/// What the relay and one end talk about.
Digest circuit_topic(const CircuitId& id, const PeerKey& asker, CircuitEnd end);

}  // namespace collab::nat::wire
