#pragma once
// A peer with a key that says whatever a test wants, after (or before) a correct hello.

#include "net/opening.hpp"

#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace collab::test {

/// `head` and `payload` behind a prefix that tells the truth about them, unless the test changes it afterwards.
inline Bytes frame_bytes(net::Prefix prefix, const Bytes& head, const Bytes& payload = {}) {
  prefix.head_bytes = static_cast<std::uint16_t>(head.size());
  prefix.body_bytes = static_cast<std::uint32_t>(head.size() + payload.size());
  const auto twelve = net::encode(prefix);
  Bytes bytes(twelve.begin(), twelve.end());
  bytes.insert(bytes.end(), head.begin(), head.end());
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

inline net::Prefix prefix_of(net::FrameType type, net::StreamId stream, std::uint8_t flags = 0,
                             net::TrafficClass traffic = net::TrafficClass::latency) {
  net::Prefix prefix;
  prefix.type = static_cast<std::uint8_t>(type);
  prefix.stream = stream;
  prefix.flags = flags;
  prefix.traffic = static_cast<std::uint8_t>(traffic);
  return prefix;
}

/// A stream that lies about where it goes.
class MisplacedStream final : public net::ByteStream {
 public:
  MisplacedStream(std::unique_ptr<net::ByteStream> stream, net::Address remote)
      : stream_(std::move(stream)), remote_(std::move(remote)) {}
  Task<Result<std::size_t>> read(std::span<std::byte> into) override { return stream_->read(into); }
  Task<Result<>> write(std::span<const std::byte> bytes) override { return stream_->write(bytes); }
  void close() override { stream_->close(); }
  net::Address remote() const override { return remote_; }

 private:
  std::unique_ptr<net::ByteStream> stream_;
  net::Address remote_;
};

/// Dials as TLS client and says `hello`, which the test may have spoilt. Outlives its streams.
class RawPeer {
 public:
  RawPeer(unsigned number, net::Network& network, Clock& clock)
      : identity_(make(number)), tls_(identity_), network_(network), clock_(clock), rules_(make_rules()) {
    hello.run = "test";
  }
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;

  const PeerId& id() const { return identity_.id(); }
  std::int64_t now_ms() const { return clock_.unix_ms(); }

  Task<net::OpenResult> open(net::Address to) {
    auto stream = co_await network_.dial(std::move(to), clock_.now() + std::chrono::seconds(5));
    if (!stream) co_return Refusal(stream.error());
    if (sees) stream = std::make_unique<MisplacedStream>(std::move(*stream), *sees);
    co_return co_await net::open_dialled(rules_, std::move(*stream), std::nullopt, attempt);
  }

  /// Seals and sends.
  static Task<Result<>> say(net::Opened& opened, Bytes plaintext) {
    const auto sealed = opened.channel.seal(plaintext);
    if (!sealed) co_return sealed.error();
    const auto output = opened.channel.output();
    const Bytes bytes(output.begin(), output.end());
    opened.channel.sent(bytes.size());
    co_return co_await opened.stream->write(bytes);
  }

  /// Reads until the other side closes or `deadline`; whether it closed.
  Task<bool> closed_before(net::Opened& opened, TimePoint deadline) {
    Bytes buffer(64 * 1024);
    for (;;) {
      const auto size = co_await with_deadline(clock_, deadline, opened.stream->read(buffer));
      if (!size) co_return size.error() != Errc::late;
      if (*size == 0) co_return true;
    }
  }

  net::Hello hello;
  std::uint64_t attempt = 1;         ///< of the next `open`
  std::int64_t skew_ms = 0;          ///< added to the hello's time
  std::optional<net::Address> sees;  ///< what the hello says of the other's address, instead of the truth

 private:
  static Identity make(unsigned number) {
    Identity::Seed seed{};
    seed[0] = static_cast<unsigned char>(number);
    seed[1] = static_cast<unsigned char>(number >> 8U);
    return Identity::generate(seed);
  }
  net::OpeningRules make_rules() {
    const auto welcome = [](const PeerId&, const net::Hello&) { return std::optional<net::Refuse>(); };
    return {tls_, [this] { return hello; }, [this] { return now_ms() + skew_ms; },
            [this] { return now_ms() + skew_ms; }, welcome};
  }

  Identity identity_;
  net::TlsContext tls_;
  net::Network& network_;
  Clock& clock_;
  net::OpeningRules rules_;
};

}  // namespace collab::test
