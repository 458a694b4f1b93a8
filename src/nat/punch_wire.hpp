#pragma once
// Every message about hole punching, version 1. This file is the protocol's specification; base/frame.hpp has the frame
// around it and the rules of evolution.
//
//   method          claim   request    answer
//   punch.connect   join    Ask        Ready
//   punch.sync      join    Go         Going
//
// Both go over the circuit between two peers that nobody can dial, from the lower id to the higher one. Before each
// try both ends open a fresh local port and let somebody in public tell as what it is seen. Ask and Ready exchange
// that; Go starts the higher id, and half a round trip later the lower one begins. Each dials what the other named,
// from its port, until two dials cross (RFC 5382, REQ-2). TLS runs inside as ever, with the lower id as its client.
//
// Who does not know these methods refuses them, and stays on the circuit.

#include "base/message.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace collab::nat::wire {

inline constexpr std::size_t kPunchAddressesMax = 4;
inline constexpr std::size_t kPunchAddressBytesMax = 64;

/// "Let us dial each other." Refused as `denied` when it makes no sense: somebody can be dialled, translates by
/// destination, or named nothing that is its own; `busy` when too much of it goes on; `bad_request` from the higher id.
struct Ask {
  std::uint64_t attempt = 0;           ///< random: this try
  std::vector<std::string> addresses;  ///< "host:port" as others saw the port; at most `kPunchAddressesMax`
  std::uint8_t mapping = 0;            ///< nat::MappingKind; a number that the reader does not know: unknown
  MESSAGE_MAP(attempt, addresses, mapping)
};
/// The same of the one who was asked.
struct Ready {
  std::vector<std::string> addresses;
  std::uint8_t mapping = 0;
  std::uint32_t prepared_ms = 0;  ///< between question and answer: no part of the way
  MESSAGE_MAP(addresses, mapping, prepared_ms)
};

/// "Now." Refused as `stale` when no such try waits.
struct Go {
  std::uint64_t attempt = 0;
  std::uint32_t way_ms = 0;  ///< a round trip between the two, as measured: of more than 2 s, 2 s
  MESSAGE_MAP(attempt, way_ms)
};
struct Going {
  std::uint64_t attempt = 0;
  MESSAGE_MAP(attempt)
};

using PunchHeader = std::variant<Ask, Ready, Go, Going>;

}  // namespace collab::nat::wire
