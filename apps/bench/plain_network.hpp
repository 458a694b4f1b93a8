#pragma once
// TCP without encryption, to measure beside others that have none: of this program only, no peer has it.

#include "net/channel_engine.hpp"
#include "net/network.hpp"

#include <memory>
#include <optional>
#include <utility>

namespace collab::bench {

/// Each end says who it is and is believed; then bytes travel as they are.
class PlainChannels final : public net::ChannelEngines {
 public:
  std::unique_ptr<net::ChannelEngine> make(const PeerId& own, net::Side side,
                                           const std::optional<PeerId>& expected) const override;
};

/// What it is given, with such channels.
class PlainNetwork final : public net::Network {
 public:
  explicit PlainNetwork(net::Network& network) : network_(network) {}
  Task<Result<std::unique_ptr<net::ByteStream>>> dial(net::Address to, TimePoint deadline) override {
    return network_.dial(std::move(to), deadline);
  }
  Result<std::unique_ptr<net::Listener>> listen(const net::Address& at) override { return network_.listen(at); }
  const net::ChannelEngines* channel_engines() const noexcept override { return &channels_; }

 private:
  net::Network& network_;
  PlainChannels channels_;
};

}  // namespace collab::bench
