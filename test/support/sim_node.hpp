#pragma once
// A production endpoint on a simulated host.

#include "net/limited_network.hpp"
#include "net/peer_endpoint.hpp"
#include "sim/network.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace collab::test {

inline Identity identity_of(unsigned char number) {
  Identity::Seed seed{};
  seed[0] = number;
  return Identity::generate(seed);
}

inline Frame filled_frame(std::size_t bytes, unsigned char value = 7) {
  return std::make_shared<const Buffer>(Bytes(bytes, std::byte(value)));
}

/// A host's clock with a calendar that a test may set.
class CalendarClock final : public Clock {
 public:
  explicit CalendarClock(Clock& clock) : clock_(clock) {}
  TimePoint now() const override { return clock_.now(); }
  std::int64_t unix_ms() const override { return clock_.unix_ms() + ahead_ms; }
  Task<> sleep_until(TimePoint when) override { return clock_.sleep_until(when); }
  Task<bool> rings(Wakeup& alarm, TimePoint when) override { return clock_.rings(alarm, when); }

  std::int64_t ahead_ms = 0;

 private:
  Clock& clock_;
};

/// Host "10.0.0.<number>", port 4600. Construct, add methods, `start`; `co_await stop()` at the end.
class SimNode {
 public:
  SimNode(sim::Simulation& world, sim::SimNetwork& network, unsigned char number, net::EndpointOptions options = {},
          sim::LineOptions line = {}, std::optional<net::LimitedNetwork::Limits> limits = {})
      : host_(network.add_host("10.0.0." + std::to_string(number), line)),
        clock_(host_.clock()),
        limited_(host_, clock_, limits.value_or(net::LimitedNetwork::Limits())),
        identity_(identity_of(number)),
        access_(Access::Options()),
        endpoint_({world.executor(), clock_, limits ? static_cast<net::Network&>(limited_) : host_, Random(number),
                   log_, metrics_, identity_, access_},
                  with_defaults(std::move(options), host_.address())),
        tasks_(world.executor(), rethrow) {
    log_.observe([this](LogLevel, std::string_view event, Log::Fields) { ++events_[std::string(event)]; });
  }

  void start() {
    endpoint_.listen();
    tasks_.spawn("run", endpoint_.run());
  }
  Task<> stop() { return tasks_.stop(); }

  net::PeerEndpoint& endpoint() { return endpoint_; }
  sim::Host& host() { return host_; }
  CalendarClock& clock() { return clock_; }
  Access& access() { return access_; }
  Metrics& metrics() { return metrics_; }
  const Identity& identity() const { return identity_; }
  const PeerId& id() const { return identity_.id(); }
  TimePoint in(Duration time) { return clock().now() + time; }
  net::Address address() const {
    net::Address address;
    address.host = host_.address();
    address.port = 4600;
    return address;
  }
  void knows(const SimNode& other) { endpoint_.introduce(other.id(), std::vector<net::Address>(1, other.address())); }
  /// How often an event was logged.
  int events(const std::string& name) { return events_[name]; }
  double refused(const std::string& reason) const {
    return metrics_.value("collab_refused_total", {{"reason", reason}});
  }

 private:
  static net::EndpointOptions with_defaults(net::EndpointOptions options, const std::string& host) {
    if (options.run.empty()) options.run = "test";
    net::Address at;
    at.host = host;
    at.port = 4600;
    options.listen.push_back(at);
    return options;
  }

  sim::Host& host_;
  CalendarClock clock_;
  net::LimitedNetwork limited_;
  Identity identity_;
  Access access_;
  Log log_;
  Metrics metrics_;
  std::map<std::string, int> events_;
  net::PeerEndpoint endpoint_;
  TaskGroup tasks_;
};

}  // namespace collab::test
