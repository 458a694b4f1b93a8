#include "net/conversations.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace collab::net {

/// What one conversation sends to one peer in one class.
struct Conversations::Lane {
  explicit Lane(const asio::any_io_executor& executor) : changed(executor) {}
  StreamKey stream;                   ///< connection 0: none
  bool ending = false;                ///< moves to another connection, once the other side has read all of this one
  std::optional<Refusal> refused;     ///< the peer wants no more
  std::deque<std::uint64_t> waiting;  ///< senders, in their order
  Signal changed;
};

class Conversations::Talk final : public Conversation {
 public:
  Talk(Conversations& hub, Key about, std::vector<PeerId> with)
      : key(std::move(about)), arrived(hub.needs_.executor), hub_(hub), members_(std::move(with)) {
    for (const PeerId& member : members_) hub_.needs_.paths.converses(member, 1);
  }
  ~Talk() override {
    for (const PeerId& member : members_) hub_.needs_.paths.converses(member, -1);
    hub_.close(*this);
  }

  Task<Result<>> send(PeerId to, TrafficClass traffic, Frame frame, TimePoint deadline) override;
  Task<Result<Envelope>> receive(TimePoint deadline) override;
  void add_member(PeerId peer) override {
    if (peer == hub_.needs_.self || std::find(members_.begin(), members_.end(), peer) != members_.end()) return;
    members_.push_back(peer);
    hub_.needs_.paths.converses(peer, 1);
  }

  Key key;
  Signal arrived;
  std::map<std::pair<PeerId, TrafficClass>, Lane> lanes;

 private:
  class Turn;
  std::optional<Result<>> try_send(Lane& lane, const Frame& frame);
  Task<Result<>> open_stream(PeerId to, TrafficClass traffic, Lane& lane, Frame frame, TimePoint deadline);
  std::optional<Envelope> take(Room& room);

  Conversations& hub_;
  std::vector<PeerId> members_;
  std::uint64_t next_turn_ = 0;
};

