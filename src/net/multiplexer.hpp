#pragma once
// The streams of one connection: priorities, credit, messages in pieces. No I/O, no clock: frames in, frames out.

#include "net/stream_user.hpp"
#include "net/wire.hpp"

#include <boost/container/deque.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

namespace collab::net {

/// Payload bytes by class, since the connection began.
struct Traffic {
  std::array<std::uint64_t, kClasses> sent{};
  std::array<std::uint64_t, kClasses> received{};
};

/// A part of a frame's payload, ready to be sealed: prefix, head, then `bytes` of `body` from `offset`.
struct Piece {
  Prefix prefix;
  Bytes head;
  Frame body;
  std::size_t offset = 0;

  std::span<const std::byte> payload() const {
    if (!body) return {};
    return std::span(*body).subspan(offset, prefix.payload_bytes());
  }
};

class Multiplexer {
 public:
  struct Options {
    std::size_t streams_max = 256;  ///< open, of each side
    /// Of a conversation that is open here, if not of class control. Half of what a connection may have unread, so that
    /// one reader that stands still leaves room for another; 1 MiB would fill no line of 100 Mbit/s over 80 ms.
    std::size_t stream_window = std::size_t(2) << 20U;
    std::size_t control_frames_max = 1024;  ///< our answers that wait; more: the other side floods and does not read
    std::size_t unread_message_bytes_max = std::size_t(2)
                                           << 20U;  ///< credit beyond the windows, to have messages whole
  };

  /// `serial`: the connection's number at this node, never used again. `dialled`: by us.
  Multiplexer(std::uint64_t serial, const PeerId& peer, bool dialled, MultiplexerOwner& owner, const Options& options);
  Multiplexer(const Multiplexer&) = delete;
  Multiplexer& operator=(const Multiplexer&) = delete;

  std::uint64_t serial() const noexcept { return serial_; }
  const PeerId& peer() const noexcept { return peer_; }

  /// Opens a stream with its first message (null: none yet). Errors: `busy` when too many are open.
  Result<StreamHandle> open(TrafficClass, StreamUser&, OpenHead head, Frame first, bool last);
  /// Queues a message. Nothing happens on a stream that is over.
  void send(StreamHandle, Frame message, bool last);
  /// Says, after what is queued, that nothing more comes.
  void end(StreamHandle);
  /// The stream is over here, at once; unsent messages are dropped. Its user hears nothing more.
  void reset(StreamHandle, const Refusal& why);
  /// Resets the streams on which a message has begun and not come whole, and tells their users: refused.
  void reset_unfinished(const Refusal& why);
  /// Message bytes that wait to be sent on this stream.
  std::size_t queued(StreamHandle) const;
  bool is_open(StreamHandle stream) const { return streams_.contains(stream); }
  std::size_t open_streams() const noexcept { return streams_.size(); }

  /// Gives `bytes` of credit back, to the stream and its class.
  void consumed(StreamHandle, TrafficClass, std::size_t bytes);
  /// Its messages wait unread for somebody to open the other end: no credit beyond the first.
  void hold(StreamHandle);
  /// Somebody reads now: no more than the first window.
  void release(StreamHandle);
  /// Somebody reads now: a whole window.
  void widen(StreamHandle);
  /// Twice as much, at most a whole window: the sender has used up what it had before word of the reader came back.
  void double_window(StreamHandle);
  /// What the sender of a stream may have under way, or unread here.
  std::size_t window(StreamHandle) const;
  /// More credit for one class of the connection.
  void widen_connection(TrafficClass, std::size_t bytes);
  /// The contrary: so much of what will be consumed is not given back.
  void narrow_connection(TrafficClass, std::size_t bytes);
  /// What of that the other side still has, or what it sent of it is unread.
  std::size_t not_yet_narrowed(TrafficClass traffic) const noexcept { return accounts_[index(traffic)].withheld; }

  /// Queues a frame about the connection, before all others.
  void send_connection_frame(FrameType, Bytes head);
  /// The next frame to write, by strict class order, with at most `payload_bytes_max` of payload. False: nothing may be
  /// sent now.
  bool next(Piece& piece, std::size_t payload_bytes_max);

