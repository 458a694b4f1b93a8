#pragma once
// Two multiplexers whose frames go straight to each other: streams without TLS, sockets or time.

#include "net/multiplexer.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace collab::test {

/// One end: keeps what its streams were told.
class StreamEndpoint final : public net::MultiplexerOwner, public net::StreamUser {
 public:
  explicit StreamEndpoint(bool dialled, const net::Multiplexer::Options& options = {})
      : streams(1, PeerId(), dialled, *this, options) {}

  net::Accepted on_open(net::Multiplexer& from, net::StreamHandle stream, net::TrafficClass, net::OpenHead,
                        std::size_t) override {
    opened.push_back(stream);
    if (refuse) return *refuse;
    if (hold) from.hold(stream);
    return this;
  }
  std::string_view on_connection_frame(net::FrameType, std::span<const std::byte>) override { return {}; }
  void on_output() override {}
  void on_message(net::Multiplexer& from, net::StreamHandle stream, Frame message) override {
    received.emplace_back(stream, std::move(message));
    if (reads) from.consumed(stream, traffic, received.back().second->size());
  }
  void on_end(net::Multiplexer&, net::StreamHandle) override { ++ends; }
  void on_closed(net::Multiplexer&, net::StreamHandle stream, net::StreamEnd end, const Refusal& why) override {
    closed[stream] = end;
    if (end == net::StreamEnd::refused) refusals[stream] = why;
  }

  net::Multiplexer streams;
  net::TrafficClass traffic = net::TrafficClass::bulk;  ///< of the streams that are read
  bool reads = true;
  bool hold = false;
  std::optional<Refusal> refuse;
  std::vector<net::StreamHandle> opened;
  std::vector<std::pair<net::StreamHandle, Frame>> received;
  std::map<net::StreamHandle, net::StreamEnd> closed;
  std::map<net::StreamHandle, Refusal> refusals;
  int ends = 0;
};

/// Moves at most `pieces_max` frames from one end to the other, cut at `split` bytes; every other piece, where there is
/// room, straight into the message that it belongs to. False: a violation.
inline bool carry(StreamEndpoint& from, StreamEndpoint& to, std::size_t piece_bytes = 64 * 1024,
                  std::size_t pieces_max = 100'000, std::size_t split = 100'000) {
  Bytes wire;
  net::Piece piece;
  for (std::size_t i = 0; i < pieces_max && from.streams.next(piece, piece_bytes); ++i) {
    const auto prefix = net::encode(piece.prefix);
    const auto payload = piece.payload();
    wire.insert(wire.end(), prefix.begin(), prefix.end());
    wire.insert(wire.end(), piece.head.begin(), piece.head.end());
    wire.insert(wire.end(), payload.begin(), payload.end());
  }
  Bytes unread;
  for (std::size_t at = 0; at < wire.size(); at += split) {
    auto part = std::span(wire).subspan(at, std::min(split, wire.size() - at));
    if (const auto room = to.streams.room(); at / split % 2 == 1 && unread.empty() && !room.empty()) {
      const std::size_t placed = std::min(room.size(), part.size());
      std::copy_n(part.begin(), placed, room.begin());
      to.streams.filled(placed);
      part = part.subspan(placed);
    }
    unread.insert(unread.end(), part.begin(), part.end());
    const auto taken = to.streams.receive(unread);
    if (!taken) return false;
    unread.erase(unread.begin(), unread.begin() + static_cast<std::ptrdiff_t>(*taken));
  }
  return true;
}

/// Back and forth until nothing moves any more.
inline bool settle(StreamEndpoint& a, StreamEndpoint& b, std::size_t piece_bytes = 64 * 1024) {
  for (int i = 0; i < 200; ++i)
    if (!carry(a, b, piece_bytes) || !carry(b, a, piece_bytes)) return false;
  return true;
}

}  // namespace collab::test
