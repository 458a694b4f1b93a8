#include "net/links.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace collab::net {
namespace {

constexpr std::size_t kTurns = 4;  // of a window within a second: it is what holds the sender back

void add(Traffic& total, const Traffic& traffic) {
  for (std::size_t i = 0; i < kClasses; ++i) {
    total.sent[i] += traffic.sent[i];
    total.received[i] += traffic.received[i];
  }
}

std::uint64_t bulk_of(const Traffic& traffic) {
  const auto bulk = static_cast<std::size_t>(TrafficClass::bulk);
  return traffic.sent[bulk] + traffic.received[bulk];
}

}  // namespace

Connection& Links::attach(std::unique_ptr<Opened> opened) {
  const std::uint64_t serial = next_serial_++;
  Attached& fresh = attached_[serial];
  fresh.since = needs_.clock.now();
  fresh.connection = std::make_unique<Connection>(needs_.executor, needs_.clock, needs_.owner, serial,
                                                  std::move(opened), options_.connection);
  Connection& connection = *fresh.connection;

  Connection* old = current(connection.peer());
  if (old == nullptr || (connection.confirmed() && is_better(connection, *old))) {
    use(connection);
  } else {
    supersede(connection);
    old->probe(needs_.clock.now());  // why would the peer dial again?
  }
  const bool dialled = connection.side() == Side::dialled;
  needs_.log.info("net.connected", {{"peer", connection.peer().short_text()},
                                    {"side", dialled ? "dialled" : "accepted"},
                                    {"path", connection.path()},
                                    {"software", connection.theirs().software}});
  return connection;
}

void Links::detach(std::uint64_t serial) {
  Connection* const ending = find(serial);
  if (ending == nullptr) return;
  Connection& connection = *ending;
  connection.drop("the endpoint ended");
  connection.streams().lose();
  const auto found = attached_.find(serial);
  remember(found->second);
  receive_left_ += found->second.credit + found->second.narrowing;
  if (found->second.bulk) --bulk_;
  set_spare(found->second, false);
  const PeerId peer = connection.peer();
  needs_.log.info("net.disconnected", {{"peer", peer.short_text()}, {"reason", connection.reason()}});
  if (current(peer) == &connection) current_.erase(peer);
  found->second.connection.reset();
  attached_.erase(found);
  if (current(peer) == nullptr) promote_spare(peer);
  needs_.user.on_change(peer);
}

void Links::carries_bulk(Connection& connection) {
  Attached& fresh = attached(connection);
  if (std::exchange(fresh.bulk, true)) return;
  ++bulk_;
  collect(fresh);
  give_part(fresh);
}

void Links::share_credit() {
  for (auto& [serial, attached] : attached_) {  // also what this node has asked for
    if (attached.bulk || attached.connection->streams().traffic().received[2] == 0) continue;
    attached.bulk = true;
    ++bulk_;
  }
  if (bulk_ == 0) return;
  for (auto& [serial, attached] : attached_) collect(attached);
  for (auto& [serial, attached] : attached_) {
    if (attached.bulk) give_part(attached);
  }
}

/// What it has lost by now.
void Links::collect(Attached& attached) {
  const std::size_t left = attached.connection->streams().not_yet_narrowed(TrafficClass::bulk);
  receive_left_ += attached.narrowing - left;
  attached.narrowing = left;
}

void Links::give_part(Attached& attached) {
  Multiplexer& streams = attached.connection->streams();
  const std::size_t part = std::min(options_.receive_bytes_max / bulk_, options_.receive_of_connection_max);
  const std::uint64_t received = streams.traffic().received[2];
  const bool used = received - std::exchange(attached.received_then, received) >= kTurns * attached.credit;
  // of few each gets at once what a round over a long way needs; 12 of them take most of it, until they use it
  const std::size_t first = std::max(options_.receive_of_connection_first, receive_left_ / 8);
  const std::size_t wanted = attached.credit == 0 ? first : 2 * attached.credit;
  if (attached.credit > part) {
    streams.narrow_connection(TrafficClass::bulk, attached.credit - part);
    attached.narrowing += attached.credit - part;
    attached.credit = part;
  } else if (attached.credit < part && used) {
    const std::size_t more = std::min(std::min(wanted, part) - attached.credit, receive_left_);
    receive_left_ -= more;
    attached.credit += more;
    if (more > 0) streams.widen_connection(TrafficClass::bulk, more);
  }
}

/// Who has got all that was planned is no longer held back.
void Links::share_line(std::span<const Flow> planned) {
  if (planned.empty() && paced_.empty()) return;
  std::map<std::uint64_t, Flow> by_connection;
  for (const Flow& one : planned) {
    const Connection* connection = find(one.id);
    if (connection == nullptr || connection->over()) continue;
    Flow& flow = by_connection[one.id];
    flow.id = one.id;
    flow.planned_bytes += one.planned_bytes;
    flow.waiting |= one.waiting;
    flow.delivered = connection->delivered();
  }
  std::vector<Flow> flows;
  for (const auto& [serial, flow] : by_connection) flows.push_back(flow);
  const std::vector<double> paces = line_.look(needs_.clock.now(), flows);
  for (const std::uint64_t serial : std::exchange(paced_, {}))
    if (Connection* connection = find(serial); connection != nullptr && !by_connection.contains(serial))
      connection->pace(kUnpaced);
  for (std::size_t i = 0; i < flows.size(); ++i) {
    find(flows[i].id)->pace(paces[i]);
    paced_.push_back(flows[i].id);
  }
}

