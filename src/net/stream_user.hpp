#pragma once
// What a multiplexer tells those who use its streams, and the connection around it.

#include "net/wire.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace collab::net {

class Multiplexer;

/// Names a stream at this end, for as long as the connection lives and never again.
using StreamHandle = std::uint64_t;

/// How a stream ended: both sides said all; one side reset it; the connection broke.
enum class StreamEnd : std::uint8_t { done, refused, lost };

/// Who uses a stream. Outlives the multiplexer. May call it from within these.
class StreamUser {
 public:
  virtual ~StreamUser() = default;
  /// A whole message. Call `consumed` when its bytes are out of the way: until then they hold back the sender.
  virtual void on_message(Multiplexer&, StreamHandle, Frame message) = 0;
  /// The other side says nothing more.
  virtual void on_end(Multiplexer&, StreamHandle) {}
  /// A message has left the queue.
  virtual void on_room(Multiplexer&, StreamHandle) {}
  /// Last word on this stream, except when this side reset it. `why` is meaningful when it was refused.
  virtual void on_closed(Multiplexer&, StreamHandle, StreamEnd, const Refusal& why) = 0;
};

using Accepted = boost::system::result<StreamUser*, Refusal>;

/// The connection around it.
class MultiplexerOwner {
 public:
  virtual ~MultiplexerOwner() = default;
  /// The other side opens a stream whose first message has `message_bytes` (0: none yet). A refusal resets it.
  virtual Accepted on_open(Multiplexer&, StreamHandle, TrafficClass, OpenHead head, std::size_t message_bytes) = 0;
  /// ping, pong, goaway, refuse, moved. Errors are violations: the rule's name.
  virtual std::string_view on_connection_frame(FrameType, std::span<const std::byte> head) = 0;
  /// There is something to send that was not there before.
  virtual void on_output() = 0;
};

}  // namespace collab::net
