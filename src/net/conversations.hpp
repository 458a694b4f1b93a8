#pragma once
// Both ends of conversations: who talks about what, and what waits unread.

#include "base/metrics.hpp"
#include "base/signal.hpp"
#include "crypto/access.hpp"
#include "net/endpoint.hpp"
#include "net/paths.hpp"
#include "net/rpc.hpp"

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
/// is not open here gets no credit beyond its first, and is refused as `stale` after `unopened_time`.
class Conversations final : public StreamUser {
 public:
  struct Options {
    std::size_t queue_bytes_max = std::size_t(1) << 20U;  ///< accepted and unsent, for each stream; then senders wait
    Duration unopened_time = std::chrono::seconds(5);
    std::size_t closed_max = 4096;  ///< topics that are remembered as closed here: refused at once
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
  std::unique_ptr<Conversation> open(std::string_view protocol, const Digest& topic, std::vector<PeerId> members);

  Accepted on_open(Multiplexer&, StreamHandle, TrafficClass, const OpenTopic&);
  /// Another connection to this peer stays: what is sent from now on goes there, after what was sent here.
  void leave(Multiplexer&);
  void tick(TimePoint now);

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
    TimePoint since{};
    std::array<std::deque<Item>, kClasses> unread;
    std::set<StreamKey> streams;
  };
  struct Incoming {
    Key key;
    TrafficClass traffic = TrafficClass::control;
  };
  struct Outgoing {
    Talk* talk = nullptr;
    Lane* lane = nullptr;
  };

  void close(Talk&);
  void put(Room&, Item item);
  void give_back(const Item& item);
  void empty(const Key& key, Room& room);

  Needs needs_;
  Options options_;
  std::map<Key, Room> rooms_;
  std::map<StreamKey, Incoming> incoming_;
  std::map<StreamKey, Outgoing> outgoing_;
  std::set<Key> closed_;
  std::deque<Key> closed_order_;
};

}  // namespace collab::net
