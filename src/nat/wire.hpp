#pragma once
// Every message about being reachable, version 1. This file is the protocol's specification; base/frame.hpp has the
// frame around it and the rules of evolution.
//
//   method          claim   request    answer
//   nat.dial_back   join    DialBack   DialledBack

#include "base/message.hpp"

#include <cstdint>
#include <string>
#include <variant>

namespace collab::nat::wire {

inline constexpr std::uint16_t kVersion = 1;
inline constexpr std::size_t kHostBytesMax = 64;  ///< a numeric address, with its zone

/// "Dial me there, and see whether it is me who answers." The server dials nothing but the host that this connection
/// comes from, so nobody can be made to knock at a third one's door.
struct DialBack {
  std::string host;        ///< empty: the one you see; anything else has to be equal to it
  std::uint16_t port = 0;  ///< 443, or 1024 and above
  bool wss = false;        ///< by WebSocket; who does not know this field knocks with bare TLS, and is refused there
  MESSAGE_MAP(host, port, wss)
};

enum class Verdict : std::uint8_t {
  ok,         ///< the asker's key answered there
  refused,    ///< nobody listens, or somebody else does
  timeout,    ///< nothing came back
  not_yours,  ///< another host than the one the connection comes from, or a port that is not dialled
};

struct DialledBack {
  std::uint8_t verdict = 0;  ///< Verdict; a number that the reader does not know is no verdict
  std::string host;          ///< that was dialled
  std::uint32_t ms = 0;      ///< that it took
  MESSAGE_MAP(verdict, host, ms)
};

using Header = std::variant<DialBack, DialledBack>;

}  // namespace collab::nat::wire
