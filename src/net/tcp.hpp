#pragma once
// The operating system's TCP, by Asio; through a proxy where one is set, with WebSockets where an address asks for
// them.

#include "net/network.hpp"
#include "net/proxy.hpp"
#include "net/proxy_gate.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace collab::net {

class Wss;

/// Thread safety: none; belongs to the node's loop. Outlives its streams and listeners.
///
/// A dialled name is looked up, and its addresses are tried one after the other, IPv6 first; each but the last gets at
/// most `attempt_timeout`. Listening at `[::]` takes IPv4 as well; on a machine without IPv6 it takes IPv4 alone.
/// What the proxy leads to is dialled through it, and named to it as it is: no name is looked up here but the proxy's.
/// A login that it refuses is told to it again after a minute only; until then dials fail as the first one did.
class TcpNetwork final : public Network {
 public:
  struct Options {
    Duration attempt_timeout = std::chrono::seconds(3);
    Duration unacknowledged_max = std::chrono::seconds(10);  ///< TCP_USER_TIMEOUT: then the stream is `gone`
    int unsent_bytes = 128 * 1024;  ///< TCP_NOTSENT_LOWAT: what the kernel holds that a control frame cannot pass
    int backlog = 256;              ///< connections that wait to be accepted
    std::optional<Proxy> proxy = {};
    std::string interface = {};  ///< that all is dialled and accepted by; empty: any. While it is not
                                 ///< there dials are `gone`
    Duration proxy_timeout = std::chrono::seconds(4);  ///< for it to be reached, and again for its answer
  };

  TcpNetwork(asio::any_io_executor executor, Clock& clock) : TcpNetwork(std::move(executor), clock, Options()) {}
  TcpNetwork(asio::any_io_executor executor, Clock& clock, const Options& options)
      : executor_(std::move(executor)),
        clock_(clock),
        options_(options),
        gate_(executor_, clock_, options.proxy && !options.proxy->user.empty()) {}
  static Options behind(std::optional<Proxy> proxy, std::string interface = {}) {
    Options options;
    options.proxy = std::move(proxy);
    options.interface = std::move(interface);
    return options;
  }

  /// Also `ProxyFault`, and the status of a proxy's answer.
  Task<Result<std::unique_ptr<ByteStream>>> dial(Address to, TimePoint deadline) override;
  Result<std::unique_ptr<Listener>> listen(const Address& at) override;
  Result<std::unique_ptr<LocalPort>> local_port(const std::string& host) override;
  /// What the name service says of a host, numeric, in its order; a numeric host is its own answer. Errors: `gone` (no
  /// such host, or no name service), `late`.
  Task<Result<std::vector<std::string>>> look_up(std::string host, TimePoint deadline);
  const std::optional<Proxy>& proxy() const noexcept { return options_.proxy; }

 private:
  Wss& wss();
  Task<Result<asio::ip::tcp::socket>> connect_by_proxy(Address to, TimePoint deadline);

  asio::any_io_executor executor_;
  Clock& clock_;
  Options options_;
  ProxyGate gate_;
  std::shared_ptr<Wss> wss_;  ///< made for the first address that asks for it
};

}  // namespace collab::net
