#pragma once
// The operating system's TCP, by Asio.

#include "net/network.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <string>
#include <vector>

namespace collab::net {

/// Thread safety: none; belongs to the node's loop. Outlives its streams and listeners.
///
/// A dialled name is looked up, and its addresses are tried one after the other, IPv6 first; each but the last gets at
/// most `attempt_timeout`. Listening at `[::]` takes IPv4 as well; on a machine without IPv6 it takes IPv4 alone.
class TcpNetwork final : public Network {
 public:
  struct Options {
    Duration attempt_timeout = std::chrono::seconds(3);
    Duration unacknowledged_max = std::chrono::seconds(10);  ///< TCP_USER_TIMEOUT: then the stream is `gone`
    int unsent_bytes = 128 * 1024;  ///< TCP_NOTSENT_LOWAT: what the kernel holds that a control frame cannot pass
    int backlog = 256;              ///< connections that wait to be accepted
  };

  TcpNetwork(asio::any_io_executor executor, Clock& clock) : TcpNetwork(std::move(executor), clock, Options()) {}
  TcpNetwork(asio::any_io_executor executor, Clock& clock, const Options& options)
      : executor_(std::move(executor)), clock_(clock), options_(options) {}

  Task<Result<std::unique_ptr<ByteStream>>> dial(Address to, TimePoint deadline) override;
  Result<std::unique_ptr<Listener>> listen(const Address& at) override;
  /// What the name service says of a host, numeric, in its order; a numeric host is its own answer. Errors: `gone` (no
  /// such host, or no name service), `late`.
  Task<Result<std::vector<std::string>>> look_up(std::string host, TimePoint deadline);

 private:
  asio::any_io_executor executor_;
  Clock& clock_;
  Options options_;
};

}  // namespace collab::net
