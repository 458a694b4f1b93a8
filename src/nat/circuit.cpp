#include "nat/circuit.hpp"

#include "base/frame.hpp"

#include <algorithm>
#include <utility>

namespace collab::nat {
namespace {

constexpr Duration kLook = std::chrono::milliseconds(250);  // how soon an end sees that its relay is gone
constexpr Duration kSayEndTime = std::chrono::seconds(1);
constexpr Duration kPieceTime = std::chrono::milliseconds(10);
constexpr std::size_t kManyBytes = 4 * wire::kCarryBytesMax;
constexpr Duration kEndsSoon = std::chrono::seconds(10);

Task<> say_end(std::shared_ptr<CircuitLine> line, TimePoint deadline) {
  wire::End end;
  end.reason = "closed";
  (void)co_await line->send(frame::encode(wire::CircuitHeader(std::move(end))), deadline);  // the relay looks by itself
}

}  // namespace

Digest wire::circuit_topic(const CircuitId& id, const PeerKey& asker, CircuitEnd end) {
  Hasher hasher("collab.relay.circuit");
  hasher.add(std::span<const unsigned char>(id)).add(std::span<const unsigned char>(asker));
  return hasher.add(static_cast<std::uint64_t>(end)).finish();
}

net::Method circuit_protocol() {
  net::Method row;
  row.name = "relay.circuit";
  row.request_bytes_max = wire::kCircuitFrameBytesMax;
  row.shallow = true;  // in it words and tensors are one stream: a word waits behind all that was written
  return row;
}

net::TrafficClass traffic_of(wire::CircuitClass which) noexcept {
  return which == wire::CircuitClass::bulk ? net::TrafficClass::bulk : net::TrafficClass::latency;
}

bool is_direct(const net::LinkState& link) {
  return link.connected && !link.circuit;
}

CircuitLine::CircuitLine(net::Endpoint& of, OpenTopics& open, const Digest& about, const PeerId& other,
                         wire::CircuitClass which)
    : endpoint(of), topics(open), topic(about), with(other), traffic(traffic_of(which)) {
  topics.insert(topic);
  talk = endpoint.converse(circuit_protocol().name, net::Topic(topic), std::vector<PeerId>(1, with));
}

CircuitLine::~CircuitLine() {
  talk.reset();
  topics.erase(topic);
}

bool CircuitLine::stands() const {
  return is_direct(endpoint.link(with)) && !talk->closed_by(with);
}

Task<Result<>> CircuitLine::send(Frame frame, TimePoint deadline) {
  return talk->send(with, traffic, std::move(frame), deadline);
}

Task<Result<Frame>> CircuitLine::receive(TimePoint deadline) {
  for (;;) {
    auto envelope = co_await talk->receive(deadline);
    if (!envelope) co_return envelope.error();
    if (envelope->from == with) co_return std::move(envelope->frame);
  }
}

CircuitStream::CircuitStream(std::shared_ptr<CircuitLine> line, Clock& clock, TaskGroup* const& tasks,
                             TimePoint ends_at)
    : line_(std::move(line)),
      clock_(clock),
      tasks_(tasks),
      relay_(line_->with),
      tensors_(line_->traffic == net::TrafficClass::bulk),
      ends_at_(ends_at) {}

CircuitStream::~CircuitStream() {
  close();
}

/// Errors: `bad_request`, which ends the stream.
Result<> CircuitStream::take(const Frame& frame) {
  const auto message = frame::decode<wire::CircuitHeader>(*frame);
  if (!message) return Errc::bad_request;
  if (std::holds_alternative<wire::Carry>(message->header)) {
    unread_.append(message->payload);
  } else if (const auto* notice = std::get_if<wire::Notice>(&message->header)) {
    ends_at_ = std::min(ends_at_, clock_.now() + std::chrono::milliseconds(notice->left_ms));
  } else {
    ended_ = true;
  }
  return Result<>();
}

Task<Result<std::size_t>> CircuitStream::read(std::span<std::byte> into) {
  for (;;) {
    if (!line_) co_return Errc::gone;
    if (!unread_.empty()) {
      const auto bytes = unread_.bytes().first(std::min(unread_.size(), into.size()));
      std::copy(bytes.begin(), bytes.end(), into.begin());
      const std::size_t taken = bytes.size();
      unread_.consume(taken);
      if (unread_.empty()) unread_.rest();
      co_return taken;
    }
    if (ended_) co_return std::size_t(0);
    const auto line = line_;  // close() may come meanwhile
    const auto frame = co_await line->receive(clock_.now() + kLook);
    if (!line_) co_return Errc::gone;
    if (!frame && !line->stands()) co_return Errc::gone;
    if (frame && !take(*frame)) {
      close();
      co_return Errc::gone;
    }
  }
}

Task<Result<>> CircuitStream::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), piece_bytes_));
    const Frame frame = frame::encode(wire::CircuitHeader(wire::Carry()), piece);
    const TimePoint began = clock_.now();
    for (bool sent = false; !sent;) {
      const auto line = line_;
      if (!line || ended_ || !line->stands()) co_return Errc::gone;
      const TimePoint until = clock_.now() + kLook;
      const auto said = co_await line->send(frame, until);
      const bool waited = clock_.now() >= until;  // else that `late` is the relay's word
      if (!said && (said.error() != Errc::late || !waited)) co_return Errc::gone;
      sent = said.has_value();  // else the other end does not read: nothing of it has left
    }
    bytes = bytes.subspan(piece.size());
    resize_pieces(piece.size(), clock_.now() - began);
  }
  co_return Result<>();
}

/// Long ones where the way is fast; where it is slow a word would wait for the one before it. What only fills the queue
/// that a circuit has is gone at once on any way.
void CircuitStream::resize_pieces(std::size_t bytes, Duration taken) {
  gone_soon_ = taken > kPieceTime ? 0 : gone_soon_ + bytes;
  if (gone_soon_ == 0) {
    piece_bytes_ = wire::kCarryBytesMin;
  } else if (tensors_ && gone_soon_ >= kManyBytes) {
    piece_bytes_ = wire::kCarryBytesMax;
  }
}

void CircuitStream::close() {
  const auto line = std::exchange(line_, nullptr);
  if (!line || ended_ || tasks_ == nullptr || !line->stands()) return;
  tasks_->spawn("relay.end", say_end(line, clock_.now() + kSayEndTime));
}

net::Address CircuitStream::remote() const {
  net::Address at;
  at.host = relay_.text();
  at.leg = net::Leg::relay;
  at.relay = relay_;
  return at;
}

bool CircuitStream::ends_soon() const {
  return ended_ || clock_.now() + kEndsSoon >= ends_at_;
}

}  // namespace collab::nat
