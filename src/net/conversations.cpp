#include "net/conversations.hpp"

#include "base/duration.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace collab::net {
namespace {

constexpr std::uint64_t kUnopenedRetryMs = 1000;
constexpr int kRoundTrips = 4;          // over which is counted what is read in one: it comes in bursts
constexpr double kUsedUp = 0.6;         // of a window: word of the reader goes in quarters, and is late by one of them
constexpr std::uint64_t kNotAgain = 1;  // in a refusal as stale: it will not be opened here, or not again

Refusal elsewhere() {
  return Refusal(Errc::stale, "this peer is in another conversation of this occasion", kNotAgain);
}

}  // namespace

/// What one conversation sends to one peer in one class.
struct Conversations::Lane {
  explicit Lane(const asio::any_io_executor& executor) : changed(executor) {}
  StreamKey stream;                ///< connection 0: none
  bool ending = false;             ///< moves to another connection, once the other side has read all of this one
  std::optional<Refusal> refused;  ///< the peer wants no more
  boost::container::deque<std::uint64_t> waiting;  ///< senders, in their order
  Signal changed;
  double planned_bytes = 0;   ///< in all,
  double accepted_bytes = 0;  ///< and how many of them wait or have left
};

class Conversations::Talk final : public Conversation {
 public:
  Talk(Conversations& hub, Key about, const Digest& on, std::vector<PeerId> with)
      : key(std::move(about)),
        occasion(on),
        arrived(hub.needs_.executor),
        hub_(hub),
        members_(std::move(with)),
        shallow_(hub.is_shallow(key.protocol)) {
    for (const PeerId& member : members_) hub_.needs_.paths.converses(member, 1);
  }
  ~Talk() override {
    for (const PeerId& member : members_) hub_.needs_.paths.converses(member, -1);
    if (plans_) --hub_.planning_;
    hub_.close(*this);
  }

  Task<Result<>> send(PeerId to, TrafficClass traffic, Frame frame, TimePoint deadline) override;
  Task<Result<Envelope>> receive(TimePoint deadline) override;
  void add_member(PeerId peer) override {
    if (peer == hub_.needs_.self || std::find(members_.begin(), members_.end(), peer) != members_.end()) return;
    members_.push_back(peer);
    hub_.needs_.paths.converses(peer, 1);
  }
  void remove_member(PeerId peer) override {
    if (std::erase(members_, peer) > 0) hub_.needs_.paths.converses(peer, -1);
  }

  void plan(std::vector<Planned> sends) override {
    if (!std::exchange(plans_, true)) ++hub_.planning_;
    for (const Planned& planned : sends) lane_to(planned.to, TrafficClass::bulk).planned_bytes = planned.bytes;
  }

  bool closed_by(const PeerId& peer) const override {
    for (const TrafficClass traffic : {TrafficClass::control, TrafficClass::latency, TrafficClass::bulk}) {
      const auto lane = lanes.find(std::make_pair(peer, traffic));
      if (lane == lanes.end() || !lane->second.refused) continue;
      if (lane->second.refused->code == Errc::stale && lane->second.refused->number == kNotAgain) return true;
    }
    return false;
  }

  /// `peer` talks about it, so it has it open: whatever it refused before is said in vain no longer. It may have been a
  /// life of it that had just begun, and did not know the protocol yet.
  void opened_by(const PeerId& peer) {
    for (const TrafficClass traffic : {TrafficClass::control, TrafficClass::latency, TrafficClass::bulk}) {
      const auto lane = lanes.find(std::make_pair(peer, traffic));
      if (lane != lanes.end()) lane->second.refused.reset();
    }
  }

  Key key;
  Digest occasion;
  Signal arrived;
  std::map<std::pair<PeerId, TrafficClass>, Lane> lanes;

 private:
  class Turn;
  Lane& lane_to(const PeerId& to, TrafficClass traffic) {
    return lanes.try_emplace(std::make_pair(to, traffic), hub_.needs_.executor).first->second;
  }
  std::optional<Result<>> try_send(Lane& lane, const Frame& frame);
  Task<Result<>> open_stream(PeerId to, TrafficClass traffic, Lane& lane, Frame frame, TimePoint deadline);
  std::optional<Envelope> take(Room& room);

  Conversations& hub_;
  std::vector<PeerId> members_;
  bool shallow_;
  bool plans_ = false;
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
  const Options& options = hub_.options_;
  const std::size_t most = shallow_ ? options.shallow_bytes_max : options.queue_bytes_max;
  if (queued > 0 && queued + frame->size() > most) return std::nullopt;
  streams->send(lane.stream.stream, frame, false);
  lane.accepted_bytes += static_cast<double>(frame->size());
  return Result<>();
}

