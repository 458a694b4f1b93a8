#include "plain_network.hpp"

#include <algorithm>
#include <cstring>

namespace collab::bench {
namespace {

constexpr std::size_t kPiece = 4096;

class PlainChannel final : public net::ChannelEngine {
 public:
  PlainChannel(const PeerId& own, const std::optional<PeerId>& expected) : expected_(expected) {
    output.append(std::as_bytes(std::span(own.key)));
  }

  std::size_t receive(std::span<const std::byte> bytes, std::span<std::byte> room) override {
    if (!established) return introduce(bytes);
    placed = opened.empty() ? std::min(room.size(), bytes.size()) : 0;
    std::copy_n(bytes.begin(), placed, room.begin());
    if (placed > 0) return placed;
    const auto some = bytes.first(std::min(bytes.size(), kPiece));  // so that what comes next may find its room
    opened.append(some);
    return some.size();
  }
  void seal(std::span<const std::byte> head, std::span<const std::byte> body) override {
    if (!head.empty()) output.append(head);
    if (!body.empty()) output.append(body);
  }
  void close() override {}
  std::array<std::byte, 32> exporter(std::string_view) const override { return {}; }
  void trim() override {}

 private:
  /// How many of `bytes` belong to the other end's id.
  std::size_t introduce(std::span<const std::byte> bytes) {
    const std::size_t taken = std::min(bytes.size(), peer.key.size() - known_);
    std::memcpy(peer.key.data() + known_, bytes.data(), taken);
    known_ += taken;
    if (known_ < peer.key.size()) return taken;
    if (expected_ && *expected_ != peer) {
      fail(net::TlsFault::wrong_peer, "somebody else is there");
      return taken;
    }
    established = true;
    return taken;
  }

  std::optional<PeerId> expected_;
  std::size_t known_ = 0;
};

}  // namespace

std::unique_ptr<net::ChannelEngine> PlainChannels::make(const PeerId& own, net::Side,
                                                        const std::optional<PeerId>& expected) const {
  return std::make_unique<PlainChannel>(own, expected);
}

}  // namespace collab::bench
