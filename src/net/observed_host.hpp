#pragma once
// Where this node is, as others see it.

#include "base/signal.hpp"
#include "net/connection.hpp"

#include <optional>
#include <span>
#include <string>

namespace collab::net {

/// The host that two connected peers of different hosts name, else the only one that is named; the last such while
/// there is none. One stranger cannot move it. Those behind a circuit see the relay, so they are not heard.
class ObservedHost {
 public:
  explicit ObservedHost(const asio::any_io_executor& executor) : moved_(executor) {}

  /// Of all connections that there are now.
  void look(std::span<Connection* const> connections);
  /// Nothing before the first one.
  const std::optional<std::string>& host() const noexcept { return host_; }
  /// Notified when it is another one than before.
  Signal& moved() noexcept { return moved_; }

 private:
  std::optional<std::string> host_;
  Signal moved_;
};

}  // namespace collab::net
