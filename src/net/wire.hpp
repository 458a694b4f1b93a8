#pragma once
// The bytes of a connection, inside TLS: the specification.
//
//   u24 bytes after these twelve | u8 type | u32 stream | u16 bytes of head | u8 flags | u8 class       little endian
//   then the head: one msgpack map | then the payload: raw bytes
//
// A connection begins with one `hello` each way: the dialler's first, then, when that is acceptable, the other's. After
// it, streams: one exchange each, in one class. Ids rise; odd ones are opened by the dialler, even ones by the other.
// A stream carries messages (frames of base/frame.hpp) in pieces; `more` says that the message goes on in the next
// piece of this stream, `last` that this side says nothing more on it. A call is `open`+last there, `data`+last back,
// each a message. A conversation is `open`, `data`, …, and at the end one `end` each way.
//
// Payload of `open` and `data` is paid for with credit: of the stream, and of the connection's class. What a new stream
// and a new connection have is below; more is given by `credit` frames (stream 0: the connection) when the reader has
// taken the bytes, or needs more of a message to have it whole.
//
// A connection can go on over another stream. Both hellos on that one name it then, and are all that is said there with
// keys of its own. Who dialled the new stream says `moved` as its last words on the old one and goes on in the new one,
// with the next record; who reads `moved` reads on there, and does the same. So nothing is lost, repeated or reordered.

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/message.hpp"
#include "crypto/hash.hpp"
#include "net/endpoint.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace collab::net {

using StreamId = std::uint32_t;

inline constexpr std::uint16_t kProtocolVersion = 1;
inline constexpr std::size_t kPrefixBytes = 12;
inline constexpr std::size_t kBodyBytesMax = std::size_t(1) << 20U;
inline constexpr std::size_t kHelloBytesMax = 4096;
inline constexpr std::size_t kMessageBytesMax = frame::kFrameBytesMax;
inline constexpr std::size_t kClasses = 3;
/// Credit that a new stream has, by class: for a chunk of 256 KiB and what is around it, else its last bytes wait for
/// word of its first ones. A conversation that is open at the reader's end gets 2 MiB at once.
inline constexpr std::array<std::size_t, kClasses> kStreamCredit = {64 * 1024, 257 * 1024, 257 * 1024};
/// Credit that a new connection has, by class: of two streams, so that one whose messages nobody reads yet leaves room
/// for the others. A reader with memory to spare gives more bulk credit at once.
inline constexpr std::array<std::size_t, kClasses> kConnectionCredit = {128 * 1024, 514 * 1024, 514 * 1024};

/// Beyond it a time is nonsense, and the difference of two would not fit.
inline constexpr std::int64_t kTimeMaxMs = std::int64_t(1) << 53U;
constexpr bool is_time(std::int64_t ms) noexcept {
  return ms >= 0 && ms <= kTimeMaxMs;
}

enum class FrameType : std::uint8_t { hello, open, data, end, reset, credit, ping, pong, goaway, refuse, moved };
/// Types from here on may be skipped by a reader that does not know them; any other unknown type is a violation.
inline constexpr std::uint8_t kOptionalTypes = 0x80;

inline constexpr std::uint8_t kMore = 1;
inline constexpr std::uint8_t kLast = 2;

struct Prefix {
  std::uint32_t body_bytes = 0;  ///< head and payload; at most kBodyBytesMax
  std::uint8_t type = 0;
  StreamId stream = 0;  ///< 0: about the connection
  std::uint16_t head_bytes = 0;
  std::uint8_t flags = 0;    ///< kMore, kLast; the others are 0
  std::uint8_t traffic = 0;  ///< TrafficClass; of `credit` on stream 0: the class it is for
  bool operator==(const Prefix&) const = default;

  std::size_t payload_bytes() const noexcept { return body_bytes - head_bytes; }
};

std::array<std::byte, kPrefixBytes> encode(const Prefix&);
Prefix decode_prefix(std::span<const std::byte, kPrefixBytes> bytes);

