#include "net/tcp_options.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace collab::net {

bool use_interface(int socket, const std::string& name) {
  if (name.empty()) return true;
  return ::setsockopt(socket, SOL_SOCKET, SO_BINDTODEVICE, name.c_str(), static_cast<socklen_t>(name.size())) == 0;
}

void queue_at_most(int socket, std::size_t bytes) {
  const auto value = static_cast<int>(bytes);
  (void)::setsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &value, sizeof value);
}

/// Linux paces TCP by itself, whatever the queueing of the device is, and by payload.
void pace(int socket, double bytes_per_s) {
  constexpr auto kNone = std::numeric_limits<std::uint32_t>::max();
  const auto value = static_cast<std::uint32_t>(std::min(bytes_per_s, double(kNone)));
  (void)::setsockopt(socket, SOL_SOCKET, SO_MAX_PACING_RATE, &value, sizeof value);
}

void receive_at_most(int socket, std::size_t bytes) {
  const auto value = static_cast<int>(std::min<std::size_t>(bytes, std::numeric_limits<int>::max()));
  (void)::setsockopt(socket, IPPROTO_TCP, TCP_WINDOW_CLAMP, &value, sizeof value);
}

std::size_t unconfirmed(int socket) {
  int bytes = 0;  // that wait to be sent, or on their way
  return ::ioctl(socket, SIOCOUTQ, &bytes) == 0 && bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

}  // namespace collab::net
