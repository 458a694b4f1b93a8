#pragma once
// Both ends of conversations: who talks about what, and what waits unread.

#include "base/metrics.hpp"
#include "base/signal.hpp"
#include "crypto/access.hpp"
#include "net/endpoint.hpp"
#include "net/line.hpp"
#include "net/paths.hpp"
#include "net/rpc.hpp"

#include <boost/container/deque.hpp>

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace collab::net {

/// A sender has one stream for each (peer, protocol, topic, class), opened with its first frame. A stream whose topic
/// is not open here gets no credit beyond its first, and is refused as `stale` after `unopened_time`, counted from the
/// first stream about it. What a sender takes back before that, or loses with its connection, is dropped at once.
///
/// An occasion is taken by the topic that is open here, and as long as that is remembered as closed: its outcome does
/// not matter, for the next try is another occasion, and what is fetched of a round is fetched in its own topic. What
/// is opened here, also once more, is open whatever took its occasion; only its first streams may have been refused. A
/// new process remembers nothing. What a stream says about its occasion counts for that stream only, so nobody can have
/// another's refused; and what is remembered is what was opened here, so nobody can add to it.
///
/// Memory: payload is bounded by credit, and what one-byte messages cost beside it by the numbers below. A stream that
/// reaches one of them is reset as `busy`.
class Conversations final : public StreamUser {
 public:
  struct Options {
    std::size_t queue_bytes_max = std::size_t(1) << 20U;  ///< accepted and unsent, for each stream; then senders wait
    std::size_t shallow_bytes_max = std::size_t(64) << 10U;  ///< the same, of a protocol that is `shallow`
    Duration unopened_time = std::chrono::seconds(5);
    std::size_t closed_max = 4096;                    ///< topics that are remembered as closed here: refused at once
    Duration closed_kept = std::chrono::minutes(10);  ///< and for how long: who comes later waits until its deadline
    std::size_t unopened_of_peer_max = 16;            ///< topics that one peer was the first to name
    std::size_t unopened_max = 1024;                  ///< topics in all that nobody has opened here
    std::size_t unread_of_stream_max = 1024;          ///< frames about such a topic
    std::size_t unread_of_peer_max = 4096;            ///< frames on all its streams, also about topics that are open
    std::size_t unread_bytes_of_peer_max = std::size_t(16) << 20U;  ///< also over connections that are gone
  };
  struct Needs {
    asio::any_io_executor executor;
    Clock& clock;
    Paths& paths;
    const Access& access;
    Metrics& metrics;
    const MethodTable& methods;
    PeerId self;
  };

  Conversations(const Needs& needs, const Options& options) : needs_(needs), options_(options) {}
  ~Conversations() override;

  /// `protocol` has a row without a handler. One conversation at a time for each (protocol, topic).
  std::unique_ptr<Conversation> open(std::string_view protocol, const Topic& topic, std::vector<PeerId> members);

  /// `message_bytes`: of the first frame; 0: none yet.
  Accepted on_open(Multiplexer&, StreamHandle, TrafficClass, const OpenTopic&, std::size_t message_bytes);
  /// Another connection to this peer stays: what is sent from now on goes there, after what was sent here.
  void leave(Multiplexer&);
  void tick(TimePoint now);

  /// What was planned and has not left, by the serial of its connection, of which some may be there more than once.
  /// What was delivered is for others to say.
  std::vector<Flow> flows() const;

  /// Topics that others have named and nobody has opened here.
  std::size_t unopened() const noexcept { return unopened_; }
  /// Frames from others that wait to be read.
  std::size_t unread() const noexcept { return unread_; }

  void on_message(Multiplexer&, StreamHandle, Frame message) override;
  void on_end(Multiplexer&, StreamHandle) override;
  void on_room(Multiplexer&, StreamHandle) override;
  void on_closed(Multiplexer&, StreamHandle, StreamEnd, const Refusal&) override;

 private:
  class Talk;
  struct Lane;
  struct Key {
    std::string protocol;
    Digest topic{};
    auto operator<=>(const Key&) const = default;
  };
  struct Item {
    PeerId from;
    Frame frame;
    StreamKey stream;  ///< connection 0: from ourselves
    TrafficClass traffic = TrafficClass::control;
  };
  /// What arrived about one topic.
  struct Room {
    Talk* talk = nullptr;  ///< null: nobody has opened it here
    PeerId founder{};      ///< while nobody has: who named it first, and when
    TimePoint since{};
    std::array<boost::container::deque<Item>, kClasses> unread;
    std::set<StreamKey> streams;
  };
  struct Incoming {
    Key key;
    Digest occasion{};
    TrafficClass traffic = TrafficClass::control;
    std::size_t frame_bytes_max = 0;  ///< by the protocol's row
    std::size_t unread = 0;           ///< frames
    bool shallow = false;
    TimePoint counted_from{};
    std::size_t read = 0;  ///< bytes since then, if it is shallow
  };
  struct Outgoing {
    Talk* talk = nullptr;
    Lane* lane = nullptr;
    TrafficClass traffic = TrafficClass::control;
  };
  /// What one peer makes us hold.
  struct Held {
    std::size_t unopened = 0;  ///< rooms that it founded
    std::size_t frames = 0;
    std::size_t bytes = 0;
  };
  using Rooms = std::map<Key, Room>;

  void close(Talk&);
  bool is_shallow(const std::string& protocol) const;
  void give_window(Multiplexer&, StreamHandle, bool shallow) const;
  void take_occasion(const std::string& protocol, const Digest& occasion);
  void free_occasion(const std::string& protocol, const Digest& occasion);
  std::optional<Refusal> found(const Key& key, const PeerId& founder);
  void no_longer_unopened(const Room& room);
  void erase(Rooms::iterator room);
  bool has_room_for(const Item& item, const Room& room, const Incoming& from) const;
  void put(Room&, Item item);
  void give_back(const Item& item);
  void fit_window(Multiplexer&, const Item& item, Incoming&) const;
  void forget(const StreamKey& stream, bool drop_unread);
  void forget_if_nothing(const PeerId& peer);

  Needs needs_;
  Options options_;
  Rooms rooms_;
  std::map<PeerId, Held> held_;
  std::size_t unopened_ = 0;
  std::size_t unread_ = 0;
  std::size_t planning_ = 0;  ///< conversations that have planned what they send: mostly none
  std::map<StreamKey, Incoming> incoming_;
  std::map<StreamKey, Outgoing> outgoing_;
  struct Closed {
    Digest occasion{};
    TimePoint at{};
  };
  std::map<Key, Closed> closed_;
  std::deque<Key> closed_order_;
  std::map<Key, std::size_t> taken_;  ///< (protocol, occasion): how many topics of it are open or remembered as closed
};

}  // namespace collab::net