  /// Takes plaintext in order, as much as makes sense now, and returns how many bytes it took.
  /// Errors: `bad_request`, a violation; `violation()` names the rule.
  Result<std::size_t> receive(std::span<const std::byte> plaintext);
  std::string_view violation() const noexcept { return violation_; }
  /// Where the rest of the payload that is arriving will lie; empty: nothing is, or nobody wants it. Until the next
  /// call.
  std::span<std::byte> room();
  /// As `receive`, of plaintext that lies at the beginning of `room()` already, at most all of it.
  void filled(std::size_t bytes);

  /// The connection is over: tells all users, in order.
  void lose();

  const Traffic& traffic() const noexcept { return traffic_; }
  /// Whether some message has begun to arrive and the sender has credit to go on with it.
  bool inside_message() const;

 private:
  struct Queued {
    FrameType type = FrameType::data;
    Bytes head;
    Frame body;
    std::size_t offset = 0;
    bool last = false;
  };
  struct Stream {
    TrafficClass traffic = TrafficClass::control;
    StreamUser* user = nullptr;
    StreamId wire = 0;  ///< 0: not yet told to the other side
    bool sent_last = false;
    bool received_last = false;

    boost::container::deque<Queued> queue;  // as long as it is empty it takes no memory: streams are many
    std::size_t queued_bytes = 0;
    std::size_t credit = 0;  ///< that we have

    std::size_t given = 0;  ///< credit that the other side has
    std::int64_t owed = 0;  ///< consumed and not yet given back; negative: given in advance
    std::size_t window = 0;
    bool held = false;
    Buffer message;  ///< that is arriving
    std::size_t arrived = 0;
    std::size_t expected = 0;  ///< its bytes; 0: none is arriving
  };
  struct Account {  ///< credit of the connection, for one class
    std::size_t credit = 0;
    std::size_t given = 0;
    std::int64_t owed = 0;
    std::size_t window = 0;
    std::size_t withheld = 0;  ///< of what will be consumed
  };

  static bool is_unfinished(const Stream& stream) { return stream.expected != 0 && stream.given > 0; }
  static std::size_t index(TrafficClass traffic) { return static_cast<std::size_t>(traffic); }
  Stream* find(StreamHandle);
  StreamHandle handle_of(StreamId wire) const;
  bool is_mine(StreamId wire) const { return (wire % 2 == 1) == dialled_; }

  void queue_message(StreamHandle, Stream&, Queued);
  bool next_of_class(std::size_t traffic, Piece&, std::size_t payload_bytes_max);
  std::size_t sendable(const Stream&, std::size_t traffic, std::size_t payload_bytes_max) const;
  void cut(StreamHandle, Stream&, std::size_t bytes, Piece&);
  void close_if_done(StreamHandle);
  void forget(StreamHandle);

  bool violate(std::string_view rule);
  bool begin_frame(const Prefix&, std::span<const std::byte> head);
  bool begin_open(const Prefix&, std::span<const std::byte> head);
  bool begin_data(const Prefix&, std::span<const std::byte> head);
  bool begin_piece(StreamHandle, const Prefix&, std::size_t message_bytes);
  bool stream_frame(FrameType, const Prefix&, std::span<const std::byte> head);
  bool credit_frame(const Prefix&, std::span<const std::byte> head);
  bool known_or_over(StreamId wire);
  void take_payload(std::span<const std::byte>);
  void make_room(Stream&, std::size_t bytes);
  void finish_frame();
  void grow(Stream&, std::size_t window);
  void need(StreamHandle, Stream&);
  void owe(std::size_t traffic, std::size_t bytes);
  void give(StreamId wire, TrafficClass, std::size_t bytes);

  std::uint64_t serial_;
  PeerId peer_;
  bool dialled_;
  MultiplexerOwner& owner_;
  Options options_;

  std::map<StreamHandle, Stream> streams_;
  std::map<StreamId, StreamHandle> mine_;  ///< by the id the other side knows
  std::uint64_t next_handle_ = std::uint64_t(1) << 32U;
  StreamId next_wire_;
  StreamId highest_theirs_ = 0;
  std::size_t open_mine_ = 0;

  boost::container::deque<Piece> connection_frames_;
  std::array<std::vector<StreamHandle>, kClasses> ready_;  ///< streams with messages to send
  std::array<Account, kClasses> accounts_;

  std::string_view violation_;
  Prefix current_;  ///< the frame whose payload is arriving
  StreamHandle current_stream_ = 0;
  std::size_t payload_left_ = 0;
  bool in_frame_ = false;
  Traffic traffic_;
};

}  // namespace collab::net