/// A place in a lane's queue, given up when its sender is done or cancelled.
class Conversations::Talk::Turn {
 public:
  Turn(Lane& lane, std::uint64_t number) : lane_(lane), number_(number) { lane_.waiting.push_back(number_); }
  ~Turn() {
    lane_.waiting.erase(std::find(lane_.waiting.begin(), lane_.waiting.end(), number_));
    if (!lane_.waiting.empty()) lane_.changed.notify();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  bool has_come() const { return lane_.waiting.front() == number_; }

 private:
  Lane& lane_;
  std::uint64_t number_;
};

/// Nothing: there is no stream, or no room on it.
std::optional<Result<>> Conversations::Talk::try_send(Lane& lane, const Frame& frame) {
  Multiplexer* streams = hub_.needs_.paths.find(lane.stream.connection);
  if (streams == nullptr) return std::nullopt;
  const std::size_t queued = streams->queued(lane.stream.stream);
  if (queued > 0 && queued + frame->size() > hub_.options_.queue_bytes_max) return std::nullopt;
  streams->send(lane.stream.stream, frame, false);
  return Result<>();
}

Task<Result<>> Conversations::Talk::open_stream(PeerId to, TrafficClass traffic, Lane& lane, Frame frame,
                                                TimePoint deadline) {
  const auto way = co_await hub_.needs_.paths.reach(to, deadline);
  if (!way) co_return make_error_code(way.error().code);
  OpenTopic head;
  head.protocol = key.protocol;
  head.topic = key.topic;
  const auto stream = (*way)->open(traffic, hub_, OpenHead(std::move(head)), std::move(frame), false);
  if (!stream) co_return stream.error();
  lane.stream = key_of(**way, *stream);
  Outgoing out;
  out.talk = this;
  out.lane = &lane;
  hub_.outgoing_[lane.stream] = out;
  co_return Result<>();
}

Task<Result<>> Conversations::Talk::send(PeerId to, TrafficClass traffic, Frame frame, TimePoint deadline) {
  assert(frame && !frame->empty() && frame->size() <= kMessageBytesMax);
  if (to == hub_.needs_.self) {
    Item item;
    item.from = to;
    item.frame = std::move(frame);
    item.traffic = traffic;
    hub_.put(hub_.rooms_.at(key), std::move(item));
    co_return Result<>();
  }
  Lane& lane = lanes.try_emplace(std::make_pair(to, traffic), hub_.needs_.executor).first->second;
  const Turn turn(lane, next_turn_++);
  for (;;) {
    if (lane.refused) co_return make_error_code(lane.refused->code);
    if (turn.has_come() && !lane.ending) {
      if (lane.stream.connection == 0) co_return co_await open_stream(to, traffic, lane, std::move(frame), deadline);
      if (const auto sent = try_send(lane, frame)) co_return *sent;
    }
    const WaitsFor waits(hub_.needs_.paths, to);
    const bool in_time = co_await lane.changed.wait_until(hub_.needs_.clock, deadline);
    if (!in_time && hub_.needs_.clock.now() >= deadline) co_return Errc::late;
  }
}

std::optional<Envelope> Conversations::Talk::take(Room& room) {
  for (auto& unread : room.unread) {
    if (unread.empty()) continue;
    const Item item = std::move(unread.front());
    unread.pop_front();
    hub_.give_back(item);
    Envelope envelope;
    envelope.from = item.from;
    envelope.frame = item.frame;
    return envelope;
  }
  return std::nullopt;
}

Task<Result<Envelope>> Conversations::Talk::receive(TimePoint deadline) {
  for (;;) {
    if (auto envelope = take(hub_.rooms_.at(key))) co_return std::move(*envelope);
    const bool in_time = co_await arrived.wait_until(hub_.needs_.clock, deadline);
    if (in_time) continue;
    if (auto envelope = take(hub_.rooms_.at(key))) co_return std::move(*envelope);
    co_return Errc::late;
  }
}

Conversations::~Conversations() {
  for (const auto& [key, room] : rooms_) assert(room.talk == nullptr && "conversations end before their endpoint");
}

std::unique_ptr<Conversation> Conversations::open(std::string_view protocol, const Digest& topic,
                                                  std::vector<PeerId> members) {
  const MethodRow* row = needs_.methods.find(protocol);
  assert(row != nullptr && !row->handler && "allow_conversation comes first");
  (void)row;  // asserts are on in every build; this is for who turns them off
  Key key;
  key.protocol = protocol;
  key.topic = topic;
  std::erase(members, needs_.self);
  auto talk = std::make_unique<Talk>(*this, key, std::move(members));
  Room& room = rooms_[key];
  assert(room.talk == nullptr && "one conversation for each topic");
  room.talk = talk.get();
  if (closed_.erase(key) > 0) std::erase(closed_order_, key);
  for (const StreamKey& stream : room.streams)
    if (Multiplexer* streams = needs_.paths.find(stream.connection)) streams->widen(stream.stream);
  return talk;
}

void Conversations::close(Talk& talk) {
  for (auto& [to, lane] : talk.lanes) {
    if (lane.stream.connection == 0) continue;
    outgoing_.erase(lane.stream);
    Multiplexer* streams = needs_.paths.find(lane.stream.connection);
    if (streams != nullptr && !lane.ending) streams->end(lane.stream.stream);
  }
  empty(talk.key, rooms_.at(talk.key));
  rooms_.erase(talk.key);
  if (closed_.insert(talk.key).second) closed_order_.push_back(talk.key);
  if (closed_order_.size() > options_.closed_max) {
    closed_.erase(closed_order_.front());
    closed_order_.pop_front();
  }
}

/// Refuses what is still coming and drops what nobody reads.
void Conversations::empty(const Key&, Room& room) {
  for (const StreamKey& stream : std::exchange(room.streams, {})) {
    incoming_.erase(stream);
    if (Multiplexer* streams = needs_.paths.find(stream.connection))
      streams->reset(stream.stream, Refusal(Errc::stale, "not open here"));
  }
  for (auto& unread : room.unread)
    for (const Item& item : std::exchange(unread, {})) give_back(item);
}

void Conversations::give_back(const Item& item) {
  if (Multiplexer* streams = needs_.paths.find(item.stream.connection))
    streams->consumed(item.stream.stream, item.traffic, item.frame->size());
}

void Conversations::put(Room& room, Item item) {
  const auto traffic = static_cast<std::size_t>(item.traffic);
  room.unread[traffic].push_back(std::move(item));
  if (room.talk != nullptr) room.talk->arrived.notify();
}

Accepted Conversations::on_open(Multiplexer& streams, StreamHandle stream, TrafficClass traffic,
                                const OpenTopic& open) {
  const MethodRow* row = needs_.methods.find(open.protocol);
  if (row == nullptr || row->handler) return Refusal(Errc::bad_request, "no such protocol");
  if (const Decision may = needs_.access.may(streams.peer(), row->method.claim); !may) {
    needs_.metrics.add("collab_refused_total", 1, {{"reason", "denied"}});
    return Refusal(Errc::denied, may.reason);
  }
  Incoming in;
  in.key.protocol = open.protocol;
  in.key.topic = open.topic;
  in.traffic = traffic;
  if (closed_.contains(in.key)) return Refusal(Errc::stale, "closed here");
  Room& room = rooms_[in.key];
  const StreamKey key = key_of(streams, stream);
  if (room.talk == nullptr) {
    if (room.streams.empty()) room.since = needs_.clock.now();
    streams.hold(stream);
  } else {
    streams.widen(stream);
  }
  room.streams.insert(key);
  incoming_[key] = std::move(in);
  return this;
}

void Conversations::on_message(Multiplexer& streams, StreamHandle stream, Frame message) {
  const StreamKey key = key_of(streams, stream);
  const auto found = incoming_.find(key);
  if (found == incoming_.end()) {  // an answer on a stream of ours: there is none in this protocol
    const Refusal why(Errc::bad_request, "unexpected message");
    streams.reset(stream, why);
    return on_closed(streams, stream, StreamEnd::refused, why);
  }
  Item item;
  item.from = streams.peer();
  item.frame = std::move(message);
  item.stream = key;
  item.traffic = found->second.traffic;
  put(rooms_.at(found->second.key), std::move(item));
}

void Conversations::on_end(Multiplexer& streams, StreamHandle stream) {
  if (incoming_.contains(key_of(streams, stream))) streams.end(stream);
}

void Conversations::on_room(Multiplexer& streams, StreamHandle stream) {
  const auto found = outgoing_.find(key_of(streams, stream));
  if (found != outgoing_.end() && !found->second.lane->waiting.empty()) found->second.lane->changed.notify();
}

void Conversations::on_closed(Multiplexer& streams, StreamHandle stream, StreamEnd end, const Refusal& why) {
  const StreamKey key = key_of(streams, stream);
  if (const auto out = outgoing_.find(key); out != outgoing_.end()) {
    Lane& lane = *out->second.lane;
    lane.stream = StreamKey();
    lane.ending = false;
    if (end == StreamEnd::refused) lane.refused = why;
    lane.changed.notify();
    outgoing_.erase(out);
    return;
  }
  const auto in = incoming_.find(key);
  if (in == incoming_.end()) return;
  const auto room = rooms_.find(in->second.key);
  incoming_.erase(in);
  if (room == rooms_.end()) return;
  room->second.streams.erase(key);
}

void Conversations::leave(Multiplexer& streams) {
  for (auto& [key, out] : outgoing_) {
    if (key.connection != streams.serial() || out.lane->ending) continue;
    out.lane->ending = true;
    streams.end(key.stream);
  }
}

void Conversations::tick(TimePoint now) {
  for (auto next = rooms_.begin(); next != rooms_.end();) {
    const auto room = next++;
    if (room->second.talk != nullptr) continue;
    if (now - room->second.since < options_.unopened_time) continue;
    needs_.metrics.add("collab_refused_total", 1, {{"reason", "topic_unopened"}});
    empty(room->first, room->second);
    rooms_.erase(room);
  }
}

}  // namespace collab::net
