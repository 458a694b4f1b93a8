#pragma once
// A held port of a simulated host: SYNs that leave it, meet others on the way, and are answered.

#include "sim/network.hpp"

namespace collab::sim {

/// A dial that goes on. Who dials back from where it leads, to the port that it comes from, becomes its other end.
struct Host::Crossing {
  explicit Crossing(const asio::any_io_executor& executor) : changed(executor) {}
  std::unique_ptr<net::ByteStream> met;
  Signal changed;
};

/// Owned by whoever dials; the host outlives it.
class HostPort final : public net::LocalPort {
 public:
  HostPort(Host& host, std::uint16_t number) : host_(host), network_(host.network_), number_(number) {}

  std::uint16_t number() const override { return number_; }
  Task<Result<std::unique_ptr<net::ByteStream>>> dial(net::Address to, TimePoint deadline) override;

 private:
  /// One SYN on its way.
  struct Syn {
    net::Address to;
    net::Address seen;  ///< as whom it comes
    Host::Doors doors;
    TimePoint arrives;  ///< by the host's clock
    Duration one_way{};
  };
  enum class Fate : std::uint8_t { accepted, refused, dropped };

  std::optional<Syn> send(const net::Address& to);
  Fate arrive(Syn syn, std::unique_ptr<net::ByteStream>& near);
  Task<> wait(Host::Crossing& own, TimePoint until);

  Host& host_;
  SimNetwork& network_;
  std::uint16_t number_;
};

}  // namespace collab::sim