void Links::remember(const Attached& attached) {
  const Connection& connection = *attached.connection;
  const TimePoint now = needs_.clock.now();
  KnownPeer& known = needs_.peers.at(connection.peer(), now);
  const Traffic& traffic = connection.streams().traffic();
  for (std::size_t i = 0; i < kClasses; ++i) {
    known.bytes_sent += traffic.sent[i];
    known.bytes_received += traffic.received[i];
  }
  known.bulk_bytes += bulk_of(traffic);
  add(finished_, traffic);
  known.rtt = connection.rtt();
  known.rtt_deviation = connection.rtt_deviation();
  known.up_bytes_per_s = connection.up_bytes_per_s();
  known.down_bytes_per_s = connection.down_bytes_per_s();
  if (connection.is_circuit()) return;  // ended by the relay, perhaps: that is not the peer's death
  known.direct_at = now;
  needs_.peers.lost(connection.peer(), attached.since, now);
  if (connection.fell_silent() && !connection.is_punched())  // the hole may have closed: a relay leads there again
    needs_.peers.fell_silent(connection.peer(), now);
}

// --- which of several

bool Links::is_better(const Connection& fresh, const Connection& old) const {
  if (old.over() || old.is_doubtful(needs_.clock.now()) || fresh.theirs().incarnation != old.theirs().incarnation)
    return true;
  const Opened& one = fresh.ahead();
  const Opened& other = old.ahead();
  if (one.stream->is_circuit() != other.stream->is_circuit()) return other.stream->is_circuit();
  if (one.stream->carries_tensors() != other.stream->carries_tensors()) return one.stream->carries_tensors();
  if (one.punched != other.punched) return other.punched;  // a hole in a router closes by itself
  if (one.side == other.side) return one.attempt > other.attempt;
  const bool we_are_lower = needs_.self < fresh.peer();
  return (one.side == Side::dialled) == we_are_lower;
}

void Links::use(Connection& connection) {
  Connection* old = std::exchange(current_[connection.peer()], &connection);
  connection.superseded.reset();
  set_spare(attached(connection), false);
  KnownPeer& known = needs_.peers.at(connection.peer(), needs_.clock.now());
  if (old == nullptr && known.lost_at != TimePoint()) known.back_at = needs_.clock.now();
  if (old != nullptr) supersede(*old);
  needs_.user.on_change(connection.peer());
}

void Links::supersede(Connection& connection) {
  if (connection.superseded) return;
  connection.superseded = needs_.clock.now();
  set_spare(attached(connection), true);
  if (current(connection.peer()) == &connection) current_.erase(connection.peer());
  needs_.user.on_superseded(connection);
}

void Links::set_spare(Attached& attached, bool is) {
  if (std::exchange(attached.spare, is) == is) return;
  spares_ = is ? spares_ + 1 : spares_ - 1;
}

void Links::promote_spare(const PeerId& peer) {
  if (leaving_ || spares_ == 0) return;
  Connection* best = nullptr;
  for (auto& [serial, attached] : attached_) {
    Connection& connection = *attached.connection;
    if (!attached.spare || connection.ending() || connection.peer() != peer) continue;
    const bool surer = best == nullptr || connection.confirmed() > best->confirmed();
    if (surer || (connection.confirmed() == best->confirmed() && is_better(connection, *best))) best = &connection;
  }
  if (best != nullptr) use(*best);
}

std::vector<char> Links::moves(const PeerId& peer, const ByteStream& stream, Side side) {
  Connection* const old = current(peer);
  const TimePoint now = needs_.clock.now();
  if (old == nullptr || !old->is_circuit() || old->carries_tensors() > stream.carries_tensors()) return {};
  if ((stream.is_circuit() && !old->ends_soon()) || leaving_ || old->ending() || old->is_moving() ||
      old->is_doubtful(now))
    return {};
  Attached& one = attached(*old);
  if (now < one.agreed_until) return {};
  if (side == Side::accepted && now < one.asks_until && needs_.self < peer) return {};
  (side == Side::dialled ? one.asks_until : one.agreed_until) = now + options_.move_asked;
  return old->name();
}

std::optional<std::uint64_t> Links::move(std::unique_ptr<Opened> opened) {
  const PeerId peer = opened->channel.peer();
  const auto is_meant = [&](const auto& one) {
    const Connection& connection = *one.second.connection;
    return connection.peer() == peer && !connection.over() && connection.name() == opened->moves;
  };
  const auto found = std::find_if(attached_.begin(), attached_.end(), is_meant);
  if (found == attached_.end() || !found->second.connection->move_to(std::move(opened))) return std::nullopt;
  return found->first;
}