Task<Result<>> Conversations::Talk::open_stream(PeerId to, TrafficClass traffic, Lane& lane, Frame frame,
                                                TimePoint deadline) {
  const bool bulk = hub_.needs_.methods.find(key.protocol)->method.traffic == TrafficClass::bulk;
  Paths& paths = hub_.needs_.paths;
  auto reaching = bulk ? paths.reach_for_tensors(to, deadline) : paths.reach(to, deadline);
  const auto way = co_await std::move(reaching);
  if (!way) co_return make_error_code(way.error().code);
  OpenTopic head;
  head.protocol = key.protocol;
  head.topic = key.topic;
  head.occasion = occasion;
  const auto bytes = static_cast<double>(frame->size());
  const auto stream = (*way)->open(traffic, hub_, OpenHead(std::move(head)), std::move(frame), false);
  if (!stream) co_return stream.error();
  lane.stream = key_of(**way, *stream);
  Outgoing out;
  out.talk = this;
  out.lane = &lane;
  out.traffic = traffic;
  hub_.outgoing_[lane.stream] = out;
  lane.accepted_bytes += bytes;
  if (lane.planned_bytes > 0) paths.share_line();
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
  Lane& lane = lane_to(to, traffic);
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

std::unique_ptr<Conversation> Conversations::open(std::string_view protocol, const Topic& topic,
                                                  std::vector<PeerId> members) {
  const MethodRow* row = needs_.methods.find(protocol);
  assert(row != nullptr && !row->handler && "allow_conversation comes first");
  (void)row;  // asserts are on in every build; this is for who turns them off
  Key key;
  key.protocol = protocol;
  key.topic = topic.id;
  std::erase(members, needs_.self);
  auto talk = std::make_unique<Talk>(*this, key, topic.occasion, std::move(members));
  const auto [at, fresh] = rooms_.try_emplace(key);
  Room& room = at->second;
  assert(room.talk == nullptr && "one conversation for each topic");
  if (!fresh) no_longer_unopened(room);
  room.talk = talk.get();
  take_occasion(key.protocol, topic.occasion);
  if (const auto closed = closed_.extract(key)) {
    std::erase(closed_order_, key);
    free_occasion(key.protocol, closed.mapped().occasion);
  }
  const bool shallow = is_shallow(key.protocol);
  for (const StreamKey& stream : room.streams)
    if (Multiplexer* streams = needs_.paths.find(stream.connection)) give_window(*streams, stream.stream, shallow);
  return talk;
}

bool Conversations::is_shallow(const std::string& protocol) const {
  return needs_.methods.find(protocol)->method.shallow;
}

/// Somebody reads.
void Conversations::give_window(Multiplexer& streams, StreamHandle stream, bool shallow) const {
  if (shallow) {
    streams.release(stream);
  } else {
    streams.widen(stream);
  }
}

/// Refuses what waits for another topic of it.
void Conversations::take_occasion(const std::string& protocol, const Digest& occasion) {
  if (occasion == Digest{}) return;
  ++taken_[Key{protocol, occasion}];
  std::vector<StreamKey> in_vain;
  for (const auto& [stream, in] : incoming_)
    if (in.occasion == occasion && in.key.protocol == protocol && rooms_.at(in.key).talk == nullptr)
      in_vain.push_back(stream);
  for (const StreamKey& stream : in_vain) {
    if (Multiplexer* streams = needs_.paths.find(stream.connection)) streams->reset(stream.stream, elsewhere());
    forget(stream, true);
  }
}

void Conversations::free_occasion(const std::string& protocol, const Digest& occasion) {
  const auto taken = taken_.find(Key{protocol, occasion});
  if (taken != taken_.end() && --taken->second == 0) taken_.erase(taken);
}

void Conversations::close(Talk& talk) {
  for (auto& [to, lane] : talk.lanes) {
    if (lane.stream.connection == 0) continue;
    outgoing_.erase(lane.stream);
    Multiplexer* streams = needs_.paths.find(lane.stream.connection);
    if (streams != nullptr && !lane.ending) streams->end(lane.stream.stream);
  }
  erase(rooms_.find(talk.key));
  const TimePoint now = needs_.clock.now();
  closed_.emplace(talk.key, Closed{talk.occasion, now});
  closed_order_.push_back(talk.key);
  const auto is_old = [&](const Key& key) { return closed_.at(key).at + options_.closed_kept < now; };
  while (closed_order_.size() > options_.closed_max || is_old(closed_order_.front())) {
    const auto oldest = closed_.extract(closed_order_.front());
    closed_order_.pop_front();
    free_occasion(oldest.key().protocol, oldest.mapped().occasion);
  }
}

/// A room that nobody has opened here, for the first stream about its topic; or why there is none.
std::optional<Refusal> Conversations::found(const Key& key, const PeerId& founder) {
  Held& held = held_[founder];
  if (held.unopened >= options_.unopened_of_peer_max || unopened_ >= options_.unopened_max) {
    forget_if_nothing(founder);
    needs_.metrics.add("collab_refused_total", 1, {{"reason", "topics_unopened"}});
    return Refusal(Errc::busy, "too many topics that are not open here", kUnopenedRetryMs);
  }
  ++held.unopened;
  ++unopened_;
  Room& room = rooms_[key];
  room.founder = founder;
  room.since = needs_.clock.now();
  return std::nullopt;
}

void Conversations::no_longer_unopened(const Room& room) {
  --unopened_;
  --held_.at(room.founder).unopened;
  forget_if_nothing(room.founder);
}

/// Refuses what is still coming and drops what nobody reads.
void Conversations::erase(Rooms::iterator at) {
  Room& room = at->second;
  for (const StreamKey& stream : std::exchange(room.streams, {})) {
    incoming_.erase(stream);
    if (Multiplexer* streams = needs_.paths.find(stream.connection))
      streams->reset(stream.stream, room.talk != nullptr ? Refusal(Errc::stale, "closed here", kNotAgain)
                                                         : Refusal(Errc::stale, "not open here"));
  }
  for (auto& unread : room.unread)
    for (const Item& item : std::exchange(unread, {})) give_back(item);
  if (room.talk == nullptr) no_longer_unopened(room);
  rooms_.erase(at);
}

bool Conversations::has_room_for(const Item& item, const Room& room, const Incoming& from) const {
  const auto found = held_.find(item.from);
  const Held held = found == held_.end() ? Held() : found->second;
  if (room.talk == nullptr && from.unread >= options_.unread_of_stream_max) return false;
  return held.frames < options_.unread_of_peer_max &&
         held.bytes + item.frame->size() <= options_.unread_bytes_of_peer_max;
}

void Conversations::put(Room& room, Item item) {
  if (item.stream.connection != 0) {
    Held& held = held_[item.from];
    ++held.frames;
    held.bytes += item.frame->size();
    ++unread_;
    ++incoming_.at(item.stream).unread;
  }
  const auto traffic = static_cast<std::size_t>(item.traffic);
  room.unread[traffic].push_back(std::move(item));
  if (room.talk != nullptr) room.talk->arrived.notify();
}

/// It is read, or dropped: its sender may send as much again.
void Conversations::give_back(const Item& item) {
  if (item.stream.connection == 0) return;
  Held& held = held_.at(item.from);
  --held.frames;
  held.bytes -= item.frame->size();
  --unread_;
  forget_if_nothing(item.from);
  const auto in = incoming_.find(item.stream);
  if (in != incoming_.end()) --in->second.unread;
  Multiplexer* streams = needs_.paths.find(item.stream.connection);
  if (streams == nullptr) return;
  streams->consumed(item.stream.stream, item.traffic, item.frame->size());
  if (in != incoming_.end() && in->second.shallow) fit_window(*streams, item, in->second);
}

/// Little of a shallow protocol may wait, but a fast and long way has to be full. Where all but the whole window is
/// read in each round trip the sender waits for word of the reader, not for the way.
void Conversations::fit_window(Multiplexer& streams, const Item& item, Incoming& in) const {
  const TimePoint now = needs_.clock.now();
  const Duration round_trip = needs_.paths.rtt_least(item.stream.connection);
  const Duration taken = now - in.counted_from;
  in.read += item.frame->size();
  if (taken < kRoundTrips * round_trip) return;
  const double read = static_cast<double>(in.read) * to_seconds(round_trip) / to_seconds(std::max(taken, Duration(1)));
  if (read > kUsedUp * static_cast<double>(streams.window(item.stream.stream)))
    streams.double_window(item.stream.stream);
  in.counted_from = now;
  in.read = 0;
}

void Conversations::forget_if_nothing(const PeerId& peer) {
  const Held& held = held_.at(peer);
  if (held.unopened == 0 && held.frames == 0) held_.erase(peer);
}

/// A stream that is over. What it brought about a topic that nobody has opened goes with it when `drop_unread`.
void Conversations::forget(const StreamKey& stream, bool drop_unread) {
  const auto in = incoming_.find(stream);
  if (in == incoming_.end()) return;
  const auto at = rooms_.find(in->second.key);
  incoming_.erase(in);
  Room& room = at->second;
  room.streams.erase(stream);
  if (room.talk != nullptr) return;
  const auto of_stream = [&](const Item& item) { return item.stream == stream; };
  bool empty = room.streams.empty();
  for (auto& unread : room.unread) {
    if (drop_unread) {
      for (const Item& item : unread)
        if (of_stream(item)) give_back(item);
      unread.erase(std::remove_if(unread.begin(), unread.end(), of_stream), unread.end());
    }
    empty = empty && unread.empty();
  }
  if (empty) erase(at);
}

Accepted Conversations::on_open(Multiplexer& streams, StreamHandle stream, TrafficClass traffic, const OpenTopic& open,
                                std::size_t message_bytes) {
  const MethodRow* row = needs_.methods.find(open.protocol);
  if (row == nullptr || row->handler) return Refusal(Errc::bad_request, "no such protocol");
  if (const Decision may = needs_.access.may(streams.peer(), row->method.claim); !may) {
    needs_.metrics.add("collab_refused_total", 1, {{"reason", "denied"}});
    return Refusal(Errc::denied, may.reason);
  }
  if (message_bytes > row->method.request_bytes_max) {
    needs_.metrics.add("collab_refused_total", 1, {{"reason", "size"}});
    return Refusal(Errc::bad_request, "size");
  }
  Incoming in;
  in.key.protocol = open.protocol;
  in.key.topic = open.topic;
  in.traffic = traffic;
  in.frame_bytes_max = row->method.request_bytes_max;
  in.occasion = open.occasion;
  in.shallow = row->method.shallow;
  if (closed_.contains(in.key)) return Refusal(Errc::stale, "closed here", kNotAgain);
  const auto known = rooms_.find(in.key);
  const bool is_open = known != rooms_.end() && known->second.talk != nullptr;
  if (!is_open && taken_.contains(Key{in.key.protocol, in.occasion})) return elsewhere();
  if (known == rooms_.end())
    if (auto why = found(in.key, streams.peer())) return std::move(*why);
  Room& room = rooms_.at(in.key);
  const StreamKey key = key_of(streams, stream);
  if (room.talk == nullptr) {
    streams.hold(stream);
  } else {
    give_window(streams, stream, in.shallow);
    room.talk->opened_by(streams.peer());
  }
  room.streams.insert(key);
  incoming_[key] = std::move(in);
  return this;
}

void Conversations::on_message(Multiplexer& streams, StreamHandle stream, Frame message) {
  const StreamKey key = key_of(streams, stream);
  const auto found = incoming_.find(key);
  if (found == incoming_.end()) {  // an answer on a stream of ours: there is none in this protocol
    if (const auto out = outgoing_.find(key); out != outgoing_.end())
      streams.consumed(stream, out->second.traffic, message->size());
    const Refusal why(Errc::bad_request, "unexpected message");
    streams.reset(stream, why);
    return on_closed(streams, stream, StreamEnd::refused, why);
  }
  Item item;
  item.from = streams.peer();
  item.frame = std::move(message);
  item.stream = key;
  item.traffic = found->second.traffic;
  Room& room = rooms_.at(found->second.key);
  const bool fits = item.frame->size() <= found->second.frame_bytes_max;
  if (fits && has_room_for(item, room, found->second)) return put(room, std::move(item));
  needs_.metrics.add("collab_refused_total", 1, {{"reason", fits ? "unread" : "size"}});
  streams.consumed(stream, item.traffic, item.frame->size());
  streams.reset(stream, fits ? Refusal(Errc::busy, "too much waits unread here", kUnopenedRetryMs)
                             : Refusal(Errc::bad_request, "size"));
  forget(key, true);
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
    if (end == StreamEnd::refused) lane.refused = why.code == Errc::late ? Refusal(Errc::gone, why.reason) : why;
    lane.changed.notify();
    outgoing_.erase(out);
    return;
  }
  forget(key, end != StreamEnd::done);
}

