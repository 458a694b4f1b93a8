#pragma once
// From a byte stream to a peer: TLS, then one hello each way.

#include "net/hello.hpp"
#include "net/network.hpp"
#include "net/secure_channel.hpp"

#include <functional>
#include <memory>
#include <optional>

namespace collab::net {

/// A connection whose other side is known and fits.
struct Opened {
  Opened(std::unique_ptr<ByteStream> bytes, SecureChannel tls, Side which)
      : stream(std::move(bytes)), channel(std::move(tls)), side(which) {}

  std::unique_ptr<ByteStream> stream;
  SecureChannel channel;
  Side side;
  Hello theirs;
  std::uint64_t attempt = 0;  ///< of who dialled
  std::int64_t skew_ms = 0;   ///< their swarm time minus our own clock
  bool punched = false;       ///< both ends dialled at once, so others than this node cannot dial there
  std::vector<char> moves;    ///< the connection that goes on here, as both ends agreed; empty: this is a new one
  bool redundant = false;     ///< dialled, and `rules.connected`: closed before our hello, so only the peer is known
};

using OpenResult = boost::system::result<std::unique_ptr<Opened>, Refusal>;

/// What this node says and asks when a connection begins. Outlives the openings.
struct OpeningRules {
  const TlsContext& tls;
  /// Our hello, but for the time, the attempt and the observed address.
  std::function<Hello()> hello;
  std::function<std::int64_t()> swarm_ms;  ///< what our hello says
  std::function<std::int64_t()> own_ms;    ///< our clock, without what others say
  /// Whether this peer may have a connection. A refusal is sent to it.
  std::function<std::optional<Refuse>(const PeerId&, const Hello&)> welcome;
  /// Whether a connection to this peer works already that is as good as one over this stream. Asked by who dials, once
  /// it knows who answers; empty: never.
  std::function<bool(const PeerId&, const ByteStream&)> connected = {};
  /// The connection to this peer that should go on over this stream, of which this node has that end; empty: none. What
  /// both ends name is done. Empty: never.
  std::function<std::vector<char>(const PeerId&, const ByteStream&, Side)> moves = {};
};

/// Dials no one: `stream` is open. `expected`: who must be there. `attempt`: of Hello. The caller sets the deadline.
/// Errors: `denied` (somebody else, or a refusal of either side, with its text), `busy`, `gone`, `bad_request`.
Task<OpenResult> open_dialled(const OpeningRules& rules, std::unique_ptr<ByteStream> stream,
                              std::optional<PeerId> expected, std::uint64_t attempt);
/// The other end. Answers the first hello with ours, or with why not.
Task<OpenResult> open_accepted(const OpeningRules& rules, std::unique_ptr<ByteStream> stream);

}  // namespace collab::net