void Links::heard(Connection& connection) {
  const Connection* old = current(connection.peer());
  if (old == nullptr || old == &connection || !attached(connection).spare) return;
  if (is_better(connection, *old)) use(connection);
}

void Links::said_goodbye(Connection& connection) {
  supersede(connection);
  set_spare(attached(connection), false);
  if (current(connection.peer()) == nullptr) promote_spare(connection.peer());
}

void Links::settle(Connection& connection, TimePoint now) {
  if (!connection.superseded || still_needed(connection, now)) return;
  const Duration drained = now - *connection.superseded;
  const bool quiet = connection.streams().open_streams() == 0 && (leaving_ || drained >= options_.drain_min);
  if (quiet || drained >= options_.drain_max) connection.close(leaving_ ? "leaving" : "duplicate");
}

/// Whether this spare takes over from one whose other end is gone, or may have to.
bool Links::still_needed(Connection& spare, TimePoint now) {
  Connection* old = current(spare.peer());
  if (leaving_ || old == nullptr || !attached(spare).spare) return false;
  if (old->last_received() >= *spare.superseded) return false;
  if (!old->is_doubtful(now)) return true;  // it has been asked
  supersede(*old);
  old->drop("the peer has another connection");
  promote_spare(spare.peer());
  return current(spare.peer()) != nullptr;
}

void Links::say_goodbye(Connection& connection, const char* reason) {
  GoawayHead head;
  head.reason = reason;
  connection.streams().send_connection_frame(FrameType::goaway, encode_head(head));
  supersede(connection);
}

void Links::retire(Connection& connection) {
  say_goodbye(connection, connection.ends_soon() ? "circuit ends" : "unused");
  set_spare(attached(connection), false);
}

void Links::leave() {
  leaving_ = true;
  for (auto& [serial, attached] : attached_) say_goodbye(*attached.connection, "leaving");
}

// --- questions

Connection* Links::current(const PeerId& peer) const {
  const auto found = current_.find(peer);
  return found == current_.end() ? nullptr : found->second;
}

Connection* Links::find(std::uint64_t serial) const {
  const auto found = attached_.find(serial);
  return found == attached_.end() ? nullptr : found->second.connection.get();
}

bool Links::works(const PeerId& peer, const ByteStream& stream) {
  Connection* connection = current(peer);
  if (connection == nullptr || connection->ending() || connection->is_doubtful(needs_.clock.now())) return false;
  if ((connection->is_circuit() || connection->is_punched()) && !stream.is_circuit()) return false;
  if (connection->ends_soon()) return false;
  connection->probe(needs_.clock.now());  // else the next dial knows better
  return true;
}

std::vector<Connection*> Links::all() const {
  std::vector<Connection*> all;
  for (const auto& [serial, attached] : attached_) all.push_back(attached.connection.get());
  return all;
}

std::vector<PeerId> Links::connected() const {
  std::vector<PeerId> all;
  for (const auto& [peer, connection] : current_) all.push_back(peer);
  return all;
}

LinkState Links::state(const PeerId& peer) const {
  LinkState state;
  if (const KnownPeer* known = needs_.peers.find(peer)) {
    state.lost_at = known->lost_at;
    state.back_at = known->back_at;
    state.rtt = known->rtt;
    state.rtt_deviation = known->rtt_deviation;
    state.up_bytes_per_s = known->up_bytes_per_s;
    state.down_bytes_per_s = known->down_bytes_per_s;
    state.bytes_sent = known->bytes_sent;
    state.bytes_received = known->bytes_received;
    state.bulk_bytes = known->bulk_bytes;
  }
  const Connection* connection = current(peer);
  if (connection == nullptr) return state;
  state.connected = true;
  state.dialled = connection->side() == Side::dialled && !connection->is_circuit() && !connection->is_punched();
  state.circuit = connection->is_circuit();
  state.tensors = connection->carries_tensors();
  state.last_received = connection->last_received();
  state.line_bytes_received = connection->received_bytes();
  state.path = connection->path();
  if (connection->rtt() > Duration::zero()) {
    state.rtt = connection->rtt();
    state.rtt_deviation = connection->rtt_deviation();
    state.rtt_least = connection->rtt_least();
  }
  if (connection->up_bytes_per_s() > 0) state.up_bytes_per_s = connection->up_bytes_per_s();
  if (connection->down_bytes_per_s() > 0) state.down_bytes_per_s = connection->down_bytes_per_s();
  const Traffic& traffic = connection->streams().traffic();
  for (std::size_t i = 0; i < kClasses; ++i) {
    state.bytes_sent += traffic.sent[i];
    state.bytes_received += traffic.received[i];
  }
  state.bulk_bytes += bulk_of(traffic);
  return state;
}

Traffic Links::traffic() const {
  Traffic total = finished_;
  for (const auto& [serial, attached] : attached_) add(total, attached.connection->streams().traffic());
  return total;
}

}  // namespace collab::net