void Conversations::leave(Multiplexer& streams) {
  for (auto& [key, out] : outgoing_) {
    if (key.connection != streams.serial() || out.lane->ending) continue;
    out.lane->ending = true;
    streams.end(key.stream);
  }
}

std::vector<Flow> Conversations::flows() const {
  std::vector<Flow> flows;
  if (planning_ == 0) return flows;
  for (const auto& [key, out] : outgoing_) {
    const Lane& lane = *out.lane;
    if (lane.planned_bytes <= 0 || out.traffic != TrafficClass::bulk) continue;
    const Multiplexer* streams = needs_.paths.find(key.connection);
    const std::size_t waiting = streams == nullptr ? 0 : streams->queued(key.stream);
    if (waiting == 0 && lane.accepted_bytes >= lane.planned_bytes) continue;
    Flow& flow = flows.emplace_back();
    flow.id = key.connection;
    flow.planned_bytes = lane.planned_bytes;
    flow.waiting = waiting > 0;
  }
  return flows;
}

void Conversations::tick(TimePoint now) {
  for (auto next = rooms_.begin(); next != rooms_.end();) {
    const auto room = next++;
    if (room->second.talk != nullptr) continue;
    if (now - room->second.since < options_.unopened_time) continue;
    needs_.metrics.add("collab_refused_total", 1, {{"reason", "topic_unopened"}});
    erase(room);
  }
}

}  // namespace collab::net
