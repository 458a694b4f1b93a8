#pragma once
// A network that uses no more of the line than its owner allows.

#include "net/network.hpp"
#include "net/throttle.hpp"

#include <cstdint>
#include <memory>

namespace collab::net {

/// Wraps a network: all that its streams carry, handshakes and what is relayed for others too, leaves and comes within
/// `up` and `down`. Streams get equal parts of what is short, in turns of 20 ms: what is said last on one of them waits
/// that long for each other one at most. What comes is held back by small windows, so that it waits at its sender. All
/// is counted, also without limits.
/// Names that are looked up, and the packets that confirm what came, are not counted.
///
/// Thread safety: none; belongs to the node's loop. Outlived by `network` and `clock`; its streams may outlive it.
class LimitedNetwork final : public Network {
 public:
  struct Limits {
    double up = kUncapped;  ///< bytes/s, headers of packets included
    double down = kUncapped;
  };

  LimitedNetwork(Network& network, Clock& clock, const Limits& limits);

  Task<Result<std::unique_ptr<ByteStream>>> dial(Address to, TimePoint deadline) override;
  Task<Result<std::unique_ptr<ByteStream>>> dial_peer(Address to, std::optional<PeerId> expected,
                                                      TimePoint deadline) override;
  Result<std::unique_ptr<Listener>> listen(const Address& at) override;
  Result<std::unique_ptr<LocalPort>> local_port(const std::string& host) override;
  Caps caps() const override;
  /// Bytes on the line so far, both ways. Any thread.
  std::uint64_t carried() const noexcept;
  const ChannelEngines* channel_engines() const noexcept override { return network_.channel_engines(); }

 private:
  /// What the streams share.
  struct Line;
  class Stream;
  class Door;
  class Port;
  using NewStream = Result<std::unique_ptr<ByteStream>>;
  static NewStream within(const std::shared_ptr<Line>& line, NewStream stream);

  Network& network_;
  std::shared_ptr<Line> line_;
};

}  // namespace collab::net
