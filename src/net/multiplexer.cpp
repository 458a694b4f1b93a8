#include "net/multiplexer.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

namespace collab::net {
namespace {

constexpr std::size_t kSmallPieceBytes = 4096;  // less is not worth a frame, while more of the message is there
constexpr std::size_t kCreditMax = std::size_t(1) << 28U;
constexpr std::size_t kReserveFirst = 16 * 1024;
constexpr std::size_t kRefusalTextMax = 1024;

Bytes credit_head(std::size_t bytes) {
  CreditHead head;
  head.bytes = static_cast<std::uint32_t>(bytes);
  return encode_head(head);
}

}  // namespace

Multiplexer::Multiplexer(std::uint64_t serial, const PeerId& peer, bool dialled, MultiplexerOwner& owner,
                         const Options& options)
    : serial_(serial), peer_(peer), dialled_(dialled), owner_(owner), options_(options), next_wire_(dialled ? 1 : 2) {
  for (std::size_t i = 0; i < kClasses; ++i) {
    accounts_[i].credit = accounts_[i].given = accounts_[i].window = kConnectionCredit[i];
  }
}

// --- sending

Result<StreamHandle> Multiplexer::open(TrafficClass traffic, StreamUser& user, OpenHead head, Frame first, bool last) {
  constexpr StreamId kWireMax = 0xffff'fff0U;
  if (open_mine_ >= options_.streams_max || next_wire_ > kWireMax) return Errc::busy;
  const StreamHandle handle = next_handle_++;
  Stream& stream = streams_[handle];
  ++open_mine_;
  stream.traffic = traffic;
  stream.user = &user;
  stream.credit = stream.given = stream.window = kStreamCredit[index(traffic)];
  const auto size = static_cast<std::uint32_t>(first ? first->size() : 0);
  std::visit([&](auto& open) { open.size = size; }, head);
  Queued queued;
  queued.type = FrameType::open;
  queued.head = encode_open(head);
  queued.body = std::move(first);
  queued.last = last;
  queue_message(handle, stream, std::move(queued));
  return handle;
}

void Multiplexer::send(StreamHandle handle, Frame message, bool last) {
  Stream* stream = find(handle);
  if (stream == nullptr) return;
  Queued queued;
  queued.body = std::move(message);
  queued.last = last;
  queue_message(handle, *stream, std::move(queued));
}

void Multiplexer::end(StreamHandle handle) {
  Stream* stream = find(handle);
  if (stream == nullptr) return;
  Queued queued;
  queued.type = FrameType::end;
  queued.last = true;
  queue_message(handle, *stream, std::move(queued));
}

void Multiplexer::queue_message(StreamHandle handle, Stream& stream, Queued queued) {
  assert(!queued.body || queued.body->size() <= kMessageBytesMax);
  stream.queued_bytes += queued.body ? queued.body->size() : 0;
  if (stream.queue.empty()) ready_[index(stream.traffic)].push_back(handle);
  stream.queue.push_back(std::move(queued));
  owner_.on_output();
}

void Multiplexer::reset(StreamHandle handle, const Refusal& why) {
  Stream* stream = find(handle);
  if (stream == nullptr) return;
  if (stream->wire != 0) {
    ResetHead head;
    head.code = static_cast<std::uint8_t>(why.code);
    head.text = why.reason.substr(0, kRefusalTextMax);
    head.number = why.number;
    Piece piece;
    piece.head = encode_head(head);
    piece.prefix.type = static_cast<std::uint8_t>(FrameType::reset);
    piece.prefix.stream = stream->wire;
    connection_frames_.push_back(std::move(piece));
  }
  owe(index(stream->traffic), stream->arrived);
  forget(handle);
  owner_.on_output();
}

std::size_t Multiplexer::queued(StreamHandle handle) const {
  const auto found = streams_.find(handle);
  return found == streams_.end() ? 0 : found->second.queued_bytes;
}

void Multiplexer::send_connection_frame(FrameType type, Bytes head) {
  Piece piece;
  piece.prefix.type = static_cast<std::uint8_t>(type);
  piece.head = std::move(head);
  connection_frames_.push_back(std::move(piece));
  owner_.on_output();
}

bool Multiplexer::next(Piece& piece, std::size_t payload_bytes_max) {
  if (!connection_frames_.empty()) {
    piece = std::move(connection_frames_.front());
    connection_frames_.pop_front();
    piece.prefix.head_bytes = static_cast<std::uint16_t>(piece.head.size());
    piece.prefix.body_bytes = static_cast<std::uint32_t>(piece.head.size());
    return true;
  }
  for (std::size_t traffic = 0; traffic < kClasses; ++traffic)
    if (next_of_class(traffic, piece, payload_bytes_max)) return true;
  return false;
}

/// How much of the first message may leave now. Mid-message the other side has promised the rest, so a small remainder
/// of credit means that more is on its way.
std::size_t Multiplexer::sendable(const Stream& stream, std::size_t traffic, std::size_t payload_bytes_max) const {
  const Queued& queued = stream.queue.front();
  const std::size_t left = queued.body->size() - queued.offset;
  const std::size_t bytes = std::min({left, payload_bytes_max, stream.credit, accounts_[traffic].credit});
  return bytes < std::min({left, kSmallPieceBytes, payload_bytes_max}) ? 0 : bytes;
}

bool Multiplexer::next_of_class(std::size_t traffic, Piece& piece, std::size_t payload_bytes_max) {
  auto& ready = ready_[traffic];
  for (std::size_t i = 0; i < ready.size(); ++i) {
    const StreamHandle handle = ready[i];
    Stream& stream = streams_.at(handle);
    const Queued& queued = stream.queue.front();
    const bool has_body = queued.body && !queued.body->empty();
    const std::size_t bytes = has_body ? sendable(stream, traffic, payload_bytes_max) : 0;
    if (has_body && bytes == 0) continue;  // waits for credit
    accounts_[traffic].credit -= bytes;
    traffic_.sent[traffic] += bytes;
    cut(handle, stream, bytes, piece);
    return true;
  }
  return false;
}

void Multiplexer::cut(StreamHandle handle, Stream& stream, std::size_t bytes, Piece& piece) {
  auto& ready = ready_[index(stream.traffic)];
  Queued& queued = stream.queue.front();
  const std::size_t size = queued.body ? queued.body->size() : 0;
  const bool first = queued.offset == 0;
  const bool whole = queued.offset + bytes == size;
  piece.head = first ? std::move(queued.head) : Bytes();
  if (first && !whole && queued.type == FrameType::data) {
    DataHead head;
    head.size = static_cast<std::uint32_t>(size);
    piece.head = encode_head(head);
  }
  if (stream.wire == 0) {
    stream.wire = next_wire_;
    next_wire_ += 2;
    mine_[stream.wire] = handle;
  }
  piece.prefix.type = static_cast<std::uint8_t>(first ? queued.type : FrameType::data);
  piece.prefix.stream = stream.wire;
  piece.prefix.flags = static_cast<std::uint8_t>(whole ? (queued.last ? kLast : 0) : kMore);
  piece.prefix.traffic = static_cast<std::uint8_t>(stream.traffic);
  piece.prefix.head_bytes = static_cast<std::uint16_t>(piece.head.size());
  piece.prefix.body_bytes = static_cast<std::uint32_t>(piece.head.size() + bytes);
  piece.body = queued.body;
  piece.offset = queued.offset;
  queued.offset += bytes;
  stream.queued_bytes -= bytes;
  stream.credit -= bytes;
  const auto at = std::find(ready.begin(), ready.end(), handle);
  if (!whole) {  // one message of a class at a time, so that credit for a whole one is enough
    if (at != ready.begin()) std::rotate(ready.begin(), at, at + 1);
    return;
  }
  stream.sent_last = stream.sent_last || queued.last;
  stream.queue.pop_front();
  ready.erase(at);
  if (!stream.queue.empty()) ready.push_back(handle);
  if (stream.sent_last && stream.received_last) return close_if_done(handle);
  stream.user->on_room(*this, handle);
}

void Multiplexer::close_if_done(StreamHandle handle) {
  Stream* stream = find(handle);
  if (stream == nullptr || !stream->sent_last || !stream->received_last) return;
  StreamUser* user = stream->user;
  forget(handle);
  user->on_closed(*this, handle, StreamEnd::done, Refusal(Errc::gone));
}

void Multiplexer::forget(StreamHandle handle) {
  const auto found = streams_.find(handle);
  auto& ready = ready_[index(found->second.traffic)];
  ready.erase(std::remove(ready.begin(), ready.end(), handle), ready.end());
  if (handle >> 32U != 0) {
    --open_mine_;
    mine_.erase(found->second.wire);
  }
  streams_.erase(found);
}

Multiplexer::Stream* Multiplexer::find(StreamHandle handle) {
  const auto found = streams_.find(handle);
  return found == streams_.end() ? nullptr : &found->second;
}

// --- credit that we give

void Multiplexer::give(StreamId wire, TrafficClass traffic, std::size_t bytes) {
  Piece piece;
  piece.prefix.type = static_cast<std::uint8_t>(FrameType::credit);
  piece.prefix.stream = wire;
  piece.prefix.traffic = static_cast<std::uint8_t>(traffic);
  piece.head = credit_head(bytes);
  connection_frames_.push_back(std::move(piece));
  owner_.on_output();
}

void Multiplexer::owe(std::size_t traffic, std::size_t bytes) {
  Account& account = accounts_[traffic];
  const std::size_t kept = std::min(bytes, account.withheld);
  account.withheld -= kept;
  account.owed += static_cast<std::int64_t>(bytes - kept);
  if (account.owed < static_cast<std::int64_t>(account.window / 4)) return;
  account.given += static_cast<std::size_t>(account.owed);
  give(0, static_cast<TrafficClass>(traffic), static_cast<std::size_t>(std::exchange(account.owed, 0)));
}

void Multiplexer::consumed(StreamHandle handle, TrafficClass traffic, std::size_t bytes) {
  owe(index(traffic), bytes);
  Stream* stream = find(handle);
  if (stream == nullptr || stream->received_last) return;
  stream->owed += static_cast<std::int64_t>(bytes);
  if (stream->owed < static_cast<std::int64_t>(stream->window / 4)) return;
  stream->given += static_cast<std::size_t>(stream->owed);
  give(stream->wire, traffic, static_cast<std::size_t>(std::exchange(stream->owed, 0)));
}

void Multiplexer::hold(StreamHandle handle) {
  if (Stream* stream = find(handle)) stream->held = true;
}

void Multiplexer::release(StreamHandle handle) {
  Stream* stream = find(handle);
  if (stream == nullptr || stream->received_last) return;
  stream->held = false;
  need(handle, *stream);
}

void Multiplexer::widen(StreamHandle handle) {
  Stream* stream = find(handle);
  if (stream == nullptr || stream->received_last) return;
  grow(*stream, options_.stream_window);
  release(handle);
}

void Multiplexer::double_window(StreamHandle handle) {
  Stream* stream = find(handle);
  if (stream != nullptr && !stream->received_last) grow(*stream, std::min(2 * stream->window, options_.stream_window));
}

void Multiplexer::grow(Stream& stream, std::size_t window) {
  if (stream.traffic == TrafficClass::control || stream.window >= window) return;
  const std::size_t more = window - stream.window;
  stream.window += more;
  stream.given += more;
  give(stream.wire, stream.traffic, more);
}

std::size_t Multiplexer::window(StreamHandle handle) const {
  const auto stream = streams_.find(handle);
  return stream == streams_.end() ? 0 : stream->second.window;
}

void Multiplexer::widen_connection(TrafficClass traffic, std::size_t bytes) {
  Account& account = accounts_[index(traffic)];
  account.window += bytes;
  account.given += bytes;
  give(0, traffic, bytes);
}

void Multiplexer::narrow_connection(TrafficClass traffic, std::size_t bytes) {
  Account& account = accounts_[index(traffic)];
  account.window -= bytes;
  account.withheld += bytes;
}

/// A message that has begun can be finished: without this, one longer than a window would wait for ever.
void Multiplexer::need(StreamHandle handle, Stream& stream) {
  if (stream.held || stream.expected == 0) return;
  const std::size_t arriving = in_frame_ && current_stream_ == handle ? payload_left_ : 0;
  const std::size_t missing = stream.expected - stream.arrived - arriving;
  if (stream.given < missing) {
    const std::size_t more = missing - stream.given;
    stream.given += more;
    stream.owed -= static_cast<std::int64_t>(more);
    give(stream.wire, stream.traffic, more);
  }
  Account& account = accounts_[index(stream.traffic)];
  if (account.given < missing) {
    const std::size_t more = missing - account.given;
    const std::int64_t owed = account.owed - static_cast<std::int64_t>(more);
    if (owed < -static_cast<std::int64_t>(options_.unread_message_bytes_max)) return;
    account.owed = owed;
    account.given += more;
    give(0, stream.traffic, more);
  }
}

// --- receiving

bool Multiplexer::violate(std::string_view rule) {
  violation_ = rule;
  return false;
}

Result<std::size_t> Multiplexer::receive(std::span<const std::byte> plaintext) {
  std::size_t taken = 0;
  while (violation_.empty()) {
    const auto rest = plaintext.subspan(taken);
    if (in_frame_) {
      const std::size_t bytes = std::min(rest.size(), payload_left_);
      if (bytes == 0 && payload_left_ > 0) break;
      take_payload(rest.first(bytes));
      taken += bytes;
      continue;
    }
    if (rest.size() < kPrefixBytes) break;
    const Prefix prefix = decode_prefix(rest.first<kPrefixBytes>());
    if (prefix.body_bytes > kBodyBytesMax || prefix.head_bytes > prefix.body_bytes) {
      violate("frame_too_long");
      break;
    }
    if (rest.size() < kPrefixBytes + prefix.head_bytes) break;
    taken += kPrefixBytes + prefix.head_bytes;
    if (!begin_frame(prefix, rest.subspan(kPrefixBytes, prefix.head_bytes))) break;
    if (connection_frames_.size() > options_.control_frames_max) violate("control_flood");
  }
  if (!violation_.empty()) return Errc::bad_request;
  return taken;
}

bool Multiplexer::begin_frame(const Prefix& prefix, std::span<const std::byte> head) {
  current_ = prefix;
  current_stream_ = 0;
  payload_left_ = prefix.payload_bytes();
  in_frame_ = true;
  if (prefix.type >= kOptionalTypes) return true;
  if ((prefix.flags & ~(kMore | kLast)) != 0) return violate("reserved_flags");
  if (prefix.traffic >= kClasses) return violate("unknown_class");
  const auto type = static_cast<FrameType>(prefix.type);
  if (type == FrameType::open) return begin_open(prefix, head);
  if (type == FrameType::data) return begin_data(prefix, head);
  if (payload_left_ > 0) return violate("unexpected_payload");
  switch (type) {
    case FrameType::credit: return credit_frame(prefix, head);
    case FrameType::end:
    case FrameType::reset: return stream_frame(type, prefix, head);
    case FrameType::ping:
    case FrameType::pong:
    case FrameType::goaway:
    case FrameType::refuse:
    case FrameType::moved: {
      const std::string_view rule = owner_.on_connection_frame(type, head);
      return rule.empty() || violate(rule);
    }
    case FrameType::hello: return violate("hello_repeated");
    default: return violate("unknown_type");
  }
}

bool Multiplexer::begin_open(const Prefix& prefix, std::span<const std::byte> head) {
  if (prefix.stream == 0 || is_mine(prefix.stream)) return violate("stream_id");
  if (prefix.stream <= highest_theirs_) return violate("stream_reused");
  highest_theirs_ = prefix.stream;
  Account& account = accounts_[prefix.traffic];
  const std::size_t payload = prefix.payload_bytes();
  if (payload > account.given || payload > kStreamCredit[prefix.traffic]) return violate("overdrawn");
  account.given -= payload;
  if (streams_.size() - open_mine_ >= options_.streams_max) return violate("too_many_streams");

  const StreamHandle handle = prefix.stream;
  const auto traffic = static_cast<TrafficClass>(prefix.traffic);
  Stream& stream = streams_[handle];
  stream.traffic = traffic;
  stream.wire = prefix.stream;
  stream.credit = stream.given = stream.window = kStreamCredit[prefix.traffic];
  stream.given -= payload;
  current_stream_ = handle;

  auto opened = decode_open(head);
  if (!opened) {
    reset(handle, Refusal(Errc::bad_request, "malformed head"));
    return true;
  }
  const bool more = (prefix.flags & kMore) != 0;
  const std::size_t size =
      more ? std::visit([](const auto& open) { return std::size_t(open.size); }, *opened) : payload;
  if (size > kMessageBytesMax) return violate("message_size");  // whatever the method allows
  const auto user = owner_.on_open(*this, handle, traffic, std::move(*opened), size);
  if (!user) {
    reset(handle, user.error());
    return true;
  }
  stream.user = *user;
  return begin_piece(handle, prefix, size);
}

bool Multiplexer::begin_data(const Prefix& prefix, std::span<const std::byte> head) {
  if (!known_or_over(prefix.stream)) return violate("stream_unknown");
  Account& account = accounts_[prefix.traffic];
  const std::size_t payload = prefix.payload_bytes();
  if (payload > account.given) return violate("overdrawn");
  account.given -= payload;
  const StreamHandle handle = handle_of(prefix.stream);
  Stream* stream = find(handle);
  if (stream == nullptr) return true;  // we have reset it, the sender does not know yet
  if (stream->traffic != static_cast<TrafficClass>(prefix.traffic)) return violate("class_changed");
  if (stream->received_last) return violate("data_after_last");
  if (payload > stream->given) return violate("overdrawn");
  stream->given -= payload;
  current_stream_ = handle;
  std::size_t size = payload;
  if (stream->expected == 0 && (prefix.flags & kMore) != 0) {
    const auto data = decode_head<DataHead>(head);
    if (!data) return violate("malformed_head");
    size = data->size;
  }
  return begin_piece(handle, prefix, size);
}

bool Multiplexer::begin_piece(StreamHandle handle, const Prefix& prefix, std::size_t message_bytes) {
  Stream* stream = find(handle);
  if (stream == nullptr) return true;  // the user has reset it meanwhile
  const bool more = (prefix.flags & kMore) != 0;
  const std::size_t payload = prefix.payload_bytes();
  if (more && (prefix.flags & kLast) != 0) return violate("reserved_flags");
  if (stream->expected == 0) {
    if (message_bytes > kMessageBytesMax || message_bytes < payload || (more && payload == 0))
      return violate("message_size");
    stream->expected = message_bytes;
  }
  const std::size_t after = stream->arrived + payload;
  if (more ? after >= stream->expected : after != stream->expected) return violate("message_size");
  make_room(*stream, after);
  if (more) need(handle, *stream);
  return true;
}

/// For so much of the message that is arriving. All of it is believed to come when more than a little has.
void Multiplexer::make_room(Stream& stream, std::size_t bytes) {
  if (bytes <= stream.message.size()) return;
  Buffer wider(bytes <= kReserveFirst ? std::min(stream.expected, kReserveFirst) : stream.expected);
  std::copy_n(stream.message.begin(), stream.arrived, wider.begin());
  stream.message = std::move(wider);
}

std::span<std::byte> Multiplexer::room() {
  if (!in_frame_ || !violation_.empty() || current_.type >= kOptionalTypes) return {};
  Stream* stream = find(current_stream_);
  if (stream == nullptr) return {};
  return std::span(stream->message).subspan(stream->arrived, payload_left_);
}

void Multiplexer::filled(std::size_t bytes) {
  assert(bytes > 0 && bytes <= room().size());
  payload_left_ -= bytes;
  traffic_.received[current_.traffic] += bytes;
  find(current_stream_)->arrived += bytes;
  if (payload_left_ == 0) finish_frame();
}

void Multiplexer::take_payload(std::span<const std::byte> bytes) {
  if (const auto into = room(); !into.empty()) {
    std::copy(bytes.begin(), bytes.end(), into.begin());
    return filled(bytes.size());
  }
  payload_left_ -= bytes.size();
  if (current_.type < kOptionalTypes && !bytes.empty()) {
    traffic_.received[current_.traffic] += bytes.size();
    owe(current_.traffic, bytes.size());
  }
  if (payload_left_ == 0) finish_frame();
}

void Multiplexer::finish_frame() {
  in_frame_ = false;
  Stream* stream = find(current_stream_);
  if (stream == nullptr || (current_.flags & kMore) != 0) return;
  const StreamHandle handle = current_stream_;
  StreamUser* user = stream->user;
  const bool last = (current_.flags & kLast) != 0;
  stream->received_last = last;
  stream->expected = 0;
  if (std::exchange(stream->arrived, 0) > 0)
    user->on_message(*this, handle, std::make_shared<const Buffer>(std::move(stream->message)));
  if (!last) return;
  if (find(handle) != nullptr) user->on_end(*this, handle);
  close_if_done(handle);
}

StreamHandle Multiplexer::handle_of(StreamId wire) const {
  if (!is_mine(wire)) return wire;
  const auto found = mine_.find(wire);
  return found == mine_.end() ? 0 : found->second;
}

bool Multiplexer::known_or_over(StreamId wire) {
  if (wire == 0) return false;
  return is_mine(wire) ? wire < next_wire_ : wire <= highest_theirs_;
}

bool Multiplexer::stream_frame(FrameType type, const Prefix& prefix, std::span<const std::byte> head) {
  if (!known_or_over(prefix.stream)) return violate("stream_unknown");
  const StreamHandle handle = handle_of(prefix.stream);
  Stream* stream = find(handle);
  if (stream == nullptr) return true;
  StreamUser* user = stream->user;
  if (type == FrameType::end) {
    if (stream->expected != 0 || stream->received_last) return violate("message_size");
    stream->received_last = true;
    user->on_end(*this, handle);
    close_if_done(handle);
    return true;
  }
  const auto reset = decode_head<ResetHead>(head);
  if (!reset || reset->code < 1 || reset->code > static_cast<std::uint8_t>(Errc::gone))
    return violate("malformed_head");
  owe(index(stream->traffic), stream->arrived);
  forget(handle);
  const Refusal why(static_cast<Errc>(reset->code), printable(reset->text.substr(0, kRefusalTextMax)), reset->number);
  user->on_closed(*this, handle, StreamEnd::refused, why);
  return true;
}

bool Multiplexer::credit_frame(const Prefix& prefix, std::span<const std::byte> head) {
  const auto credit = decode_head<CreditHead>(head);
  if (!credit) return violate("malformed_head");
  std::size_t* into = nullptr;
  if (prefix.stream == 0) {
    into = &accounts_[prefix.traffic].credit;
  } else {
    if (!known_or_over(prefix.stream)) return violate("stream_unknown");
    Stream* stream = find(handle_of(prefix.stream));
    if (stream == nullptr) return true;
    into = &stream->credit;
  }
  *into += credit->bytes;
  if (*into > kCreditMax) return violate("credit_overflow");
  owner_.on_output();
  return true;
}

void Multiplexer::lose() {
  while (!streams_.empty()) {
    const StreamHandle handle = streams_.begin()->first;
    StreamUser* user = streams_.begin()->second.user;
    forget(handle);
    if (user != nullptr) user->on_closed(*this, handle, StreamEnd::lost, Refusal(Errc::gone, "the connection broke"));
  }
}

bool Multiplexer::inside_message() const {
  return std::any_of(streams_.begin(), streams_.end(), [](const auto& entry) { return is_unfinished(entry.second); });
}

void Multiplexer::reset_unfinished(const Refusal& why) {
  std::vector<std::pair<StreamHandle, StreamUser*>> unfinished;
  for (const auto& [handle, stream] : streams_)
    if (is_unfinished(stream)) unfinished.emplace_back(handle, stream.user);
  for (const auto& [handle, user] : unfinished) {
    reset(handle, why);
    user->on_closed(*this, handle, StreamEnd::refused, why);
  }
}

}  // namespace collab::net