/// Who speaks, and what it understands. Everything is judged by the reader (hello.hpp); nothing else is read before it.
struct Hello {
  std::uint16_t version_min = kProtocolVersion;
  std::uint16_t version_max = kProtocolVersion;
  std::vector<std::string> features;  ///< at most 32 names; what both name may be used
  std::string software;               ///< for people; at most 64 bytes, printable ASCII as all names here
  std::int64_t time_ms = 0;           ///< the sender's swarm time, milliseconds since 1970; 0 to kTimeMaxMs
  std::string run;                    ///< 1 to 64 bytes of a-z 0-9 . _ -
  std::vector<char> token;            ///< crypto/token.hpp, at most 512 bytes; empty: none
  std::uint64_t incarnation = 0;      ///< another one at each start of the sender
  std::uint64_t attempt = 0;          ///< the dialler's count of dials: of two connections it dialled the later stays
  std::vector<std::string> listen;    ///< at most 8 addresses; an unspecified host means the one you see
  std::string observed;               ///< the reader's address as the sender sees it
  std::vector<std::string> roles;     ///< at most 8
  /// The connection of these two (`Connection::name`) that should go on over this stream; in the answer: that will.
  /// Empty: none.
  std::vector<char> moves;
  MESSAGE_MAP(version_min, version_max, features, software, time_ms, run, token, incarnation, attempt, listen, observed,
              roles, moves)
};

/// Instead of a hello, or after it: why there will be no connection.
struct Refuse {
  std::string reason;        ///< version, run, clock, token, banned or busy
  std::string text;          ///< for the reader's user
  std::uint64_t number = 0;  ///< busy: milliseconds until a retry makes sense
  MESSAGE_MAP(reason, text, number)
};

/// The one method of this room, `net.renew` (claim join): a newer token for the connection that the call comes by, in
/// place of that of the hello. Answered by Renewed, or refused as `denied`. Both in a frame of base/frame.hpp.
struct Renew {
  std::vector<char> token;  ///< at most 512 bytes
  MESSAGE_MAP(token)
};
struct Renewed {
  std::int64_t expires_ms = 0;  ///< of the newest token known of the caller, Unix milliseconds
  MESSAGE_MAP(expires_ms)
};
using RenewHeader = std::variant<Renew, Renewed>;

using CallId = std::array<unsigned char, 16>;

/// Head of `open`: a question; its message is the request.
struct OpenCall {
  std::string method;
  CallId id{};                ///< random; the same again is the same question, and gets the same answer
  std::uint32_t left_ms = 0;  ///< until the asker gives up, 1 to 3,600,000
  std::uint32_t size = 0;     ///< of the whole message, when `more`
  MESSAGE_MAP(method, id, left_ms, size)
};

/// Head of `open`: the sender's part of a conversation, in one class.
struct OpenTopic {
  std::string protocol;
  Digest topic{};
  std::uint32_t size = 0;
  Digest occasion{};  ///< Topic::occasion; not written when it is zero
  MESSAGE_MAP(protocol, topic, size, occasion)
};

using OpenHead = std::variant<OpenCall, OpenTopic>;

/// Head of `data`, on the first piece of a message that has more than one.
struct DataHead {
  std::uint32_t size = 0;
  MESSAGE_MAP(size)
};

/// Head of `reset`: the stream is over. From who was asked: a refusal. From who asked: never mind.
struct ResetHead {
  std::uint8_t code = 0;  ///< Errc
  std::string text;
  std::uint64_t number = 0;
  MESSAGE_MAP(code, text, number)
};

struct CreditHead {
  std::uint32_t bytes = 0;
  MESSAGE_MAP(bytes)
};

/// Head of `ping`; `pong` sends `sent` back.
struct PingHead {
  std::uint64_t sent = 0;     ///< the pinger's own clock
  double up_bytes_per_s = 0;  ///< what the sender measured towards the reader; 0: nothing yet
  std::int64_t time_ms = 0;   ///< the sender's swarm time; 0 to kTimeMaxMs
  MESSAGE_MAP(sent, up_bytes_per_s, time_ms)
};

/// The sender leaves, or leaves this connection: no new streams, those that are open are finished.
struct GoawayHead {
  std::string reason;  ///< leaving, duplicate, or the rule that was broken
  MESSAGE_MAP(reason)
};

/// `Head`: Hello and Refuse, or one of the heads above but those of `open`.
template <class Head>
Bytes encode_head(const Head& head);
/// Errors: `bad_request` for anything but one whole map of this head.
template <class Head>
Result<Head> decode_head(std::span<const std::byte> bytes);

/// An open head is told apart by its first element: [0, OpenCall] or [1, OpenTopic].
Bytes encode_open(const OpenHead& head);
/// Errors: `bad_request`.
Result<OpenHead> decode_open(std::span<const std::byte> bytes);

}  // namespace collab::net
