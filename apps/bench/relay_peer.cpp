#include "relay_peer.hpp"

#include <limits>
#include <string>
#include <utility>

namespace collab::bench {
namespace {

constexpr double kBytesPerSecondMax = 1e10;

nat::RelayServer::Options options_of(bool relays, double bits_per_s) {
  nat::RelayServer::Options options;
  options.mode = relays ? nat::RelayMode::bulk : nat::RelayMode::off;
  options.bulk.bytes_max = std::numeric_limits<std::uint64_t>::max() / 2;
  options.bulk.life = std::chrono::hours(24);
  options.bulk.bytes_per_s = bits_per_s > 0 ? bits_per_s / 8 : kBytesPerSecondMax;
  options.bulk.bytes_per_s_of_all = kBytesPerSecondMax;
  return options;
}

}  // namespace

void RelayPeer::use(net::Endpoint& endpoint, bool relays, double bits_per_s) {
  circuits_.use(endpoint, [](const PeerId&) { return true; });
  const auto host_of = [](const PeerId&) { return std::optional<std::string>("127.0.0.1"); };  // nobody reserves
  nat::RelayServer::Needs serving{needs_.executor, endpoint,           needs_.clock, needs_.log,
                                  metrics_,        circuits_.topics(), host_of,      [] { return true; }};
  server_ = std::make_unique<nat::RelayServer>(std::move(serving), options_of(relays, bits_per_s));
}

void RelayPeer::start(TaskGroup& tasks) {
  tasks.spawn("circuits", circuits_.run());
  tasks.spawn("relay", server_->run());
}

}  // namespace collab::bench
