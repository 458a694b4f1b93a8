// What a connection carries, from any bytes: prefixes and heads decode or are refused, and what was taken is packed to
// what decodes to the same again; streams take any frames, in any cut, and their bounds hold.
#include "net/hello.hpp"
#include "net/multiplexer.hpp"
#include "support.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>

namespace collab::fuzz::net_wire_target {

using namespace net;

void require(bool holds) {
  if (!holds) std::abort();
}

template <class Head>
void read_head(std::span<const std::byte> bytes) {
  const auto head = decode_head<Head>(bytes);
  if (!head) return;
  const Bytes once = encode_head(*head);
  const auto again = decode_head<Head>(once);
  require(again.has_value());
  require(encode_head(*again) == once);
}

/// Takes every stream, keeps every other message unread.
class Reader final : public MultiplexerOwner, public StreamUser {
 public:
  Accepted on_open(Multiplexer& from, StreamHandle stream, TrafficClass traffic, OpenHead head, std::size_t) override {
    if (std::holds_alternative<OpenCall>(head) && std::get<OpenCall>(head).left_ms % 8 == 7)
      return Refusal(Errc::busy, "not this one");
    require(open.insert(stream).second);
    classes[stream] = traffic;
    if (std::holds_alternative<OpenTopic>(head)) from.hold(stream);
    return this;
  }
  std::string_view on_connection_frame(FrameType, std::span<const std::byte> head) override {
    return head.size() > 1000 ? "malformed_head" : std::string_view();
  }
  void on_output() override {}
  void on_message(Multiplexer& from, StreamHandle stream, Frame message) override {
    require(open.contains(stream) && !message->empty() && message->size() <= kMessageBytesMax);
    if (++messages % 2 == 0) from.consumed(stream, classes.at(stream), message->size());
  }
  void on_end(Multiplexer& from, StreamHandle stream) override {
    require(open.contains(stream));
    from.end(stream);
  }
  void on_closed(Multiplexer&, StreamHandle stream, StreamEnd, const Refusal&) override {
    require(open.erase(stream) == 1);
  }

  std::set<StreamHandle> open;
  std::map<StreamHandle, TrafficClass> classes;
  std::size_t messages = 0;
};

void read_stream(std::span<const std::byte> bytes, std::size_t cut) {
  Reader reader;
  Multiplexer streams(1, PeerId(), false, reader, Multiplexer::Options());
  Bytes unread;
  for (std::size_t at = 0; at < bytes.size(); at += cut) {
    auto part = bytes.subspan(at, std::min(cut, bytes.size() - at));
    if (const auto room = streams.room(); at / cut % 2 == 1 && unread.empty() && !room.empty()) {
      const std::size_t placed = std::min(room.size(), part.size());
      std::copy_n(part.begin(), placed, room.begin());
      streams.filled(placed);
      part = part.subspan(placed);
    }
    unread.insert(unread.end(), part.begin(), part.end());
    const auto taken = streams.receive(unread);
    if (!taken) {
      require(!streams.violation().empty());
      break;
    }
    require(*taken <= unread.size());
    unread.erase(unread.begin(), unread.begin() + static_cast<std::ptrdiff_t>(*taken));
    require(unread.size() <= kPrefixBytes + 0xffff);  // at most a frame's beginning waits
    Piece piece;
    while (streams.next(piece, 64 * 1024)) require(piece.prefix.body_bytes <= kBodyBytesMax);
  }
  (void)streams.inside_message();
  streams.reset_unfinished(Refusal(Errc::late));
  streams.lose();
  require(reader.open.empty());
}

COLLAB_FUZZ_TARGET(net_wire) {
  const auto bytes = std::as_bytes(std::span(data, size));
  if (size >= kPrefixBytes) {
    const auto twelve = bytes.first<kPrefixBytes>();
    require(std::ranges::equal(encode(decode_prefix(twelve)), twelve));
  }
  if (const auto hello = decode_hello(bytes)) {
    require(decode_hello(encode_head(*hello)).has_value());
    (void)judge(*hello, *hello, 0);
  }
  if (const auto refuse = decode_head<Refuse>(bytes)) require(to_refusal(*refuse).reason.size() <= 2000);
  read_head<PingHead>(bytes);
  read_head<DataHead>(bytes);
  read_head<ResetHead>(bytes);
  read_head<CreditHead>(bytes);
  read_head<GoawayHead>(bytes);
  if (const auto open = decode_open(bytes)) require(decode_open(encode_open(*open)).has_value());
  if (size > 0) read_stream(bytes.subspan(1), data[0] % 64 + std::size_t(1));
  if (size > 0) read_stream(bytes.subspan(1), size);
  return 0;
}

}  // namespace collab::fuzz::net_wire_target
