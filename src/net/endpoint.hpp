#pragma once
// What every protocol sees of the network: calls and conversations with peers by id, over whatever path exists.

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/task.hpp"
#include "crypto/claim.hpp"
#include "crypto/hash.hpp"
#include "crypto/peer_id.hpp"
#include "net/address.hpp"
#include "net/throttle.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace collab::net {

/// Strict order at every frame: a control message never waits behind a tensor.
enum class TrafficClass : std::uint8_t { control, latency, bulk };

/// A row of the table of everything that others may ask of this node. What has no row does not exist.
struct Method {
  std::string name;           ///< at most 64 bytes, "room.verb"
  Claim claim = Claim::join;  ///< checked in one place, before any handler runs
  TrafficClass traffic = TrafficClass::latency;
  std::size_t request_bytes_max = 64 * 1024;  ///< of a conversation: each frame
  std::size_t answer_bytes_max = 64 * 1024;   ///< a longer answer is not sent: its asker gets `bad_request`
  double requests_per_s = 50;                 ///< per peer; more is answered `busy`
  double requests_burst = 200;
  /// Asking twice does no harm, so a question that is repeated after its answer runs again: no answer is remembered.
  bool idempotent = false;
  /// Of a conversation: little of it may wait, queued here or unread there, so that what is said last comes soon.
  bool shallow = false;
};

/// A frame (base/frame.hpp) of the method's protocol, or why there is none.
using Answer = boost::system::result<Frame, Refusal>;
/// Runs on the loop; may wait. `deadline` is the caller's, in our time: nobody waits for an answer after it.
using Handler = std::function<Task<Answer>(PeerId from, Frame request, TimePoint deadline)>;

struct Envelope {
  PeerId from;  ///< authenticated by the transport, so never repeated inside a message
  Frame frame;
};

/// What a conversation is about. A Digest alone will do.
struct Topic {
  Topic(const Digest& about, const Digest& on = {}) : id(about), occasion(on) {}
  Digest id;
  /// Of the topics of one occasion (and protocol) a node takes part in one, so its opening answers for all of them:
  /// streams about the others are refused at once, those that wait already and those that come later, until the one it
  /// opened is forgotten as closed. The next try of the same thing is another occasion. Zero: none.
  Digest occasion;
};

struct Planned {
  PeerId to;
  double bytes = 0;
};

/// One exchange of frames among peers who know its topic: a round of averaging, the gathering of a group.
///
/// Frames of one sender and one traffic class arrive in order; between classes there is no order. What arrives before
/// this end is opened waits unread: 256 KiB and 1024 frames of a sender and class, 16 topics of a peer, 5 s; then it is
/// refused, as `busy` or `stale`. Unread frames hold back their senders, not the node. Destroying it closes it: later
/// frames are refused as `stale`.
class Conversation {
 public:
  virtual ~Conversation() = default;
  /// Dials when there is no connection. Returns once the frame is accepted for delivery, which does not mean delivered;
  /// waits while the peer's window is full. Several sends may wait at once; one that waits delays no other peer's.
  /// Errors: `gone`, `late`, `stale` (the peer closed this conversation, has not opened it, or is in another of its
  /// occasion; until it speaks here), `denied`, `busy` (too much of ours waits unread there: what was sent is lost, and
  /// more is refused).
  virtual Task<Result<>> send(PeerId to, TrafficClass, Frame frame, TimePoint deadline) = 0;
  /// The next frame from anyone, control first, in arrival order. One receiver at a time. Errors: `late`.
  virtual Task<Result<Envelope>> receive(TimePoint deadline) = 0;
  /// From now on `peer` is a member as those it was opened with: its connection is pinged. Once is enough.
  virtual void add_member(PeerId peer) = 0;
  /// From now on its silence means nothing here: its connection is pinged as any other. Both ends may still talk.
  virtual void remove_member(PeerId peer) = 0;
  /// `peer` had it open and has closed it, or is in another of its occasion: of what was sent the last may be unread
  /// there, and nothing comes any more. Known to whoever has sent it something, a round trip later.
  virtual bool closed_by(const PeerId& peer) const = 0;
  /// So many bytes of class bulk will be sent to each of these here, in all. While these are on their way, this
  /// machine's line is shared in that proportion (net/line.hpp). Once, before they are sent.
  virtual void plan(std::vector<Planned> /*sends*/) {}
};

/// What is known about the way to one peer.
struct LinkState {
  bool connected = false;
  bool dialled = false;       ///< by this node alone, and not through a relay: others can dial it too
  bool circuit = false;       ///< it leads through a relay,
  bool tensors = true;        ///< and that carries them too
  TimePoint lost_at{};        ///< when the last connection or dial failed; meaningful while not connected
  TimePoint back_at{};        ///< since when it is connected without a break, after one; zero: there was none
  TimePoint last_received{};  ///< any byte, pongs too
  Duration rtt{};             ///< smoothed; zero: unknown
  Duration rtt_deviation{};
  Duration rtt_least{};  ///< of the present connection: what the way takes when nothing queues on it; zero: unknown
  double up_bytes_per_s = 0;  ///< measured while the link was the limit; zero: unknown
  double down_bytes_per_s = 0;
  std::uint64_t bytes_sent = 0;  ///< payload, since this node started
  std::uint64_t bytes_received = 0;
  std::uint64_t bulk_bytes = 0;  ///< of that, both ways, what is of tensors and states
  /// Of the present connection: every byte, pings too, and what of a frame is here already.
  std::uint64_t line_bytes_received = 0;
  std::string_view path;  ///< of it: `ByteStream::path`; empty while not connected
};

/// One node's end of the network. Thread safety: none; belongs to the node's loop. Outlives its conversations.
class Endpoint {
 public:
  virtual ~Endpoint() = default;
  virtual const PeerId& self() const = 0;

  /// Before the node starts: every method once.
  virtual void handle(Method, Handler) = 0;
  /// A conversation's row has no handler: `protocol` names the row that guards it.
  virtual void allow_conversation(Method protocol) = 0;

  /// Asks `to` and waits. Dials when there is no connection. Errors: those of the handler; `gone`, `late`.
  /// A call that broke with its connection is repeated with the same id, so the handler runs once; that of an
  /// idempotent method perhaps twice.
  virtual Task<Answer> call(PeerId to, std::string_view method, Frame request, TimePoint deadline) = 0;
  /// Opens this node's end of (protocol, topic). While it lives, connections to `members` are pinged when silent for
  /// 0.5 s, so that `link()` tells who is frozen. Frames from peers outside `members` are delivered too when the row's
  /// claim allows them.
  virtual std::unique_ptr<Conversation> converse(std::string_view protocol, const Topic& topic,
                                                 std::vector<PeerId> members) = 0;

  virtual LinkState link(const PeerId&) const = 0;
  /// What this machine's owner allows of its line.
  virtual Caps caps() const { return {}; }
  /// Addresses where `peer` says it listens. Replaces what was known; empty: it cannot be dialled.
  virtual void introduce(const PeerId& peer, std::vector<Address> addresses) = 0;
  /// Where relays lead to `peer`, whom nobody can dial. Replaces what was known.
  virtual void introduce_relays(const PeerId& /*peer*/, std::vector<Address> /*relays*/) {}
  /// Whether there is a connection, or an address to dial. Circuits that carry words only are no such way: who plans
  /// with a peer does not see them.
  virtual bool can_reach(const PeerId&) const = 0;
  /// Connected peers that offer to carry tensors between others who cannot reach each other, the nearest first.
  virtual std::vector<PeerId> tensor_relays() const { return {}; }
};

}  // namespace collab::net
